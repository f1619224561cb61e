//! Marked calls, ends of threads, snapshots and settings, all at the same time. Small, since Miri and `ThreadSanitizer`
//! run it (`ci/proof`).
#![cfg(feature = "record")]

mod alone;
mod executor;

use std::panic::{catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

use alone::passed_in_own_process;
use executor::{once, yield_now};
use perfmark::{Filter, Mark, Snapshot, perfmark, set_filter, snapshot, threads};

/// Rounds of each thread: few under an interpreter.
const ROUNDS: u64 = if cfg!(miri) { 2 } else { 500 };
/// How many threads run at a time, and how often.
const THREADS: u64 = 2;
const WAVES: u64 = if cfg!(miri) { 1 } else { 20 };

fn find<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Mark> {
    snapshot.marks.iter().find(|mark| mark.name == name)
}

fn find_mark(name: &str) -> Mark {
    find(&snapshot(), name).cloned().expect("it is known")
}

/// Rounds begun and ended on all threads.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

#[perfmark(time)]
fn leaf() {}

#[perfmark(time)]
fn recursive(depth: u32) {
    leaf();
    if depth > 0 {
        recursive(depth - 1);
    }
}

#[perfmark(time)]
fn unwinds() {
    leaf();
    resume_unwind(Box::new(()));
}

#[perfmark(time, every = 2)]
fn skipped() {}

#[perfmark(time)]
async fn suspended() {
    yield_now().await;
    leaf();
}

/// Calls of `leaf` in a round. Each other mark has one, but `recursive` has two.
const LEAVES: u64 = 4;

fn round() {
    BEGUN.fetch_add(1, Relaxed);
    recursive(1);
    assert!(catch_unwind(unwinds).is_err());
    skipped();
    let mut call = pin!(suspended());
    assert!(once(call.as_mut()).is_pending() && once(call).is_ready());
    ENDED.fetch_add(1, Release);
}

fn assert_complete(mark: &Mark) {
    for values in &mark.values {
        assert_eq!(values.buckets.iter().map(|bucket| bucket.calls).sum::<u64>(), values.weight, "{mark:?}");
        let left_out = mark.unwound + mark.skipped + mark.cancelled;
        assert_eq!(values.measured + values.unmeasured + left_out, mark.calls, "{mark:?}");
    }
}

#[test]
fn a_snapshot_has_every_ended_call_and_no_unbegun_one_while_threads_start_and_end() {
    if passed_in_own_process() {
        return;
    }
    set_filter(&Filter::default()).expect("slots for settings");
    round();
    let count_leaves = || {
        let ended = ENDED.load(Acquire);
        let leaves = find(&snapshot(), "leaf").map_or(0, |mark| mark.calls);
        assert!(leaves >= ended * LEAVES, "{leaves} leaves after {ended} rounds");
        let begun = BEGUN.load(Relaxed);
        assert!(leaves <= begun * LEAVES, "{leaves} leaves in {begun} rounds");
        // If threads are reported one by one, no call is in two of them.
        let of_threads = threads().into_iter().flat_map(|thread| thread.marks);
        let leaves: u64 = of_threads.filter(|mark| mark.name == "leaf").map(|mark| mark.calls).sum();
        let begun = BEGUN.load(Relaxed);
        assert!(leaves >= ended * LEAVES && leaves <= begun * LEAVES, "{leaves} leaves, {ended} to {begun} rounds");
        leaves
    };
    let mut before = 0;
    for _ in 0..WAVES {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..ROUNDS).for_each(|_| round()));
            }
            for _ in 0..if cfg!(miri) { 1 } else { 3 } {
                let now = count_leaves();
                assert!(now >= before, "{now} leaves after {before}");
                before = now;
            }
        });
    }
    let rounds = BEGUN.load(Relaxed);
    let snapshot = snapshot();
    for (name, calls) in [("leaf", LEAVES), ("recursive", 2), ("unwinds", 1), ("skipped", 1), ("suspended", 1)] {
        let mark = find(&snapshot, name).expect("it is known");
        assert_eq!((mark.calls, mark.in_flight, mark.interrupted), (rounds * calls, 0, 0), "{mark:?}");
        assert_complete(mark);
    }
    assert_eq!(find(&snapshot, "unwinds").map(|mark| mark.unwound), Some(rounds));
}

#[perfmark(time)]
fn skipped_by_filter() {}

#[perfmark(time)]
fn stopped_by_filter() {}

#[test]
fn no_call_is_lost_or_invented_while_filters_change() {
    const CALLS: u64 = if cfg!(miri) { ROUNDS } else { 20_000 };
    if passed_in_own_process() {
        return;
    }
    let filters = [
        "",
        "*::skipped_by_filter=every:3",
        "*::skipped_by_filter=page-faults",
        "*::skipped_by_filter=time+every:7,*::stopped_by_filter=off",
        "*::stopped_by_filter=every:2",
    ];
    let filters = filters.map(|filter| filter.parse::<Filter>().expect("a filter"));
    thread::scope(|scope| {
        let call = || {
            for _ in 0..CALLS {
                skipped_by_filter();
                stopped_by_filter();
            }
        };
        let callers: Vec<_> = (0..THREADS).map(|_| scope.spawn(call)).collect();
        loop {
            for filter in filters.iter().skip(if cfg!(miri) { 3 } else { 0 }) {
                set_filter(filter).expect("slots for settings");
                _ = snapshot();
            }
            if cfg!(miri) || callers.iter().all(thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
    });
    set_filter(&Filter::default()).expect("slots for settings");
    let (skipped, stopped) = (find_mark("skipped_by_filter"), find_mark("stopped_by_filter"));
    let counts = (skipped.calls, skipped.in_flight, skipped.unwound, skipped.interrupted);
    assert_eq!(counts, (THREADS * CALLS, 0, 0, 0), "{skipped:?}");
    assert!(stopped.calls <= THREADS * CALLS && stopped.in_flight == 0, "{stopped:?}");
    assert_complete(&stopped);
    for values in skipped.values.iter().chain(&stopped.values) {
        assert_eq!(values.unmeasured, 0, "{}", values.event);
        assert_eq!(values.buckets.iter().map(|bucket| bucket.calls).sum::<u64>(), values.weight);
    }
}

/// A thread may reuse what an ended one left.
#[test]
fn a_thread_reports_its_own_calls_only_and_none_of_ended_threads() {
    #[perfmark(time)]
    fn of_each() {}
    #[perfmark(time)]
    fn of_the_first() {}
    const ROUNDS: u64 = 3;
    const CALLS: u64 = if cfg!(miri) { 10 } else { 300 };
    let calls = |marks: &[Mark], name: &str| -> u64 {
        marks.iter().filter(|mark| mark.name == name).map(|mark| mark.calls).sum()
    };
    if passed_in_own_process() {
        return;
    }
    set_filter(&Filter::default()).expect("slots for settings");
    for round in 1..=ROUNDS {
        let first = || {
            (0..CALLS).for_each(|_| of_each());
            (0..20).for_each(|_| of_the_first());
        };
        thread::spawn(first).join().expect("no panic");
        let second = move || {
            (0..round).for_each(|_| of_each());
            threads()
        };
        let by_thread = thread::spawn(second).join().expect("no panic");
        let alive: Vec<Mark> =
            by_thread.into_iter().filter(|thread| thread.id.is_some()).flat_map(|thread| thread.marks).collect();
        assert_eq!(calls(&alive, "of_each"), round);
        assert!(alive.iter().all(|mark| mark.name != "of_the_first"), "{alive:?}");
    }
    let all = snapshot();
    let sum = ROUNDS * CALLS + (1..=ROUNDS).sum::<u64>();
    assert_eq!([calls(&all.marks, "of_each"), calls(&all.marks, "of_the_first")], [sum, ROUNDS * 20]);
    for (name, calls) in [("of_each", sum), ("of_the_first", ROUNDS * 20)] {
        let values = &find_mark(name).values[0];
        assert_eq!((values.measured, values.buckets.iter().map(|bucket| bucket.calls).sum::<u64>()), (calls, calls));
        assert!(values.min <= values.p50 && values.p50 <= values.max);
    }
}
