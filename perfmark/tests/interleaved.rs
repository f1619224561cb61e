//! Marked calls, the ends of threads, snapshots and settings, all at once. Small, as Miri and `ThreadSanitizer` look at it (`ci/proof`).
#![cfg(feature = "record")]

mod alone;

use std::panic::{catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::task::{Context, Poll, Waker};
use std::{future, thread};

use alone::alone;
use perfmark::{Filter, Mark, Snapshot, perfmark, set_filter, snapshot, threads};

/// Rounds of each thread: few where an interpreter runs them.
const ROUNDS: u64 = if cfg!(miri) { 2 } else { 500 };
/// Threads at a time, and how often.
const THREADS: u64 = 2;
const WAVES: u64 = if cfg!(miri) { 1 } else { 20 };

fn find<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Mark> {
    snapshot.marks.iter().find(|mark| mark.name == name)
}

fn figures(name: &str) -> Mark {
    find(&snapshot(), name).cloned().expect("it is known")
}

/// Rounds begun and ended, of all threads.
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
    let mut is_ready = false;
    future::poll_fn(move |_| if std::mem::replace(&mut is_ready, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
    leaf();
}

/// Calls of `leaf` in a round, of each of the others one, but of `recursive` two.
const LEAVES: u64 = 4;

fn round() {
    BEGUN.fetch_add(1, Relaxed);
    recursive(1);
    assert!(catch_unwind(unwinds).is_err());
    skipped();
    let (mut call, mut context) = (pin!(suspended()), Context::from_waker(Waker::noop()));
    assert!(call.as_mut().poll(&mut context).is_pending());
    assert!(call.as_mut().poll(&mut context).is_ready());
    ENDED.fetch_add(1, Release);
}

fn assert_whole(mark: &Mark) {
    for values in &mark.values {
        assert_eq!(values.buckets.iter().map(|bucket| bucket.2).sum::<u64>(), values.weight, "{mark:?}");
        let left_out = mark.unwound + mark.skipped + mark.cancelled;
        assert_eq!(values.measured + values.unmeasured + left_out, mark.calls, "{mark:?}");
    }
}

#[test]
fn a_snapshot_has_every_call_that_ended_and_none_that_did_not_begin_while_threads_come_and_go() {
    let _alone = alone();
    set_filter(&Filter::default()).expect("slots for settings");
    round();
    let told = || {
        let ended = ENDED.load(Acquire);
        let leaves = find(&snapshot(), "leaf").map_or(0, |mark| mark.calls);
        assert!(leaves >= ended * LEAVES, "{leaves} leaves after {ended} rounds");
        let begun = BEGUN.load(Relaxed);
        assert!(leaves <= begun * LEAVES, "{leaves} leaves in {begun} rounds");
        // Where threads are looked at one by one no call is in two of them.
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
                let now = told();
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
        assert_whole(mark);
    }
    assert_eq!(find(&snapshot, "unwinds").map(|mark| mark.unwound), Some(rounds));
}

#[perfmark(time)]
fn told_to_skip() {}

#[perfmark(time)]
fn told_to_stop() {}

#[test]
fn no_call_is_lost_when_filters_are_set_in_between() {
    let _alone = alone();
    let filters = ["", "*::told_to_skip=every:3", "*::told_to_stop=off", "*::told_to_skip=every:2+page-faults"];
    let filters = filters.map(|filter| filter.parse::<Filter>().expect("a filter"));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    told_to_skip();
                    told_to_stop();
                }
            });
        }
        for filter in &filters {
            set_filter(filter).expect("slots for settings");
            _ = snapshot();
        }
    });
    set_filter(&Filter::default()).expect("slots for settings");
    let told = figures("told_to_skip");
    assert_eq!((told.calls, told.in_flight), (THREADS * ROUNDS, 0), "{told:?}");
    let stopped = figures("told_to_stop");
    assert!(stopped.calls <= THREADS * ROUNDS && stopped.in_flight == 0, "{stopped:?}");
    assert_whole(&stopped);
}

/// A thread may go on with what an ended one left.
#[test]
fn a_thread_has_only_its_own_calls_whatever_threads_made_that_ended_before() {
    #[perfmark(time)]
    fn of_each() {}
    #[perfmark(time)]
    fn of_the_first() {}
    const ROUNDS: u64 = 3;
    const CALLS: u64 = if cfg!(miri) { 10 } else { 300 };
    let calls = |marks: &[Mark], name: &str| -> u64 {
        marks.iter().filter(|mark| mark.name == name).map(|mark| mark.calls).sum()
    };
    let _alone = alone();
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
        let told = thread::spawn(second).join().expect("no panic");
        let alive: Vec<Mark> = told.into_iter().filter(|told| told.id.is_some()).flat_map(|told| told.marks).collect();
        assert_eq!(calls(&alive, "of_each"), round);
        assert!(alive.iter().all(|mark| mark.name != "of_the_first"), "{alive:?}");
    }
    let all = snapshot();
    let sum = ROUNDS * CALLS + (1..=ROUNDS).sum::<u64>();
    assert_eq!([calls(&all.marks, "of_each"), calls(&all.marks, "of_the_first")], [sum, ROUNDS * 20]);
    for (name, calls) in [("of_each", sum), ("of_the_first", ROUNDS * 20)] {
        let values = &figures(name).values[0];
        assert_eq!((values.measured, values.buckets.iter().map(|bucket| bucket.2).sum::<u64>()), (calls, calls));
        assert!(values.min <= values.p50 && values.p50 <= values.max);
    }
}
