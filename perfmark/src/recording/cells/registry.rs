//! Every thread's cells: those of running threads, and one merged set for threads that ended.

use std::io;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Arc as Shared, PoisonError};
use std::thread;
use std::time::Duration;

use perfmark_rdpmc::clock::{self, Clock};

use super::graph;
use super::mark_cells::{MarkCells, OpenCall, Owner, ThreadCells, Totals};
use super::switched::{CALLS, RANGES};
use crate::compact::Map;
use crate::platform::per_process::PerProcess;
use crate::platform::sync::{Arc, Mutex, MutexGuard};
use crate::platform::thread_id::process_id;
use crate::platform::token;
use crate::recording::mark::{self, Mark};
use crate::recording::start;
use crate::settings::recording::is_off;

/// The totals of all marks, by the mark's index, and the threads that they come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merged {
    pub(crate) marks: Map<u32, Totals>,
    pub(crate) threads: u64,
    /// The most that recorded at once.
    pub(crate) threads_at_once: u64,
    /// What threads' first calls and ends took, see [`Setup`].
    pub(crate) setup_ticks: u64,
    /// The call graph of these threads, if it was asked for.
    pub(crate) graph: Shared<graph::Merged>,
}

impl Merged {
    fn add(&mut self, cells: &ThreadCells) {
        self.threads += 1;
        for cells in cells.iter() {
            cells.add_to(self.marks.get_or_default(cells.mark.index()));
        }
    }

    fn add_graph(&mut self, cells: &ThreadCells) {
        if let Some(graph) = &cells.graph {
            graph.add_to(Shared::make_mut(&mut self.graph));
        }
    }

    /// Adds the cost of calls in flight so far.
    pub(crate) fn add_in_flight(&mut self, open: &[OpenCall]) {
        for call in open {
            self.marks.get_or_default(call.mark).event(call.event).in_flight.add(call.sums, 1);
        }
    }

    /// The totals of one mark, if it was called.
    pub(crate) fn totals(&self, mark: &Mark) -> Option<&Totals> {
        self.marks.get(&mark.index())
    }
}

pub(crate) struct Registry {
    threads: Mutex<Threads>,
    /// The number of threads that are being set up or taken down.
    setups: AtomicUsize,
    /// What these took, without those that began before the process's first recorder existed: the process's own setup.
    setup_ticks: AtomicU64,
    /// A number that differs from those of the processes that this one was forked from.
    pub(crate) generation: u8,
    /// How many recorders existed before this process's first one: see [`RECORDERS`].
    recorders_before: u64,
}

/// Clones share their content. So a snapshot can merge a clone while threads begin and end: it has each thread once,
/// among those alive or among those retired.
#[derive(Clone, Default)]
struct Threads {
    alive: Vec<Arc<ThreadCells>>,
    /// The most that were alive at once.
    most_alive: usize,
    retired: Shared<Merged>,
}

static REGISTRY: PerProcess<Registry> = PerProcess::new();

/// The number of recorders set up in this process and those that it was forked from. It gives each recorder its own
/// range of call numbers, so a guard of another thread or of the parent finds no frame. Calibration uses the first
/// range, and so does one recorder of about a million.
static RECORDERS: AtomicU64 = AtomicU64::new(1);

/// In a forked child, the marks still hold calls of the parent. The first call of this function in a child removes
/// them, before any calls of its own.
pub(crate) fn forget_parents_calls() {
    /// The forked child that called this last. In another namespace, it may have its parent's number.
    static CHILD: AtomicUsize = AtomicUsize::new(0);
    let this = token::address().unwrap_or(process_id() as usize);
    if start::is_forked_child() && CHILD.swap(this, Relaxed) != this {
        for mark in mark::called() {
            mark.forget();
        }
    }
}

/// The process's registry.
pub(crate) fn registry() -> io::Result<&'static Registry> {
    REGISTRY.get()
}

impl Default for Registry {
    /// Created at the process's first call of a mark.
    fn default() -> Self {
        static GENERATIONS: AtomicU8 = AtomicU8::new(0);
        forget_parents_calls();
        let generation = GENERATIONS.fetch_add(1, Relaxed);
        let recorders_before = RECORDERS.load(Relaxed);
        let (setups, setup_ticks) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { threads: Mutex::default(), setups, setup_ticks, generation, recorders_before }
    }
}

/// Exists while a thread is being set up or taken down with system calls, for which the end of recording waits. It
/// measures what this takes.
pub(crate) struct Setup {
    registry: Option<&'static Registry>,
    /// In ticks. `None` if no thread had a recorder.
    begun: Option<u64>,
}

impl Setup {
    /// `None` if recording is off or has ended.
    pub(crate) fn begin() -> Option<Self> {
        if is_off() {
            return None;
        }
        // Without a registry nothing can be set up.
        let registry = registry().ok();
        if let Some(registry) = registry {
            registry.setups.fetch_add(1, SeqCst);
        }
        let has_recorders = |registry: &&Registry| RECORDERS.load(Relaxed) != registry.recorders_before;
        // A script's ticks are those that it planned.
        let is_measured = !cfg!(perfmark_scripted) && registry.as_ref().is_some_and(has_recorders);
        let setup = Self { registry, begun: is_measured.then(clock::ticks) };
        // Sequentially consistent with `wait_for_setups`: either that sees this setup, or this sees that recording is
        // off.
        (!is_off()).then_some(setup)
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        if let Some(registry) = self.registry {
            if let Some(begun) = self.begun {
                registry.setup_ticks.fetch_add(clock::ticks().saturating_sub(begun), Relaxed);
            }
            registry.setups.fetch_sub(1, SeqCst);
        }
    }
}

/// Waits, for about one second at most, for the threads that are being set up or taken down.
pub(crate) fn wait_for_setups() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    // The clock may stand still.
    const MAX_YIELDS: u32 = 1 << 22;
    let (Ok(registry), begun) = (registry(), Clock::start()) else { return };
    let must_wait = |_: &u32| registry.setups.load(SeqCst) > 0 && begun.elapsed() < TIMEOUT;
    (0..MAX_YIELDS).take_while(must_wait).for_each(|_| thread::yield_now());
}

impl Registry {
    /// The calls of a new recorder get the numbers after this one.
    #[allow(clippy::unused_self, reason = "it exists before the process's first recorder")]
    pub(crate) fn next_numbers(&self) -> u64 {
        RECORDERS.fetch_add(1, Relaxed) % RANGES * CALLS
    }

    /// Whether the call with this number began in this process.
    pub(crate) fn has_begun(&self, number: u64) -> bool {
        let of_process = RECORDERS.load(Relaxed) - self.recorders_before;
        (number / CALLS).wrapping_sub(self.recorders_before) % RANGES < of_process
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a thread that begins to record.
    pub(crate) fn add(&self, cells: Arc<ThreadCells>) {
        let mut threads = self.lock();
        threads.alive.push(cells);
        threads.most_alive = threads.most_alive.max(threads.alive.len());
    }

    /// Merges the cells of a thread that ends into the retired set. Its open calls end with it.
    pub(crate) fn retire(&self, cells: &Arc<ThreadCells>) {
        let mut threads = self.lock();
        for mark in cells.iter() {
            let elsewhere = mark.elsewhere().map_or(0, |elsewhere| elsewhere.swap(0, Relaxed));
            let open = mark.open.swap(0, Relaxed).saturating_sub(elsewhere);
            mark.abandon(open.min(1), false);
            mark.abandon(open.saturating_sub(1), true);
        }
        let retired = Shared::make_mut(&mut threads.retired);
        retired.add(cells);
        retired.add_graph(cells);
        threads.alive.retain(|alive| !Arc::ptr_eq(alive, cells));
    }

    /// Begins these cells with what threads that ended learned in bursts.
    pub(crate) fn teach(&self, cells: &MarkCells) {
        let retired = Shared::clone(&self.lock().retired);
        if let Some(totals) = retired.totals(cells.mark) {
            cells.learn(|event| totals.in_bursts(event));
        }
    }

    /// Ends a call of the mark on another thread than it began on. It counts as unmeasured, unless it was counted
    /// there. A poll that does not end its call does not count; one that does is counted nowhere else. Without a mark,
    /// only the call's frame is freed.
    pub(crate) fn end_elsewhere(&self, mark: Option<&'static Mark>, number: u64, counts: bool) {
        let threads = self.lock();
        // If its thread has ended, the call ended with it.
        let was_open = threads.alive.iter().find(|cells| cells.switched.is_its(number)).is_some_and(|cells| {
            let is_open = |cells: &&MarkCells| cells.is_nested(cells.open.load(Relaxed));
            let of_mark =
                |mark: &Mark| cells.iter().filter(|cells| ptr::eq(cells.mark, mark)).find(is_open)?.elsewhere();
            cells.switched.end(number, mark.map(|mark| move || of_mark(mark)))
        });
        if let Some(mark) = mark
            && counts
            && (was_open || mark.mode.is_polled)
        {
            mark.unrecorded.fetch_add(1, Relaxed);
        }
    }

    /// Whether a call of a mark is open on the thread with this number of the kernel.
    #[cfg(feature = "sampling")]
    pub(crate) fn has_open_calls(&self, thread: u32) -> bool {
        let threads = self.lock();
        let of_thread = threads.alive.iter().filter(|cells| cells.owner.id == thread);
        of_thread.flat_map(|cells| cells.iter()).any(|cells| cells.is_nested(cells.open.load(Relaxed)))
    }

    /// Everything until now, with the call graph.
    pub(crate) fn merged(&self) -> Merged {
        let threads = self.lock().clone();
        let mut merged = Shared::unwrap_or_clone(threads.retired);
        merged.threads_at_once = threads.most_alive as u64;
        merged.setup_ticks = self.setup_ticks.load(Relaxed);
        for cells in &threads.alive {
            merged.add(cells);
            merged.add_graph(cells);
        }
        merged
    }

    /// Everything until now: first of all ended threads together, then of each running thread, with its number.
    pub(crate) fn by_thread(&self) -> Vec<(Option<Owner>, Merged)> {
        let threads = self.lock().clone();
        let alive = threads.alive.iter().map(|cells| {
            let mut merged = Merged::default();
            merged.add(cells);
            (Some(cells.owner), merged)
        });
        [(None, Shared::unwrap_or_clone(threads.retired))].into_iter().chain(alive).collect()
    }
}
