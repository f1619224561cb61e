//! The orders in which threads that record, threads that end and one that takes snapshots may run, as loom finds them:
//! `ci/proof loom`.
//!
//! Cells, registry and the adding of calls are the real ones. Left out are marks' own lists and the settings, which are statics: loom's atomics
//! cannot be. Of orders, those are tried that switch between threads where one could go on no more than a few times.

use std::sync::atomic::Ordering::Relaxed;

use loom::thread;

use super::long::Part;
use crate::cells::{EventCells, Holds, MarkCells, Owner, ThreadCells, Totals};
use crate::events::{EventId, Events, What};
use crate::mark::{HIDDEN, Mark};
use crate::registry::Registry;
use crate::sync::Arc;

static MARK: Mark = Mark::hidden(HIDDEN);

/// What the calls of a thread are recorded in.
struct Recorded {
    thread: Arc<ThreadCells>,
    cells: *const Held,
}

#[derive(Debug)]
struct Held(MarkCells);

impl Holds for Held {
    fn cells(&self) -> &MarkCells {
        &self.0
    }
}

/// Two events.
fn events() -> [EventId; 2] {
    let events = Events::default();
    ["time", "cycles"].map(|name| events.id(&What::parse(name)))
}

impl Recorded {
    fn begin(registry: &Registry) -> Self {
        let thread = Arc::new(ThreadCells::new(Owner::new()));
        registry.add(Arc::clone(&thread));
        let cells = thread.add(Held(MarkCells::new(&MARK, events().map(EventCells::new).into())));
        Self { thread, cells }
    }

    #[allow(unsafe_code, reason = "what a recorder holds by pointers")]
    fn cells(&self) -> &MarkCells {
        // SAFETY: they live as long as the thread's.
        unsafe { (*self.cells).cells() }
    }

    /// A call that costs so much in both events, the first of which is added last.
    fn call(&self, value: u64) {
        let cells = self.cells();
        cells.open.store(1, Relaxed);
        cells.open.store(0, Relaxed);
        for event in cells.events.iter().rev() {
            Part { net: value, inside: value, is_scaled: false }.add_call(event, false, &self.thread.arena);
        }
    }
}

/// What a snapshot sees of the mark.
fn seen(registry: &Registry) -> Totals {
    registry.merged().totals(&MARK)
}

/// Of the event: calls, and their sum.
fn of_event(totals: &Totals, n: usize) -> (u64, u128) {
    totals.events.get(n).map_or((0, 0), |(_, figures)| (figures.values.count, figures.values.sum))
}

/// Checks what a snapshot may see while calls of one value are made.
fn assert_seen(totals: &Totals, value: u64, at_most: u64) {
    let ((first, first_sum), (second, second_sum)) = (of_event(totals, 0), of_event(totals, 1));
    assert!(totals.calls <= at_most, "{totals:?}");
    assert!(first <= second && second <= at_most, "who sees a call in the first event sees it in all: {totals:?}");
    for (count, sum) in [(first, first_sum), (second, second_sum)] {
        let (low, high) = (u128::from(count * value), u128::from(at_most * value));
        assert!(sum >= low && sum <= high, "a call that is seen is in the sum: {totals:?}");
    }
    for (_, figures) in &totals.events {
        assert_eq!(figures.values.buckets().map(|bucket| bucket.2).sum::<u64>(), figures.values.count);
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = 10_000;
    builder.check(model);
}

#[test]
fn a_snapshot_sees_calls_whole_and_none_twice_while_they_are_made_and_their_thread_ends() {
    check(|| {
        let registry = Arc::new(Registry::default());
        let recording = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || {
                let recorded = Recorded::begin(&registry);
                recorded.call(5);
                recorded.call(5);
                registry.retire(&recorded.thread);
            })
        };
        let before = seen(&registry);
        assert_seen(&before, 5, 2);
        let now = seen(&registry);
        assert_seen(&now, 5, 2);
        assert!(now.calls >= before.calls, "{before:?} {now:?}");
        recording.join().expect("no panic");
        let after = seen(&registry);
        assert_eq!((after.calls, after.in_flight), (2, 0));
        assert_eq!([of_event(&after, 0), of_event(&after, 1)], [(2, 10), (2, 10)]);
    });
}

#[test]
fn a_snapshot_follows_histograms_that_grow() {
    check(|| {
        let registry = Arc::new(Registry::default());
        let recording = {
            let registry = Arc::clone(&registry);
            thread::spawn(move || {
                let recorded = Recorded::begin(&registry);
                recorded.call(70);
                // Another row.
                recorded.call(5);
            })
        };
        let totals = seen(&registry);
        let values = totals.events.first().map(|(_, figures)| &figures.values);
        let (count, sum) = of_event(&totals, 0);
        assert!(count <= 2 && sum <= 75 && sum >= [0, 5, 75][count as usize], "{totals:?}");
        let ends = values.and_then(|values| values.min().zip(values.max()));
        assert!(ends.is_none_or(|(min, max)| min >= 5 && min <= max && max <= 71), "{ends:?}");
        recording.join().expect("no panic");
        assert_eq!(of_event(&seen(&registry), 0), (2, 75));
    });
}

#[test]
fn threads_that_end_together_lose_no_call() {
    check(|| {
        let registry = Arc::new(Registry::default());
        let threads = [3, 3].map(|value| {
            let registry = Arc::clone(&registry);
            thread::spawn(move || {
                let recorded = Recorded::begin(&registry);
                recorded.call(value);
                // One more that it leaves open.
                recorded.cells().open.store(1, Relaxed);
                registry.retire(&recorded.thread);
            })
        });
        let calls = seen(&registry).calls;
        assert!(calls <= 4, "{calls}");
        for thread in threads {
            thread.join().expect("no panic");
        }
        let after = seen(&registry);
        assert_eq!((after.calls, after.in_flight, of_event(&after, 0)), (4, 0, (2, 6)));
    });
}
