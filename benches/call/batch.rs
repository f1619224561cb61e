//! A case, and what one of its calls costs: timed in short batches, on one thread or on two at once.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use benches::table::median;
use perfmark_rdpmc::clock::ticks;

use crate::pinned::Pinned;

/// Calls a batch: a tenth of a millisecond of the cheap ones, so that most batches are over before the machine has something else to do.
const CALLS: u32 = 2_000;

/// So many calls of a function.
type Loop = Box<dyn Fn(u32) + Send + Sync>;

fn repeat(function: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Loop {
    Box::new(move |calls| {
        for n in 0..u64::from(calls) {
            black_box(function(n));
        }
    })
}

/// A function that is marked, in whatever way, and the same function unmarked.
pub(crate) struct Case {
    marked: Loop,
    unmarked: Loop,
    /// Marks met in a call of the function.
    marks: u32,
    calls: u32,
    /// Times that a batch makes these calls, without a pause; it tells the median.
    times: u32,
    /// What must be done before and after a batch, on its thread and outside the measured time.
    around: fn(&mut dyn FnMut()),
    /// How many calls came to be recorded, where that can be asked.
    recorded: Option<fn() -> u64>,
    /// Whether these are the case's alone.
    is_alone: bool,
    /// Calls made.
    made: AtomicU64,
}

impl Case {
    /// A function that does nothing but the mark.
    pub(crate) fn leaf(marked: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        Self::new(marked, unmarked, 1)
    }

    /// A function with as many marks in a call; the cost is of one of them.
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

    /// What is recorded are these calls, and no others.
    pub(crate) fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// Calls recorded and calls made, where they should be as many and are not.
    pub(crate) fn wrong(&self) -> Option<(u64, u64)> {
        let (recorded, made) = (self.recorded?(), self.made.load(Relaxed));
        (recorded < made || self.is_alone && recorded > made).then_some((recorded, made))
    }

    /// The ticks that a mark adds to a call; not a number where the threads did not meet.
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

/// Threads that do the same at the same time.
struct Together {
    arrived: AtomicUsize,
    /// When each of them began and ended, in ticks.
    spans: Vec<[AtomicU64; 2]>,
}

impl Together {
    fn new(threads: usize) -> Self {
        Self { arrived: AtomicUsize::new(0), spans: (0..threads).map(|_| [const { AtomicU64::new(0) }; 2]).collect() }
    }

    /// Gives each thread a processor of its own: where they share one, they take turns, and do not meet.
    fn pin(&self, thread: usize) -> Option<Pinned> {
        (self.spans.len() > 1).then(|| Pinned::to(thread)).flatten()
    }

    /// Waits for the others, awake: they must start within less than a batch takes.
    fn wait(&self) {
        let everybody = (self.arrived.fetch_add(1, Release) + 1).next_multiple_of(self.spans.len());
        let mut spins = 0_u32;
        while self.arrived.load(Acquire) < everybody {
            spins += 1;
            // Where there is but one processor, it is this one that the others wait for.
            if spins.is_multiple_of(1 << 20) { thread::yield_now() } else { spin_loop() }
        }
    }

    /// The ticks of what all of them do; not a number where they were not at it together for three quarters of the time, as when one of
    /// them waited for its processor.
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

/// Two threads of a case's own, which stay: so that what a thread needs at its first call is there at all others, and what one case leaves on its
/// threads is not in the way of the next.
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

    /// What a batch on one thread, or on each of two at once, says that a call costs.
    pub(crate) fn batch(&self, threads: usize) -> Vec<f64> {
        let workers = &self.workers[..threads];
        for worker in workers {
            worker.orders.send(threads).expect("it waits for orders");
        }
        workers.iter().map(|worker| worker.costs.recv().expect("it answers each order")).collect()
    }
}
