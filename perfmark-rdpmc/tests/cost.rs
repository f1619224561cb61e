//! What a reading costs, in instructions, which repeat exactly in the emulated machine.

mod support;

use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Region};

fn main() {
    support::run(vec![], &[("a_region_costs_a_few_instructions", a_region_costs_a_few_instructions)]);
}

const REGIONS: u64 = 1_000;

/// Instructions that a turn of `work` takes more than an empty one, as another counter has it; the least of a few tries.
fn instructions(work: &mut dyn FnMut(&Counter), nothing: &mut dyn FnMut(&Counter)) -> u64 {
    let counter = Counter::open(&Attr::new(Hardware::Instructions)).expect("there is a PMU");
    let witness = Counter::open(&Attr::new(Hardware::Instructions)).expect("there is a PMU");
    let mut count = |work: &mut dyn FnMut(&Counter)| {
        let tries = (0..5).filter_map(|_| {
            let before = witness.read().ok()?;
            work(&counter);
            match witness.read().ok()?.since(&before) {
                Delta::Exact(instructions) => Some(instructions),
                _ => None,
            }
        });
        tries.min().expect("counted")
    };
    (count(work) - count(nothing)) / REGIONS
}

fn a_region_costs_a_few_instructions() {
    let turn = |turn: &dyn Fn(&Counter), counter: &Counter| (0..REGIONS).for_each(|_| turn(counter));
    let _ = turn;
    let region = instructions(
        &mut |counter| {
            let mut region = Region::default();
            for _ in 0..REGIONS {
                counter.begin(&mut region);
                if !matches!(counter.end(&region), Delta::Exact(_)) {
                    std::hint::black_box(());
                }
            }
        },
        &mut |_| {
            for n in 0..REGIONS {
                std::hint::black_box(n);
            }
        },
    );
    let whole = instructions(
        &mut |counter| {
            for _ in 0..REGIONS {
                let _ = std::hint::black_box(counter.read_user());
                let _ = std::hint::black_box(counter.read_user());
            }
        },
        &mut |_| {
            for n in 0..REGIONS {
                std::hint::black_box(n);
            }
        },
    );
    let kernel = instructions(
        &mut |counter| {
            for _ in 0..REGIONS {
                let _ = std::hint::black_box(counter.read_syscall());
                let _ = std::hint::black_box(counter.read_syscall());
            }
        },
        &mut |_| {
            for n in 0..REGIONS {
                std::hint::black_box(n);
            }
        },
    );
    println!("instructions in user mode: {region} a region; {whole} by two whole user reads; {kernel} by two read(2)");
}
