//! Samples of hardware events.

use perfmark_rdpmc::sample::{Body, Content, Sampler};
use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Region, known_loop};

use super::{for_each_record, open, support};

const PERIOD: u64 = 100_000;

/// Pinned, so that it is on the counter of its own in the machine of `ci/pmu-machine`, whose other counters interrupt
/// late.
fn cycles() -> Sampler {
    Sampler::new(Attr::new(Hardware::Cycles).pinned(true)).period(PERIOD).content(Content::IP)
}

pub(super) fn every_overflow_is_a_sample() {
    let ring = open(&cycles());
    let before = ring.count().expect("readable");
    let executed = known_loop(50_000_000);
    let after = ring.count().expect("readable");
    ring.disable().expect("allowed");
    let mut samples: u64 = 0;
    for_each_record(&ring, |record| match record.body {
        Body::Sample(_) => samples += 1,
        Body::Throttle(_) | Body::Unthrottle(_) => {}
        other => panic!("{other:?}"),
    });
    let counted = after.value - before.value;
    println!("{samples} samples of {counted} cycles, {executed} instructions");
    // A late or throttled interrupt replaces several.
    assert!((1..=counted / PERIOD + 1).contains(&samples), "{samples} samples of {counted} cycles");
    // A cycle is an instruction there, and no interrupt is late.
    assert!(!support::is_emulated() || (999..=1_001).contains(&samples), "{samples} samples");
    assert_eq!(after.lost.unwrap_or(0), 0);
}

pub(super) fn a_sample_inside_a_region_does_not_change_its_count() {
    const REGIONS: usize = 400;
    let counter = Counter::open(&Attr::new(Hardware::Instructions)).expect("opens");
    let ring = open(&cycles());
    let (mut region, mut with, mut without) = (Region::default(), Vec::new(), Vec::new());
    let (mut last_lock, mut unchanged) = (None, 0);
    while with.len() < REGIONS {
        let head = ring.head();
        counter.begin(&mut region);
        let _ = known_loop(20_000);
        let inside = counter.end(&region);
        let sampled = ring.head() != head;
        let Delta::Exact(exact) = inside else { panic!("{inside:?}") };
        // A region in which the kernel changed the page, and the one after it, take more instructions to begin or end.
        let lock = counter.page_lock();
        unchanged = if lock == last_lock { unchanged + 1 } else { 0 };
        last_lock = lock;
        if unchanged > 1 {
            if sampled { with.push(exact) } else { without.push(exact) }
        }
        for_each_record(&ring, |_| ());
    }
    let [fewest, most] = [Iterator::min, Iterator::max].map(|of| of(with.iter().chain(&without)).expect("many"));
    println!("{} regions with a sample, {} without: {fewest} to {most} instructions", with.len(), without.len());
    assert!(fewest == most || !support::is_emulated(), "with a sample {with:?}, without {without:?}");
}
