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

use super::stack::Stack;
use super::tls::TlsPointer;
use crate::arena::Arena;
use crate::cells::ThreadCells;
use crate::graph::Graph;
use crate::signals::HeldBack;

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
    pub(super) tracks_overhead: Cell<bool>,
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
pub(super) struct HeldRecorder {
    recorder: NonNull<Recorder>,
    tls: TlsPointer,
}

impl Deref for HeldRecorder {
    type Target = Recorder;

    #[inline]
    fn deref(&self) -> &Recorder {
        // SAFETY: RECORDER.
        unsafe { self.recorder.as_ref() }
    }
}

impl HeldRecorder {
    /// Takes the recorder. `None` if entry or exit code or perfmark's own work has it, or if there is none.
    #[inline]
    pub(super) fn acquire() -> Option<Self> {
        let (tls, recorder) = lookup()?;
        Some(Self::new(tls, recorder))
    }

    #[inline]
    fn new(tls: TlsPointer, recorder: NonNull<Recorder>) -> Self {
        tls.clear();
        compiler_fence(SeqCst);
        Self { recorder, tls }
    }

    /// Takes the recorder if `look` finds something there.
    #[inline]
    pub(super) fn acquire_if<T>(look: impl FnOnce(NonNull<Recorder>) -> Option<T>) -> Option<(Self, T)> {
        let (tls, recorder) = lookup()?;
        let found = look(recorder)?;
        Some((Self::new(tls, recorder), found))
    }

    #[inline]
    pub(super) fn release(self) {
        compiler_fence(SeqCst);
        self.tls.store(self.recorder.as_ptr().cast_const().cast());
    }
}

/// This thread's word, and the recorder that it names.
#[inline]
fn lookup() -> Option<(TlsPointer, NonNull<Recorder>)> {
    let tls = TlsPointer::get();
    Some((tls, NonNull::new(tls.load().cast_mut().cast())?))
}

/// What the thread is doing, as far as marks are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// The program's own work, or the entry or exit code of a marked call: then the recorder is taken.
    Program,
    /// perfmark's cold work: a mark met now is in an allocator, and no call of the program's, as signals are blocked.
    OwnWork,
    /// Calls of the marks that probes are measured by: another one met now is in a signal handler.
    Calibration,
    /// The thread's cells are folded; calls are only counted.
    Ended,
}

/// What is known of the thread apart from calls. It has no destructor, and so is there while those of other
/// thread-locals run.
pub(super) struct ThreadState {
    /// Its recorder, whether it is taken or not; null if there is none yet, or none any more.
    recorder: Cell<*const Recorder>,
    pub(super) activity: Cell<Activity>,
    /// Whether perfmark's own work interrupts entry or exit code, in a signal handler: then the open calls are as that
    /// code left them in its middle.
    pub(super) interrupts_hook: Cell<bool>,
    /// What its first calls made, for them alone. It is here, where a leak checker sees it, which does not look into
    /// mapped memory.
    pub(super) resources: Cell<*mut ()>,
}

thread_local! {
    static THREAD: ThreadState = const {
        ThreadState {
            recorder: Cell::new(ptr::null()),
            activity: Cell::new(Activity::Program),
            interrupts_hook: Cell::new(false),
            resources: Cell::new(ptr::null_mut()),
        }
    };
}

/// This thread's.
pub(super) fn with_thread<R>(work: impl FnOnce(&ThreadState) -> R) -> R {
    THREAD.with(work)
}

impl ThreadState {
    /// Its recorder, if there is one.
    pub(super) fn recorder_ptr(&self) -> Option<NonNull<Recorder>> {
        NonNull::new(self.recorder.get().cast_mut())
    }

    /// The same, to be looked at.
    pub(super) fn recorder(&self) -> Option<&Recorder> {
        // SAFETY: RECORDER.
        self.recorder_ptr().map(|recorder| unsafe { recorder.as_ref() })
    }

    /// Its recorder is this one from now on, and can be taken.
    ///
    /// # Safety
    ///
    /// RECORDER and CELLS.
    pub(super) unsafe fn set_recorder(&self, recorder: NonNull<Recorder>) {
        self.recorder.set(recorder.as_ptr());
    }

    /// It has no recorder from now on.
    pub(super) fn clear_recorder(&self) {
        TlsPointer::get().clear();
        self.recorder.set(ptr::null());
    }

    /// Whether entry or exit code, which is interrupted, has the recorder.
    pub(super) fn is_busy(&self) -> bool {
        self.recorder().is_some_and(Recorder::is_set_up) && TlsPointer::get().load().is_null()
    }

    /// Takes the recorder after perfmark's own work for it. `None` if recording ended on this thread meanwhile, in a
    /// signal handler.
    pub(super) fn acquire(&self) -> Option<HeldRecorder> {
        let recorder = self.recorder_ptr().filter(|_| self.activity.get() == Activity::Program)?;
        Some(HeldRecorder::new(TlsPointer::get(), recorder))
    }

    /// Whether a call with that number began on this thread, in this process.
    pub(super) fn began_call(&self, number: u64) -> bool {
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
        if matches!(thread.activity.get(), Activity::OwnWork | Activity::Calibration) {
            return None;
        }
        let _signals = HeldBack::new();
        let _restore = ActivityGuard::set(thread, Activity::OwnWork);
        Some(work())
    })
}

/// Takes this thread's recorder for some work. Nothing is done where it has none, or where it is taken.
pub(super) fn with_recorder(work: impl FnOnce(&Recorder)) {
    if let Some(taken) = HeldRecorder::acquire() {
        work(&taken);
        taken.release();
    }
}

/// Ends what the thread is doing, also if that panics.
pub(super) struct ActivityGuard<'a> {
    thread: &'a ThreadState,
    activity: Activity,
    interrupts_hook: bool,
}

impl<'a> ActivityGuard<'a> {
    /// Nobody takes the recorder meanwhile.
    pub(super) fn set(thread: &'a ThreadState, activity: Activity) -> Self {
        let interrupts_hook = thread.interrupts_hook.replace(thread.is_busy());
        TlsPointer::get().clear();
        Self { thread, activity: thread.activity.replace(activity), interrupts_hook }
    }
}

impl Drop for ActivityGuard<'_> {
    fn drop(&mut self) {
        if !self.thread.interrupts_hook.replace(self.interrupts_hook) {
            TlsPointer::get().store(self.thread.recorder.get().cast());
        }
        self.thread.activity.set(self.activity);
    }
}

/// Runs `calls` with that recorder as this thread's, during perfmark's own work.
///
/// # Safety
///
/// RECORDER and CELLS, as long as they run.
pub(super) unsafe fn with_calibration_recorder(thread: &ThreadState, recorder: NonNull<Recorder>, calls: &dyn Fn()) {
    let activity = thread.activity.replace(Activity::Calibration);
    let recorder = thread.recorder.replace(recorder.as_ptr());
    TlsPointer::get().store(recorder.as_ptr().cast_const().cast());
    calls();
    TlsPointer::get().clear();
    thread.recorder.set(recorder);
    thread.activity.set(activity);
}
