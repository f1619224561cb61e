//! Events that are counted and sampled at the same time, where there is a PMU. The samplings have the settings of other
//! tests, because a process has few different ones.

use std::hint::black_box;

use perfmark::{Sampling, perfmark};
use perfmark_rdpmc::{Attr, Counter, Hardware};

use crate::alone;
use crate::loops::spin_three;
use crate::sampled::{sampled, until_sampled, wait_until_sampled};

#[perfmark(cycles)]
#[inline(never)]
fn counted(times: u64) {
    spin_three(black_box(times));
}

#[test]
fn marks_count_an_event_that_is_sampled() {
    let _alone = alone();
    let work = || {
        until_sampled(|| counted(10_000));
        (0..100).for_each(|_| counted(10_000));
    };
    let Some(sampled) = sampled(Sampling::new().frequency(3_001), work) else { return };
    let values = &sampled.0.marks[sampled.mark("counted")].values;
    let Some(cycles) = values.iter().find(|values| values.event == "cycles") else {
        return println!("skipped: no PMU");
    };
    println!("{} calls measured, {} unmeasured", cycles.measured, cycles.unmeasured);
    assert_eq!(cycles.unmeasured, 0);
}

#[test]
fn a_named_event_has_all_its_samples_while_more_events_are_counted_than_there_are_counters() {
    const PERIOD: u64 = 1_000_003;
    let _alone = alone();
    let cycles = Attr::new(Hardware::Cycles).wide(false);
    // More than a PMU has counters.
    let counters: Vec<_> = (0..64).map_while(|_| Counter::open(&cycles).ok()).collect();
    if counters.is_empty() {
        return println!("skipped: no PMU");
    }
    let mut occurred = 0;
    let work = || {
        wait_until_sampled();
        let counter = Counter::open(&cycles.pinned(true)).expect("a counter is left");
        spin_three(5_000_000);
        occurred = counter.read().expect("on the PMU").value;
    };
    let Some(sampled) = sampled(Sampling::new().event("cycles").period(PERIOD), work) else { return };
    let taken = sampled.samples().taken() + sampled.samples().lost;
    println!("{taken} samples of {occurred} cycles, one in {PERIOD}");
    assert!(taken >= occurred / PERIOD / 10 * 9, "{taken}");
}
