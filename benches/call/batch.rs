//! A case, and the cost of one of its calls. Calls are timed in short batches, on one thread or on two at once.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use benches::table::median;
use perfmark_rdpmc::clock::ticks;

use crate::pinned::Pinned;

/// Calls per batch. Cheap ones take a tenth of a millisecond, so that most batches are not interrupted.
const CALLS: u32 = 2_000;

/// A loop of this many calls of a function.
type Loop = Box<dyn Fn(u32) + Send + Sync>;

fn repeat(function: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Loop {
    Box::new(move |calls| {
        for n in 0..u64::from(calls) {
            black_box(function(n));
        }
    })
}

/// A function that is marked by perfmark or a peer, and the same function unmarked.
pub(crate) struct Case {
    marked: Loop,
    unmarked: Loop,
    /// The number of marks in a call of the function.
    marks: u32,
    calls: u32,
    /// How often a batch repeats these calls. The result is the median.
    times: u32,
    /// Runs a batch with setup and cleanup on its thread, outside the measured time.
    around: fn(&mut dyn FnMut()),
    /// The number of recorded calls, if it is available.
    recorded: Option<fn() -> u64>,
    /// Whether all recorded calls are this case's.
    is_alone: bool,
    /// The number of calls made.
    made: AtomicU64,
}

impl Case {
    /// A function that does nothing except for its mark.
    pub(crate) fn leaf(marked: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        Self::new(marked, unmarked, 1)
    }

    /// A function with this many marks in a call. The cost is that of one mark.
    pub(crate) fn new(
        marked: impl Fn(u64) -> u64 + Send + Sync + 'static,
        unmarked: impl Fn(u64) -> u64 + Send + Sync + 'static,
        marks: u32,
    ) -> Self {
        Self {
            marked: repeat(marked),
            unmarked: repeat(unmarked),
            marks,
            calls: CALLS,
            times: 1,
            around: |batch| batch(),
            recorded: None,
            is_alone: false,
            made: AtomicU64::new(0),
        }
    }

    pub(crate) fn calls(self, calls: u32) -> Self {
        Self { calls, ..self }
    }

    pub(crate) fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    pub(crate) fn around(self, around: fn(&mut dyn FnMut())) -> Self {
        Self { around, ..self }
    }

    pub(crate) fn recorded(self, recorded: fn() -> u64) -> Self {
        Self { recorded: Some(recorded), ..self }
    }

    /// Declares that only this case's calls are recorded.
    pub(crate) fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// The numbers of recorded calls and of calls made, if they differ but should not.
    pub(crate) fn mismatch(&self) -> Option<(u64, u64)> {
        let (recorded, made) = (self.recorded?(), self.made.load(Relaxed));
        (recorded < made || self.is_alone && recorded > made).then_some((recorded, made))
    }

    /// The ticks that a mark adds to a call. Not a number if the threads did not run at the same time.
    fn batch(&self, together: &Together, thread: usize) -> f64 {
        let warm_up = self.calls / 10;
        let mut cost = f64::NAN;
        (self.around)(&mut || {
            let pinned = together.pin(thread);
            (self.unmarked)(warm_up);
            (self.marked)(warm_up);
            together.wait();
            let median_of = |work: &Loop| {
                let each: Vec<f64> = (0..self.times).map(|_| together.time(thread, || work(self.calls))).collect();
                median(&each)
            };
            cost = (median_of(&self.marked) - median_of(&self.unmarked)) / f64::from(self.calls * self.marks);
            drop(pinned);
        });
        self.made.fetch_add(u64::from((warm_up + self.calls * self.times) * self.marks), Relaxed);
        cost
    }
}

function! { fn unmarked => std::convert::identity }

/// Threads that do the same work at the same time.
struct Together {
    arrived: AtomicUsize,
    /// The start and end of each thread's work, in ticks.
    spans: Vec<[AtomicU64; 2]>,
}

impl Together {
    fn new(threads: usize) -> Self {
        Self { arrived: AtomicUsize::new(0), spans: (0..threads).map(|_| [const { AtomicU64::new(0) }; 2]).collect() }
    }

    /// Gives each thread its own processor. Threads that share one would take turns.
    fn pin(&self, thread: usize) -> Option<Pinned> {
        (self.spans.len() > 1).then(|| Pinned::to(thread)).flatten()
    }

    /// Waits for the other threads without sleeping, because they must start within less than the duration of a batch.
    fn wait(&self) {
        let all = (self.arrived.fetch_add(1, Release) + 1).next_multiple_of(self.spans.len());
        let mut spins = 0_u32;
        while self.arrived.load(Acquire) < all {
            spins += 1;
            // If there is only one processor, the other threads need it.
            if spins.is_multiple_of(1 << 20) { thread::yield_now() } else { spin_loop() }
        }
    }

    /// The ticks of this thread's work. Not a number if all threads worked together for less than three quarters of
    /// that time, for example because one waited for its processor.
    fn time(&self, thread: usize, work: impl FnOnce()) -> f64 {
        let before = ticks();
        work();
        let after = ticks();
        self.spans[thread][0].store(before, Relaxed);
        self.spans[thread][1].store(after, Relaxed);
        self.wait();
        let of_all = |end: usize| self.spans.iter().map(move |span| span[end].load(Relaxed));
        let together = of_all(1).min().unwrap_or(after).saturating_sub(of_all(0).max().unwrap_or(before));
        self.wait();
        let elapsed = after.saturating_sub(before);
        if together >= elapsed / 4 * 3 { elapsed as f64 } else { f64::NAN }
    }
}

/// Two threads that make all calls of one case. Their first calls do the setup for later ones, and no state of another
/// case is left on them.
pub(crate) struct Team {
    workers: [Worker; 2],
}

struct Worker {
    orders: Sender<usize>,
    costs: Receiver<f64>,
}

impl Team {
    pub(crate) fn new(case: &Arc<Case>) -> Self {
        let (alone, both) = (Arc::new(Together::new(1)), Arc::new(Together::new(2)));
        let worker = |thread| {
            let (orders, inbox) = channel::<usize>();
            let (answers, costs) = channel();
            let (case, alone, both) = (Arc::clone(case), Arc::clone(&alone), Arc::clone(&both));
            let work = move |threads| case.batch(if threads == 1 { &alone } else { &both }, thread);
            thread::spawn(move || inbox.iter().try_for_each(|threads| answers.send(work(threads))));
            Worker { orders, costs }
        };
        Self { workers: [worker(0), worker(1)] }
    }

    /// The cost of a call, measured by a batch on one thread, or on each of two at once.
    pub(crate) fn batch(&self, threads: usize) -> Vec<f64> {
        let workers = &self.workers[..threads];
        for worker in workers {
            worker.orders.send(threads).expect("the worker waits for orders");
        }
        workers.iter().map(|worker| worker.costs.recv().expect("the worker answers each order")).collect()
    }
}
