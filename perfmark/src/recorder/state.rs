//! A thread's recorder: what its calls look at and change.
//!
//! It is in memory of its own that a fork wipes: zeroes mean that it is not set up, so a forked child starts cold. A
//! thread's [word](Here) names it, except while entry or exit code or perfmark's own work has it: so a mark met in a
//! signal handler meanwhile leaves it alone.
//!
//! Two invariants hold here, and are named wherever code rests on them:
//!
//! - RECORDER: what a thread's word names is that thread's recorder, or null. It is mapped until the thread ends, and all of it is
//!   cells or atomics, so that it is used through shared references only.
//! - CELLS: once a recorder is set up, its thread's cells live as long as the recorder is used, and with them the plans, event sets
//!   and counters that its calls use.
#![allow(unsafe_code, reason = "raw pointers to state that outlives thread-locals")]

use std::cell::Cell;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::compiler_fence;

use super::here::Here;
use super::stack::Stack;
use crate::arena::Arena;
use crate::cells::ThreadCells;
use crate::graph::Graph;
use crate::signals::BlockedSignals;

/// A thread's state. Zeroes are one not set up.
#[repr(C)]
pub(super) struct Recorder {
    pub(super) stack: Stack,
    /// Draws the calls that are measured, of marks of which one call in some is.
    pub(super) random: Cell<u64>,
    /// Null while not set up.
    cells: Cell<*const ThreadCells>,
    /// The call graph; null where that is not asked for. It is not the thread's own during calibration.
    graph: Cell<*const Graph>,
    /// Of its process.
    pub(super) generation: Cell<u8>,
    /// Whether probes differ in what they cost, so that this is kept by event.
    pub(super) keeps_costs: Cell<bool>,
}

impl Recorder {
    /// Uses these from now on.
    ///
    /// # Safety
    ///
    /// They live as CELLS has it.
    pub(super) unsafe fn set_up(&self, cells: *const ThreadCells, graph: Option<&Graph>) {
        self.cells.set(cells);
        self.graph.set(graph.map_or(ptr::null(), ptr::from_ref));
    }

    pub(super) fn is_set_up(&self) -> bool {
        !self.cells.get().is_null()
    }

    /// Its thread's cells, once it is set up.
    pub(super) fn cells(&self) -> Option<&ThreadCells> {
        // SAFETY: CELLS.
        unsafe { self.cells.get().as_ref() }
    }

    /// Where its histograms grow.
    pub(super) fn arena(&self) -> Option<&Arena> {
        Some(&self.cells()?.arena)
    }

    /// The call graph, where that is asked for.
    pub(super) fn graph(&self) -> Option<&Graph> {
        // SAFETY: CELLS.
        unsafe { self.graph.get().as_ref() }
    }
}

/// This thread's recorder, taken by entry or exit code: nobody else on this thread uses it until it is put back.
///
/// It is given from function to function by value, and cannot leave its thread.
#[must_use = "nobody else can take the recorder until it is put back"]
pub(super) struct Taken {
    recorder: NonNull<Recorder>,
    here: Here,
}

impl Deref for Taken {
    type Target = Recorder;

    #[inline]
    fn deref(&self) -> &Recorder {
        // SAFETY: RECORDER.
        unsafe { self.recorder.as_ref() }
    }
}

impl Taken {
    /// Takes the recorder. `None` if entry or exit code or perfmark's own work has it, or if there is none.
    #[inline]
    pub(super) fn take() -> Option<Self> {
        let (here, recorder) = named()?;
        Some(Self::new(here, recorder))
    }

    #[inline]
    fn new(here: Here, recorder: NonNull<Recorder>) -> Self {
        here.clear();
        compiler_fence(SeqCst);
        Self { recorder, here }
    }

    /// Takes the recorder if `look` finds something there.
    #[inline]
    pub(super) fn take_if<T>(look: impl FnOnce(NonNull<Recorder>) -> Option<T>) -> Option<(Self, T)> {
        let (here, recorder) = named()?;
        let found = look(recorder)?;
        Some((Self::new(here, recorder), found))
    }

    #[inline]
    pub(super) fn put_back(self) {
        compiler_fence(SeqCst);
        self.here.store(self.recorder.as_ptr().cast_const().cast());
    }
}

/// This thread's word, and the recorder that it names.
#[inline]
fn named() -> Option<(Here, NonNull<Recorder>)> {
    let here = Here::get();
    Some((here, NonNull::new(here.load().cast_mut().cast())?))
}

/// What the thread is doing, as far as marks are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// The program's own work, or the entry or exit code of a marked call: then the recorder is taken.
    Program,
    /// perfmark's cold work: a mark met now is in an allocator, and no call of the program's, as signals are blocked.
    Own,
    /// Calls of the marks that probes are measured by: another one met now is in a signal handler.
    Calibration,
    /// The thread's cells are folded; calls are only counted.
    Ended,
}

/// What is known of the thread apart from calls. It has no destructor, and so is there while those of other
/// thread-locals run.
pub(super) struct Thread {
    /// Its recorder, whether it is taken or not; null if there is none yet, or none any more.
    home: Cell<*const Recorder>,
    pub(super) doing: Cell<Doing>,
    /// Whether perfmark's own work interrupts entry or exit code, in a signal handler: then the open calls are as that
    /// code left them in its middle.
    pub(super) interrupts: Cell<bool>,
    /// What its first calls made, for them alone. It is here, where a leak checker sees it, which does not look into
    /// mapped memory.
    pub(super) made: Cell<*mut ()>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            home: Cell::new(ptr::null()),
            doing: Cell::new(Doing::Program),
            interrupts: Cell::new(false),
            made: Cell::new(ptr::null_mut()),
        }
    };
}

/// This thread's.
pub(super) fn with_thread<R>(work: impl FnOnce(&Thread) -> R) -> R {
    THREAD.with(work)
}

impl Thread {
    /// Its recorder, if there is one.
    pub(super) fn home(&self) -> Option<NonNull<Recorder>> {
        NonNull::new(self.home.get().cast_mut())
    }

    /// The same, to be looked at.
    pub(super) fn recorder(&self) -> Option<&Recorder> {
        // SAFETY: RECORDER.
        self.home().map(|recorder| unsafe { recorder.as_ref() })
    }

    /// Its recorder is this one from now on, and can be taken.
    ///
    /// # Safety
    ///
    /// RECORDER and CELLS.
    pub(super) unsafe fn settle(&self, recorder: NonNull<Recorder>) {
        self.home.set(recorder.as_ptr());
    }

    /// It has no recorder from now on.
    pub(super) fn unsettle(&self) {
        Here::get().clear();
        self.home.set(ptr::null());
    }

    /// Whether entry or exit code, which is interrupted, has the recorder.
    pub(super) fn is_busy(&self) -> bool {
        self.recorder().is_some_and(Recorder::is_set_up) && Here::get().load().is_null()
    }

    /// Takes the recorder after perfmark's own work for it. `None` if recording ended on this thread meanwhile, in a
    /// signal handler.
    pub(super) fn take(&self) -> Option<Taken> {
        let home = self.home().filter(|_| self.doing.get() == Doing::Program)?;
        Some(Taken::new(Here::get(), home))
    }

    /// Whether a call with that number began on this thread, in this process.
    pub(super) fn is_its(&self, number: u64) -> bool {
        let cells = self.recorder().and_then(Recorder::cells);
        cells.is_some_and(|cells| cells.switched.is_its(number))
    }

    /// Whether this is a child that was forked from the thread's process: its recorder is wiped.
    pub(super) fn is_forked(&self) -> bool {
        self.recorder().is_some_and(|recorder| !recorder.is_set_up())
    }
}

/// Runs perfmark's own work on this thread: marks met in it (in an allocator) are no calls. `None` if this thread is at
/// it already, so that a lock which it holds is not taken again.
pub(crate) fn own_work<R>(work: impl FnOnce() -> R) -> Option<R> {
    with_thread(|thread| {
        // Entry or exit code that it interrupts holds no lock, and is in no allocator.
        if matches!(thread.doing.get(), Doing::Own | Doing::Calibration) {
            return None;
        }
        let _signals = BlockedSignals::new();
        let _restore = Restore::doing(thread, Doing::Own);
        Some(work())
    })
}

/// Takes this thread's recorder for some work. Nothing is done where it has none, or where it is taken.
pub(super) fn with_recorder(work: impl FnOnce(&Recorder)) {
    if let Some(taken) = Taken::take() {
        work(&taken);
        taken.put_back();
    }
}

/// Ends what the thread is doing, also if that panics.
pub(super) struct Restore<'a> {
    thread: &'a Thread,
    doing: Doing,
    interrupts: bool,
}

impl<'a> Restore<'a> {
    /// Nobody takes the recorder meanwhile.
    pub(super) fn doing(thread: &'a Thread, doing: Doing) -> Self {
        let interrupts = thread.interrupts.replace(thread.is_busy());
        Here::get().clear();
        Self { thread, doing: thread.doing.replace(doing), interrupts }
    }
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        if !self.thread.interrupts.replace(self.interrupts) {
            Here::get().store(self.thread.home.get().cast());
        }
        self.thread.doing.set(self.doing);
    }
}

/// Runs `calls` with that recorder as this thread's, during perfmark's own work.
///
/// # Safety
///
/// RECORDER and CELLS, as long as they run.
pub(super) unsafe fn with_other(thread: &Thread, recorder: NonNull<Recorder>, calls: &dyn Fn()) {
    let doing = thread.doing.replace(Doing::Calibration);
    let home = thread.home.replace(recorder.as_ptr());
    Here::get().store(recorder.as_ptr().cast_const().cast());
    calls();
    Here::get().clear();
    thread.home.set(home);
    thread.doing.set(doing);
}
