//! A model of threads that record, threads that end, and one that takes snapshots. Loom runs it in every order of their
//! steps (`ci/proof loom`).
//!
//! Cells, the registry and the code that adds calls are the real ones. Lists of marks and settings are left out: they
//! are statics, which loom's atomics cannot be in. Loom bounds how often an order may switch away from a thread that
//! could continue.

use std::sync::atomic::Ordering::Relaxed;

use loom::thread;

use crate::platform::sync::Arc;
use crate::recording::cells::{EventCells, EventCost, Holds, MarkCells, ThreadCells, Totals, registry::Registry};
use crate::recording::events::Events;
use crate::recording::mark::Mark;
use crate::settings::EventSpec;

static MARK: Mark = Mark::hidden(7);

/// The cells of a recording thread.
struct Recorded {
    thread: Arc<ThreadCells>,
    cells: *const Held,
}

struct Held(MarkCells);

impl Holds for Held {
    fn cells(&self) -> &MarkCells {
        &self.0
    }
}

impl Recorded {
    /// A thread begins to record the mark, in this many events.
    fn begin(registry: &Registry, events: usize) -> Self {
        let thread = Arc::new(ThreadCells::new(None, None));
        registry.add(Arc::clone(&thread));
        let known = Events::default();
        let events = ["time", "cycles"][..events].iter().map(|name| EventCells::new(known.id(&EventSpec::parse(name))));
        let cells = thread.add(Held(MarkCells::new(&MARK, events.collect(), 1)));
        Self { thread, cells }
    }

    #[allow(unsafe_code, reason = "a pointer into the thread's cells")]
    fn cells(&self) -> &MarkCells {
        // SAFETY: the thread's cells own them and live as long as `self`.
        unsafe { (*self.cells).cells() }
    }

    /// Records a call with this value in each event. The first event is added last.
    fn call(&self, value: u64) {
        let cells = self.cells();
        cells.open.store(1, Relaxed);
        cells.open.store(0, Relaxed);
        for event in cells.events.iter().rev() {
            EventCost { net: value, inner: value, is_scaled: false }.add_call(event, false, &self.thread.arena);
        }
    }
}

/// What a snapshot sees of the mark.
fn seen(registry: &Registry) -> Totals {
    registry.merged().totals(&MARK).cloned().unwrap_or_default()
}

/// The number of calls in event `n`, and the sum of their values.
fn of_event(totals: &Totals, n: usize) -> (u64, i128) {
    totals.events.get(n).map_or((0, 0), |(_, totals)| (totals.values.count, totals.values.sum))
}

/// Runs the model in all orders that switch at most `switches` times away from a thread that could continue.
fn check(switches: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// Starts a thread that does `work`. Returns its registry and its handle.
fn recording(work: impl FnOnce(&Registry) + 'static) -> (Arc<Registry>, thread::JoinHandle<()>) {
    let registry = Arc::new(Registry::default());
    let of_thread = Arc::clone(&registry);
    (registry, thread::spawn(move || work(&of_thread)))
}

#[test]
fn a_call_that_is_seen_is_in_the_sum() {
    check(2, || {
        let (registry, recording) = recording(|registry| {
            let recorded = Recorded::begin(registry, 1);
            recorded.call(5);
            recorded.call(5);
        });
        let totals = seen(&registry);
        let (count, sum) = of_event(&totals, 0);
        assert!(count <= 2 && totals.calls == count, "{totals:?}");
        assert!(sum >= i128::from(5 * count) && sum <= 10, "{totals:?}");
        recording.join().expect("no panic");
        assert_eq!(of_event(&seen(&registry), 0), (2, 10));
    });
}

#[test]
fn a_reader_that_sees_a_call_in_the_first_event_sees_it_in_all() {
    check(2, || {
        let (registry, recording) = recording(|registry| Recorded::begin(registry, 2).call(5));
        let totals = seen(&registry);
        let (first, second) = (of_event(&totals, 0), of_event(&totals, 1));
        assert!(first.0 <= second.0 && second.0 <= 1 && totals.calls == first.0, "{totals:?}");
        recording.join().expect("no panic");
        assert_eq!(of_event(&seen(&registry), 1), (1, 5));
    });
}

#[test]
fn a_snapshot_follows_histograms_that_grow() {
    check(2, || {
        let (registry, recording) = recording(|registry| {
            let recorded = Recorded::begin(registry, 1);
            recorded.call(70);
            // This value is in another row of the histogram.
            recorded.call(5);
        });
        let totals = seen(&registry);
        let (count, sum) = of_event(&totals, 0);
        assert!(count <= 2 && sum <= 75 && (count < 2 || sum == 75), "{totals:?}");
        let values = totals.events.first().map(|(_, totals)| &totals.values);
        let ends = values.and_then(|values| values.range);
        assert!(ends.is_none_or(|(min, max)| min >= 5 && min <= max && max <= 71), "{ends:?}");
        recording.join().expect("no panic");
        assert_eq!(of_event(&seen(&registry), 0), (2, 75));
    });
}

#[test]
fn a_thread_that_ends_loses_no_call_and_none_is_seen_twice() {
    check(1, || {
        let (registry, recording) = recording(|registry| {
            let recorded = Recorded::begin(registry, 1);
            recorded.call(5);
            registry.retire(&recorded.thread);
        });
        // An explicit yield does not count as a switch that the bound limits.
        thread::yield_now();
        let before = seen(&registry).calls;
        thread::yield_now();
        let now = seen(&registry).calls;
        assert!(before <= now && now <= 1, "{before}, {now}");
        recording.join().expect("no panic");
        let after = seen(&registry);
        assert_eq!((after.calls, after.in_flight, of_event(&after, 0)), (1, 0, (1, 5)));
    });
}

#[test]
fn calls_that_threads_leave_open_end_with_them() {
    check(1, || {
        let end_with_an_open_call = |registry: &Registry| {
            let recorded = Recorded::begin(registry, 1);
            recorded.call(3);
            recorded.cells().open.store(1, Relaxed);
            registry.retire(&recorded.thread);
        };
        let (registry, recording) = recording(end_with_an_open_call);
        end_with_an_open_call(&registry);
        let calls = seen(&registry).calls;
        assert!((2..=4).contains(&calls), "{calls}");
        recording.join().expect("no panic");
        let after = seen(&registry);
        assert_eq!((after.calls, after.in_flight, of_event(&after, 0)), (4, 0, (2, 6)));
    });
}

#[test]
fn a_call_that_ends_on_another_thread_ends_whatever_its_own_thread_removes_meanwhile() {
    check(3, || {
        let registry = Arc::new(Registry::default());
        let recorded = Recorded::begin(&registry, 1);
        let (first, second) = (1, 2);
        recorded.cells().open.store(2, Relaxed);
        registry.end_elsewhere(Some(&MARK), second, false);
        let of_other = Arc::clone(&registry);
        let other = thread::spawn(move || of_other.end_elsewhere(Some(&MARK), first, false));
        // A call between the two ends, so the second one's frame is removed (`find_frame`).
        let Recorded { thread, .. } = &recorded;
        let mut switched = thread.switched.lock();
        recorded.cells().open.store(1, Relaxed);
        assert!(switched.take(second), "it ended elsewhere");
        switched.keep(second, [first].into_iter(), &thread.arena);
        drop(switched);
        other.join().expect("no panic");
        assert_eq!(seen(&registry).in_flight, 0);
    });
}
