//! Events that are counted and sampled at the same time, where there is a PMU. The samplings have the settings of other
//! tests, because a process has few different ones.

use std::hint::black_box;

use perfmark::{Sampling, perfmark};

use crate::loops::spin_three;
use crate::passed_alone;
use crate::sampled::{sampled, until_sampled};

#[perfmark(cycles)]
#[inline(never)]
fn counted(times: u64) {
    spin_three(black_box(times));
}

#[test]
fn marks_count_an_event_that_is_sampled() {
    if passed_alone() {
        return;
    }
    let work = || {
        until_sampled(|| counted(10_000));
        (0..100).for_each(|_| counted(10_000));
    };
    let Some(sampled) = sampled(Sampling::new().frequency(3_001), work) else { return };
    let Some(cycles) = sampled.0.marks[sampled.mark("counted")].event("cycles") else {
        return println!("skipped: no PMU");
    };
    println!("{} calls measured, {} unmeasured", cycles.measured, cycles.unmeasured);
    assert_eq!(cycles.unmeasured, 0);
}
