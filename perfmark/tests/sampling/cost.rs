//! What sampling costs, in instructions.

use std::hint::black_box;

use perfmark::{Sampling, perfmark};
use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Region};

use crate::cpu_time::cpu_time;
use crate::loops::spin_seven;
use crate::memory::faults;
use crate::passed_alone;
use crate::sampled::{sampled, until_sampled};

#[perfmark(time)]
#[inline(never)]
fn one(n: u64) -> u64 {
    black_box(n)
}

#[perfmark(cycles, instructions)]
#[inline(never)]
fn two(n: u64) -> u64 {
    black_box(n)
}

#[perfmark(cycles, instructions, every = 1_000_000)]
#[inline(never)]
fn skipped(n: u64) -> u64 {
    black_box(n)
}

#[perfmark(cycles, instructions, every = 1_000_000)]
#[inline(never)]
fn skipped_around(n: u64) -> u64 {
    two(n)
}

/// The fewest instructions of some calls, in none of which a histogram has grown.
fn instructions_of_a_call(counter: &Counter, call: fn(u64) -> u64) -> u64 {
    let count = |_| {
        let mut region = Region::default();
        counter.begin(&mut region);
        (0..100).for_each(|n| _ = call(n));
        match counter.end(&region) {
            Delta::Exact(count) => count / 100,
            other => panic!("{other:?}"),
        }
    };
    (0..20).map(count).min().unwrap_or(0)
}

/// The least CPU time of a loop with this many rounds, in nanoseconds. It contains that of the samples. The loop is
/// repeated so often that some contain no other work of the kernel, such as its timer's.
fn cpu_time_of_a_loop(rounds: u64) -> u64 {
    let time = |_| {
        let before = cpu_time();
        spin_seven(rounds);
        cpu_time() - before
    };
    (0..100).map(time).min().unwrap_or(0)
}

#[test]
fn a_sample_with_512_bytes_of_stack_costs_at_most_3100_instructions() {
    // 10 periods: fewer samples than after which the kernel wakes the thread that reads them.
    const ROUNDS: u64 = 17_858;
    const INSTRUCTIONS: u64 = 56 * ROUNDS;
    const PERIOD: u64 = 100_003;
    if passed_alone() {
        return;
    }
    let before = cpu_time_of_a_loop(ROUNDS);
    // The interrupt of a sample stops the counters. But in the emulated machine an instruction takes a nanosecond.
    if before.abs_diff(INSTRUCTIONS) > INSTRUCTIONS / 100 {
        return println!("skipped: on this machine, time is not a number of instructions");
    }
    let mut while_sampled = 0;
    let work = || {
        until_sampled(|| spin_seven(10_000));
        while_sampled = cpu_time_of_a_loop(ROUNDS);
    };
    let sampling = Sampling::new().event("cycles").period(PERIOD);
    if sampled(sampling, work).is_some() {
        let cost = (while_sampled - before) / (INSTRUCTIONS / PERIOD);
        println!("{before} and {while_sampled} ns, {cost} for each sample");
        assert!((1_000..=3_100).contains(&cost), "{cost}");
    }
}

#[test]
fn a_call_costs_few_instructions_more_while_it_is_sampled() {
    if passed_alone() {
        return;
    }
    let Ok(counter) = Counter::open(&Attr::new(Hardware::Instructions)) else {
        return println!("skipped: there is no counter of instructions");
    };
    // Two sets of events, as in many programs: with one set, a call costs less.
    one(1);
    // The last one contains a call.
    let calls = [two as fn(u64) -> u64, skipped, skipped_around];
    for (call, (name, most)) in calls.into_iter().zip([("call", 12), ("skipped call", 80), ("skipped caller", 280)]) {
        let before = instructions_of_a_call(&counter, call);
        let mut while_sampled = 0;
        // Without a sample in these calls.
        let calls = || while_sampled = instructions_of_a_call(&counter, call);
        sampled(Sampling::new().event("cycles").period(1 << 40), calls).expect("cycles can be sampled");
        let after = instructions_of_a_call(&counter, call);
        println!("{name}: {before} instructions, sampled {while_sampled}, and then {after}");
        if cfg!(not(debug_assertions)) {
            assert!(while_sampled <= before + most);
        }
        assert_eq!(after, before);
    }
}

/// Calls marks inside one another, and `innermost` in the deepest one.
fn down(depth: u32, innermost: &mut dyn FnMut()) {
    match depth {
        0 => innermost(),
        _ if depth.is_multiple_of(2) => even(depth, innermost),
        _ => odd(depth, innermost),
    }
}

#[perfmark(time)]
fn even(depth: u32, innermost: &mut dyn FnMut()) {
    down(depth - 1, innermost);
}

#[perfmark(time)]
fn odd(depth: u32, innermost: &mut dyn FnMut()) {
    down(depth - 1, innermost);
}

#[test]
fn noting_a_samples_open_calls_takes_instructions_for_each_of_them() {
    if passed_alone() {
        return;
    }
    let Ok(counter) = Counter::open(&Attr::new(Hardware::Instructions)) else {
        return println!("skipped: there is no counter of instructions");
    };
    // The next call after a sample notes which call it belongs to.
    let instructions_at = |depth| {
        let mut delta = Delta::Unmeasured;
        // The ring has room then.
        until_sampled(|| faults(1));
        down(depth, &mut || {
            faults(1);
            let mut region = Region::default();
            counter.begin(&mut region);
            one(1);
            delta = counter.end(&region);
        });
        match delta {
            Delta::Exact(count) => count,
            other => panic!("{other:?}"),
        }
    };
    let mut instructions = [0; 3];
    sampled(Sampling::new().event("page_faults").period(1), || {
        // A thread's stack has 1,170 frames. The first time, memory is mapped for the calls' paths.
        instructions_at(1_120);
        instructions = [0, 280, 1_120].map(instructions_at);
    })
    .expect("page faults can be sampled");
    println!("{instructions:?} instructions with 0, 280 and 1,120 open calls");
    let [none, some, many] = instructions;
    assert!(some > none + 280, "the sample was noted there");
    assert!(many - none <= 5 * (some - none), "four times as many calls");
}
