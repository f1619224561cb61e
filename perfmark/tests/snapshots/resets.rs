//! Resetting all values of the process.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use perfmark::{Snapshot, perfmark, reset, snapshot};

use crate::alone::passed_in_own_process;

#[perfmark(time, every = 2)]
fn counted() {}

#[perfmark(time)]
fn still_runs(begun: &Barrier, end: &Barrier) {
    begun.wait();
    end.wait();
}

#[perfmark(time)]
fn panics() {
    panic!("on purpose");
}

fn counts(snapshot: &Snapshot, name: &str) -> [u64; 4] {
    let mark = snapshot.marks.iter().find(|mark| mark.name == name).expect("it is known");
    [mark.calls, mark.in_flight, mark.skipped + mark.unwound, mark.values.first().map_or(0, |values| values.measured)]
}

#[test]
fn after_a_reset_values_include_later_calls_only() {
    if passed_in_own_process() {
        return;
    }
    let (begun, end) = (Barrier::new(2), Barrier::new(2));
    (0..10).for_each(|_| counted());
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..4).for_each(|_| counted());
            still_runs(&begun, &end);
        });
        begun.wait();
        assert!(std::panic::catch_unwind(panics).is_err());
        let before = snapshot();
        assert_eq!((counts(&before, "counted"), before.resets), ([14, 0, 7, 7], 0));
        let before_reset = Instant::now();
        reset();
        let after = snapshot();
        let passed = before_reset.elapsed().as_nanos();
        assert_eq!(counts(&after, "counted"), [0; 4]);
        assert_eq!(counts(&after, "panics"), [0; 4]);
        assert_eq!(counts(&after, "still_runs"), [0, 1, 0, 0], "it is still in flight");
        assert!(after.resets == 1 && u128::from(after.wall_ns) <= passed, "{} of {passed} ns", after.wall_ns);
        assert!(perfmark::threads().iter().flat_map(|thread| &thread.marks).all(|mark| mark.calls == 0));
        let difference = after.since(&before);
        assert!(
            difference
                .notes
                .last()
                .is_some_and(|note| note.contains("nothing was subtracted: `reset` was called between")),
            "{:?}",
            difference.notes
        );
        end.wait();
    });
    (0..6).for_each(|_| counted());
    let after = snapshot();
    assert_eq!(counts(&after, "counted"), [6, 0, 3, 3]);
    assert_eq!(counts(&after, "still_runs"), [1, 0, 0, 1], "a call counts when it ends");
    // The thread has ended, and what it recorded before the reset is not reported again.
    let threads = perfmark::threads();
    let calls: u64 = threads.iter().flat_map(|thread| &thread.marks).map(|mark| mark.calls).sum();
    assert_eq!(calls, 7);
    reset();
    assert_eq!((counts(&snapshot(), "counted"), snapshot().resets), ([0; 4], 2));
    assert!(perfmark::threads().is_empty());

    // While another thread resets, a reader sees nothing from before.
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    reset();
                }
            });
        }
        for _ in 0..200 {
            assert_eq!(counts(&snapshot(), "counted"), [0; 4]);
            assert!(perfmark::threads().is_empty());
        }
        done.store(true, Relaxed);
    });

    // Marks that look alike, called by one thread in another order than by others.
    macro_rules! alike {
        ($($n:expr),*) => { [$(|| (0..$n).for_each(|_| perfmark::region!("looks alike", time, {}))),*] };
    }
    let [first, second] = alike!(10, 3);
    second();
    thread::spawn(first).join().expect("no panic");
    reset();
    first();
    second();
    let mut calls: Vec<u64> =
        perfmark::threads().iter().flat_map(|thread| &thread.marks).map(|mark| mark.calls).collect();
    calls.sort_unstable();
    assert_eq!(calls, [3, 10]);
}
