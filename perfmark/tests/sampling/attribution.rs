//! Calls of known shares: each sample belongs to its call, however short calls are.

use std::hint::black_box;
use std::thread::Builder;

use perfmark::{Sampling, Stacks, perfmark};

use crate::loops::{spin_seven, spin_three};
use crate::memory::faults;
use crate::passed_alone;
use crate::sampled::{sampled, until_sampled, wait_until_sampled};

#[perfmark(time)]
#[inline(never)]
fn three(times: u64) {
    spin_three(times);
}

#[perfmark(time)]
#[inline(never)]
fn seven(times: u64) {
    spin_seven(times);
}

#[perfmark(time)]
#[inline(never)]
fn both(times: u64) {
    three(times);
    seven(times);
}

/// Nanoseconds of CPU time, or cycles. A prime is not in step with the calls.
const PERIOD: u64 = 50_021;

/// Rounds of both loops: for about 10,000 samples of an optimized build, or with `PERFMARK_TEST_FULL` for more than
/// 250,000.
fn rounds() -> u64 {
    match std::env::var_os("PERFMARK_TEST_FULL") {
        Some(_) => 150_000_000,
        // Short calls take much longer then.
        None if cfg!(debug_assertions) => 300_000,
        None => 5_000_000,
    }
}

#[track_caller]
fn check(times: u64, rounds: u64, points: f64) {
    let work = || {
        wait_until_sampled();
        let mut random = 1_u64;
        for _ in 0..rounds / times {
            both(times);
            // In the emulated machine, each sample would else be at the same instruction of a call.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (0..random >> 58).for_each(|n| _ = black_box(n));
        }
    };
    if let Some(sampled) = sampled(Sampling::new().period(PERIOD).stacks(Stacks::Off), work) {
        sampled.check(["three", "seven"], points);
        assert_eq!(sampled.in_loops(Some("both")), [0, 0]);
        assert_eq!(sampled.in_loops(None), [0, 0]);
    }
}

#[test]
fn samples_belong_to_the_calls_in_which_they_were_taken() {
    if passed_alone() {
        return;
    }
    check(50_000, rounds(), 0.3);
}

#[test]
fn samples_belong_to_calls_of_some_nanoseconds() {
    if passed_alone() {
        return;
    }
    // The processor executes the code around such a short loop in its time, or the loop in that code's time.
    check(1, rounds() / 2, 3.0);
}

#[test]
fn samples_outside_of_marks_are_grouped_by_the_names_of_threads() {
    if passed_alone() {
        return;
    }
    let sampling = Sampling::new().event("page_faults").period(1).stacks(Stacks::Off);
    let work = || {
        for name in ["worker-1", "worker-27", "idle"] {
            let thread = Builder::new().name(name.into()).spawn(|| until_sampled(|| faults(1)));
            thread.expect("a thread").join().expect("no panic");
        }
    };
    let Some(sampled) = sampled(sampling, work) else { return };
    let names: Vec<_> = sampled.samples().paths.iter().filter_map(|path| path.thread.as_deref()).collect();
    println!("{names:?}");
    assert!(names.contains(&"worker-*") && names.contains(&"idle"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains(char::is_numeric)), "{names:?}");
}
