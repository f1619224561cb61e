//! Parses any bytes as records of any layout: what the input's first 24 bytes request, and the rest.

#![no_main]

use libfuzzer_sys::fuzz_target;
use perfmark_rdpmc::sample::{Body, Branches, Content, Layout, Registers, Sampler, Values, Words};
use perfmark_rdpmc::{Attr, Software};

/// A number from the first 8 bytes, which are removed.
fn number(data: &mut &[u8]) -> u64 {
    let (first, rest) = data.split_at(8);
    *data = rest;
    u64::from_le_bytes(first.try_into().expect("8 bytes"))
}

fn layout(data: &mut &[u8]) -> Layout {
    let [bits, user, interrupted] = [number(data), number(data), number(data)];
    let mut sampler = Sampler::dummy().sample_id_all(bits >> 63 == 1);
    for (n, &branches) in Branches::ALL.iter().enumerate() {
        if bits >> (32 + n) & 1 == 1 {
            sampler = sampler.branches(branches);
        }
    }
    if bits >> 62 & 1 == 1 {
        sampler = sampler.group([Attr::new(Software::TaskClock)]);
    }
    sampler = sampler.user_registers(user).interrupt_registers(interrupted);
    for (n, &content) in Content::ALL.iter().enumerate() {
        if bits >> n & 1 == 1 {
            sampler = sampler.content(content);
        }
    }
    sampler.layout()
}

/// As many numbers as there are, and no more.
fn read_words(words: Words<'_>) {
    let all = words.iter();
    let length = all.len();
    assert_eq!(all.count(), length);
    assert!(words.get(length).is_none() && (length == 0 || words.get(length - 1).is_some()));
}

fn read_registers(registers: Registers<'_>) {
    read_words(registers.values);
    let known = (0..70).filter(|&register| registers.get(register).is_some()).count();
    assert_eq!(known, registers.mask.count_ones() as usize);
}

fn read_values(values: Values<'_>, most: usize) {
    assert!(values.iter().count() <= most);
}

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    if data.len() < 24 {
        return;
    }
    let layout = layout(&mut data);
    let mut left = data.len();
    for record in layout.records(data) {
        left = left.checked_sub(8).expect("each has a header");
        _ = format!("{record:?}");
        match record.body {
            Body::Sample(sample) => {
                sample.values.into_iter().for_each(|values| read_values(values, data.len() / 8));
                sample.callchain.into_iter().for_each(read_words);
                sample.user_registers.into_iter().for_each(read_registers);
                sample.interrupt_registers.into_iter().for_each(read_registers);
                if let Some(branches) = sample.branches {
                    let count = branches.iter().count();
                    assert!(branches.counters.is_none_or(|counters| counters.iter().len() == count));
                    branches.counters.into_iter().for_each(read_words);
                }
            }
            Body::Read(read) => read_values(read.values, data.len() / 8),
            Body::Namespaces(namespaces) => assert!(namespaces.iter().count() <= data.len() / 16),
            Body::Unknown { bytes, .. } => left = left.checked_sub(bytes.len()).expect("they are in the input"),
            _ => {}
        }
    }
});
