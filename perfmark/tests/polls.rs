//! Async functions on a real PMU. These tests run where user space may read one.

#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;
mod executor;

use std::hint::black_box;
use std::thread;

use executor::{run, yield_now};
use perfmark::{Values, perfmark, snapshot};
use perfmark_rdpmc::known_loop;
use support::tests;

fn main() {
    if cfg!(debug_assertions) {
        eprintln!("values that depend on the compiler's optimization are not checked: this build has none");
    }
    support::run(
        vec![],
        tests![
            an_async_function_counts_its_sync_twins_instructions_and_a_few_per_poll,
            promise_2_an_async_callers_value_excludes_its_callees_probes,
            promise_2_a_callers_value_excludes_skipped_calls,
            calls_of_many_events_keep_them_all_between_polls,
        ],
    );
}

fn values(name: &str, event: &str) -> Values {
    let mark = snapshot().marks.into_iter().find(|mark| mark.name == name);
    mark.and_then(|mark| mark.event(event).cloned()).unwrap_or_else(|| panic!("{name}: not recorded"))
}

macro_rules! twins {
    ($($sync:ident $asynchronous:ident $polls:literal $turns:literal)*) => {
        $(
            #[perfmark(instructions)]
            #[inline(never)]
            fn $sync() {
                for _ in 0..$polls {
                    black_box(known_loop($turns));
                }
            }

            #[perfmark(instructions)]
            async fn $asynchronous() {
                for poll in 0..$polls {
                    if poll > 0 {
                        yield_now().await;
                    }
                    black_box(known_loop($turns));
                }
            }
        )*
        fn all_twins() {
            for _ in 0..200 {
                $(
                    $sync();
                    run($asynchronous());
                )*
            }
        }

        /// Names, polls, and turns of each.
        const TWINS: &[(&str, &str, u64, u64)] = &[$((stringify!($sync), stringify!($asynchronous), $polls, $turns)),*];
    };
}
twins! {
    sync_1_10 async_1_10 1 10
    sync_1_10000 async_1_10000 1 10_000
    sync_2_10 async_2_10 2 10
    sync_2_10000 async_2_10000 2 10_000
    sync_10_10 async_10_10 10 10
    sync_10_10000 async_10_10000 10 10_000
    sync_100_100 async_100_100 100 100
}

/// Instructions of an async function itself at each poll: it loads its state and stores it.
const A_POLL: u64 = 40;

fn an_async_function_counts_its_sync_twins_instructions_and_a_few_per_poll() {
    all_twins();
    let mut constants = Vec::new();
    for &(sync, asynchronous, polls, turns) in TWINS {
        let (sync, asynchronous) = (values(sync, "instructions"), values(asynchronous, "instructions"));
        assert_eq!((sync.measured, asynchronous.measured), (200, 200));
        let (one, other) = (sync.p50.unwrap_or(0), asynchronous.p50.unwrap_or(0));
        println!("{polls} polls of {turns} turns: {one} in the sync function, {other} in the async one");
        let (one, other) = (sync.min.unwrap_or(0), asynchronous.min.unwrap_or(0));
        assert!(other.abs_diff(one) <= A_POLL * polls, "{other}, not {one}: {polls} polls of {turns} turns");
        constants.push((polls, other.cast_signed() - one.cast_signed()));
    }
    // The difference is the same however long the function is.
    for same in constants.chunks(2).filter(|pair| pair.len() == 2) {
        assert!(same[0].1.abs_diff(same[1].1) <= 2, "{constants:?}");
    }
}

#[perfmark(instructions)]
async fn leaf() {
    yield_now().await;
    black_box(known_loop(10));
}

async fn plain_leaf() {
    yield_now().await;
    black_box(known_loop(10));
}

#[perfmark(instructions)]
async fn long_leaf() {
    for _ in 1..100 {
        yield_now().await;
    }
}

async fn plain_long_leaf() {
    for _ in 1..100 {
        yield_now().await;
    }
}

#[perfmark(instructions)]
async fn of_long_marked() {
    long_leaf().await;
}

#[perfmark(instructions)]
async fn of_long_plain() {
    plain_long_leaf().await;
}

#[perfmark(instructions)]
async fn of_marked() {
    for _ in 0..20 {
        leaf().await;
    }
}

#[perfmark(instructions)]
async fn of_plain() {
    for _ in 0..20 {
        plain_leaf().await;
    }
}

/// How many instructions of the probe a poll's value may include or lack.
const A_PROBE: u64 = 7;

fn promise_2_an_async_callers_value_excludes_its_callees_probes() {
    for _ in 0..100 {
        run(of_marked());
        run(of_plain());
        run(of_long_marked());
        run(of_long_plain());
    }
    for (callees, polls, names) in [(20, 2, ["of_marked", "of_plain"]), (1, 100, ["of_long_marked", "of_long_plain"])] {
        let values = names.map(|name| values(name, "instructions"));
        assert!(values.iter().all(|values| values.measured == 100), "{values:?}");
        let [marked, plain] = values.map(|values| values.min.unwrap_or(0));
        println!("{callees} callees of {polls} polls: {marked} instructions where they are marked, {plain} where not");
        assert!(marked.abs_diff(plain) <= callees * polls * A_PROBE, "{marked}, not {plain}");
    }
}

macro_rules! around_skipped {
    ($leaf:ident $sync_of:ident $async_of:ident $(#[$mark:meta])?) => {
        $(#[$mark])?
        #[inline(never)]
        fn $leaf() {
            black_box(known_loop(10));
        }

        #[perfmark(instructions)]
        fn $sync_of() {
            (0..CALLS).for_each(|_| $leaf());
        }

        #[perfmark(instructions)]
        async fn $async_of() {
            (0..CALLS).for_each(|_| $leaf());
        }
    };
}
around_skipped! {
    skipped sync_of_skipped async_of_skipped
    #[perfmark(instructions, every = 1_000_000)]
}
around_skipped! {
    bare sync_of_bare async_of_bare
}

const CALLS: u64 = 1_000;

fn promise_2_a_callers_value_excludes_skipped_calls() {
    let calls = || {
        for _ in 0..20 {
            sync_of_skipped();
            sync_of_bare();
            run(async_of_skipped());
            run(async_of_bare());
        }
    };
    thread::spawn(calls).join().expect("does not panic");
    for names in [["sync_of_skipped", "sync_of_bare"], ["async_of_skipped", "async_of_bare"]] {
        let values = names.map(|name| values(name, "instructions"));
        let [skipped, bare] = values.map(|values| values.min.expect("measured") as f64 / CALLS as f64);
        println!("{}: {skipped:.1} instructions for each call inside, {bare:.1} without marks", names[0]);
        assert!((skipped - bare).abs() <= 4.0 || cfg!(debug_assertions), "{skipped}, not {bare}");
    }
}

#[perfmark(cycles, instructions, task_clock, page_faults, time, branch_misses, name = "six")]
async fn six_events() {
    for _ in 0..3 {
        yield_now().await;
        black_box(known_loop(1_000));
    }
}

fn calls_of_many_events_keep_them_all_between_polls() {
    for _ in 0..50 {
        run(six_events());
    }
    for event in ["cycles", "instructions", "task-clock", "page-faults", "time"] {
        let values = values("six", event);
        assert_eq!((values.measured, values.unmeasured), (50, 0), "{event}");
    }
    let instructions = values("six", "instructions").min.unwrap_or(0);
    // A loop of known length takes two instructions a turn, and two more.
    assert!((6_000..6_600).contains(&instructions), "{instructions}");
}
