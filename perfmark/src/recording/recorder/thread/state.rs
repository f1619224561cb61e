//! A thread's recorder, and how entry and exit code acquires it.
//!
//! The recorder is in memory that a fork wipes. All zeroes are a recorder that is not set up, so a forked child starts
//! without one. The thread's [pointer](TlsPointer) refers to it, and is null while somebody on the thread holds the
//! recorder: entry or exit code, or perfmark's own work. A mark in a signal handler then leaves the recorder alone.
//!
//! Code elsewhere refers to two invariants of this file by name:
//!
//! - RECORDER: a thread's pointer is null, or refers to the thread's recorder; during calibration, to a recorder for
//!   that. A recorder is part of memory that is mapped as long as the pointer can refer to it. All of it is cells or
//!   atomics, so shared references suffice.
//! - CELLS: from when a recorder is set up, the cells of its thread live as long as the recorder is used. So do the
//!   plans, event sets and counters that its calls use.
#![allow(unsafe_code, reason = "raw pointers to state that outlives thread-locals")]

use std::cell::Cell;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::compiler_fence;

use super::memory::RecorderPtr;
use super::overhead::FEW_EVENT_SLOTS;
use super::stack::{FrameRef, SKIPPED, Stack};
use super::thinning::Thinning;
use super::thinning::bursts::Bursts;
use super::tls::TlsPointer;
use crate::platform::arena::Arena;
use crate::platform::signals::BlockedSignals;
use crate::recording::cells::{Graph, MarkCells, ThreadCells};
use crate::recording::mark::Mark;
use crate::recording::mark::entry;
use crate::recording::recorder::event_slots::EventSlots;

/// The state that a thread's calls read and write. All zeroes are a recorder that is not set up.
#[repr(C)]
pub(crate) struct Recorder {
    pub(crate) stack: Stack,
    /// Which calls of thinned marks are measured.
    pub(crate) bursts: Bursts,
    /// The state of the random numbers that select these.
    pub(crate) random: Cell<u64>,
    /// Null if the recorder is not set up.
    cells: Cell<*const ThreadCells>,
    /// The call graph; null without one. During calibration it is another graph than the thread's.
    graph: Cell<*const Graph>,
    /// The generation of the process: a forked child has another one than its parent.
    pub(crate) generation: Cell<u8>,
    /// The number of the call that began last when the burst began.
    pub(crate) burst_began: Cell<u64>,
    /// What chooses which marks are thinned, and the thread's event slots; null before the first call.
    thinning: Cell<*const Thinning>,
    slots: Cell<*const EventSlots>,
    /// Whether the thread has at most [`FEW_EVENT_SLOTS`].
    pub(crate) has_few_slots: Cell<bool>,
    /// Whether a mark may be thinned, so that frames note how many calls were skipped.
    pub(crate) has_thinned: Cell<bool>,
    /// Whether frames track probe overhead for each event slot, because it differs between the thread's calls.
    pub(crate) tracks_overhead: Cell<bool>,
}

impl Recorder {
    /// Sets up the recorder with these cells and this call graph.
    ///
    /// # Safety
    ///
    /// CELLS holds for `cells` and `graph`.
    pub(crate) unsafe fn set_up(&self, cells: *const ThreadCells, graph: Option<&Graph>) {
        self.cells.set(cells);
        self.graph.set(graph.map_or(ptr::null(), ptr::from_ref));
    }

    /// Lets the recorder thin marks.
    ///
    /// # Safety
    ///
    /// CELLS: both live as long as the thread's cells.
    pub(crate) unsafe fn set_thinning(&self, thinning: &Thinning, slots: &EventSlots) {
        self.thinning.set(thinning);
        self.slots.set(slots);
        self.has_few_slots.set(slots.len() <= FEW_EVENT_SLOTS);
    }

    /// What chooses which marks are thinned, and the thread's event slots, if any mark may be thinned.
    pub(crate) fn thinning(&self) -> Option<(&Thinning, &EventSlots)> {
        // SAFETY: CELLS: `set_thinning` stored the pointer, or it is null.
        let thinning = unsafe { self.thinning.get().as_ref() };
        thinning.zip(self.slots()).filter(|_| self.has_thinned.get())
    }

    /// The thread's event slots. `None` before its first call.
    pub(crate) fn slots(&self) -> Option<&EventSlots> {
        // SAFETY: CELLS: `set_thinning` stored the pointer, or it is null.
        unsafe { self.slots.get().as_ref() }
    }

    /// Begins or ends a gap. In the open calls, the number of calls skipped inside remains the same.
    pub(crate) fn change_gap<R>(&self, change: impl FnOnce(&Bursts) -> R) -> R {
        let before = self.bursts.gap.set_back.get();
        let result = change(&self.bursts);
        let set_back = self.bursts.gap.set_back.get().wrapping_sub(before);
        for frame in self.stack.iter().take_while(|_| set_back != 0) {
            frame.skipped_before().set(frame.skipped_before().get().wrapping_sub(set_back));
        }
        result
    }

    /// The number of calls skipped inside this one.
    pub(crate) fn skipped_inside(&self, frame: FrameRef) -> u64 {
        if self.has_thinned.get() { frame.skipped_inside(self.bursts.gap.position()) & SKIPPED } else { 0 }
    }

    /// Whether the call is measured without being recorded.
    pub(crate) fn is_unrecorded(&self, frame: FrameRef) -> bool {
        self.has_thinned.get() && frame.is_unrecorded()
    }

    /// Whether the call began in the burst in progress, and all thinned marks take part in that.
    #[inline]
    pub(crate) fn is_in_complete_burst(&self, frame: FrameRef) -> bool {
        (frame.number() > self.burst_began.get()) & (self.bursts.complete() != 0)
    }

    /// Whether a call of a thinned mark is open that began in the burst, or in the warm-up before the next one. Those
    /// with 32 or more open calls inside do not count.
    pub(crate) fn is_inside_burst(&self) -> bool {
        const MOST: usize = 32;
        let began_in_it = self.stack.iter().take_while(|frame| frame.number() > self.burst_began.get());
        began_in_it.take(MOST).any(|frame| frame.plan().is_thinned())
    }

    pub(crate) fn is_set_up(&self) -> bool {
        !self.cells.get().is_null()
    }

    /// The thread's cells. `None` if the recorder is not set up.
    pub(crate) fn cells(&self) -> Option<&ThreadCells> {
        // SAFETY: CELLS: `set_up` stored the pointer, or it is null.
        unsafe { self.cells.get().as_ref() }
    }

    /// The mark's cells on this thread, with any event set; the newest first.
    pub(crate) fn cells_of(&self, mark: &'static Mark) -> impl Iterator<Item = &MarkCells> {
        self.cells().into_iter().flat_map(ThreadCells::iter).filter(move |cells| ptr::eq(cells.mark, mark))
    }

    /// The memory in which the thread's histograms grow.
    pub(crate) fn arena(&self) -> Option<&Arena> {
        Some(&self.cells()?.arena)
    }

    /// The call graph. `None` without one.
    pub(crate) fn graph(&self) -> Option<&Graph> {
        // SAFETY: CELLS: `set_up` stored the pointer, or it is null.
        unsafe { self.graph.get().as_ref() }
    }
}

/// This thread's recorder, held by entry or exit code. Nobody else on this thread uses it until it is released.
///
/// Functions pass it on by value. It cannot leave its thread.
#[must_use = "nobody else can take the recorder until it is put back"]
pub(crate) struct HeldRecorder {
    recorder: RecorderPtr,
    tls: TlsPointer,
}

impl Deref for HeldRecorder {
    // Not `RecorderPtr`, with which a call with a call graph takes an instruction more.
    type Target = Recorder;

    #[inline]
    fn deref(&self) -> &Recorder {
        &self.recorder
    }
}

impl HeldRecorder {
    /// Acquires the recorder. `None` if there is none, or if entry or exit code or perfmark's own work holds it.
    #[inline]
    pub(crate) fn acquire() -> Option<Self> {
        Self::acquire_if(|_| Some(())).map(|(recorder, ())| recorder)
    }

    #[inline]
    fn new(tls: TlsPointer, recorder: RecorderPtr) -> Self {
        tls.clear();
        compiler_fence(SeqCst);
        Self { recorder, tls }
    }

    /// Acquires the recorder if `look` finds something in it.
    #[inline]
    pub(crate) fn acquire_if<T>(look: impl FnOnce(RecorderPtr) -> Option<T>) -> Option<(Self, T)> {
        let tls = TlsPointer::get();
        // SAFETY: RECORDER: the pointer is null, or refers to the recorder of this thread.
        let recorder = unsafe { RecorderPtr::from_ptr(tls.load()) }?;
        let found = look(recorder)?;
        Some((Self::new(tls, recorder), found))
    }

    pub(crate) fn ptr(&self) -> RecorderPtr {
        self.recorder
    }

    #[inline]
    pub(crate) fn release(self) {
        compiler_fence(SeqCst);
        self.tls.store(self.recorder.as_ptr());
    }
}

/// What the thread does at the moment, as far as marks are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The program's code, or entry or exit code, which holds the recorder.
    Program,
    /// Perfmark's cold work. A mark called now is in an allocator and not recorded; signals are blocked.
    OwnWork,
    /// Calibration: calls of the marks that measure probe overhead. Any other mark called now is in a signal handler.
    Calibration,
    /// The thread's cells are merged into the registry. Calls are counted but not measured.
    Ended,
}

/// The state of a thread apart from its calls. It has no destructor, so it can be used while destructors of other
/// thread-locals run.
pub(crate) struct ThreadState {
    /// The thread's recorder, held or not; `None` before the first call and after the thread's end.
    recorder: Cell<Option<RecorderPtr>>,
    pub(crate) activity: Cell<Activity>,
    /// Whether perfmark's own work runs in a signal handler that interrupted entry or exit code. The open calls are
    /// then in the state in which that code was interrupted.
    pub(crate) interrupts_hook: Cell<bool>,
}

thread_local! {
    static THREAD: ThreadState = const {
        ThreadState {
            recorder: Cell::new(None),
            activity: Cell::new(Activity::Program),
            interrupts_hook: Cell::new(false),
        }
    };
}

/// Calls `work` with this thread's state.
pub(crate) fn with_thread<R>(work: impl FnOnce(&ThreadState) -> R) -> R {
    THREAD.with(work)
}

impl ThreadState {
    /// The thread's recorder, if there is one.
    pub(crate) fn recorder(&self) -> Option<RecorderPtr> {
        self.recorder.get()
    }

    /// Leaves the thread without a recorder.
    pub(crate) fn clear_recorder(&self) {
        TlsPointer::get().clear();
        // SAFETY: there is no recorder.
        unsafe { self.replace_recorder(None) };
    }

    /// Makes this the thread's recorder, in whose gaps marked functions skip calls, or none. Returns the one before.
    ///
    /// # Safety
    ///
    /// RECORDER and CELLS hold for `recorder`.
    pub(crate) unsafe fn replace_recorder(&self, recorder: Option<RecorderPtr>) -> Option<RecorderPtr> {
        let before = self.recorder.replace(recorder);
        self.skip_in_gaps(true);
        before
    }

    /// Lets marked functions skip calls in gaps of the thread's recorder, if there is one, or no longer.
    fn skip_in_gaps(&self, skip: bool) {
        let recorder = self.recorder().filter(|_| skip);
        // SAFETY: a recorder's memory stays mapped.
        unsafe { entry::set_counts(recorder.map_or(ptr::null(), RecorderPtr::counts)) };
    }

    /// Whether interrupted entry or exit code holds the recorder.
    pub(crate) fn is_busy(&self) -> bool {
        self.recorder().is_some_and(|recorder| recorder.is_set_up()) && TlsPointer::get().load().is_null()
    }

    /// Acquires the recorder after perfmark's own work. `None` if a signal handler ended recording on this thread
    /// meanwhile.
    pub(crate) fn acquire(&self) -> Option<HeldRecorder> {
        let recorder = self.recorder().filter(|_| self.activity.get() == Activity::Program)?;
        Some(HeldRecorder::new(TlsPointer::get(), recorder))
    }

    /// Whether this process was forked after the thread's recorder was set up, which wiped it.
    pub(crate) fn is_forked(&self) -> bool {
        self.recorder().is_some_and(|recorder| !recorder.is_set_up())
    }
}

/// Runs perfmark's own work on this thread. Marks called in it, such as in an allocator, are not recorded. `None` if
/// this thread does such work already, so that it does not acquire a lock twice.
pub(crate) fn own_work<R>(work: impl FnOnce() -> R) -> Option<R> {
    with_thread(|thread| {
        // Entry or exit code that a signal handler interrupted holds no lock and is not in an allocator.
        if matches!(thread.activity.get(), Activity::OwnWork | Activity::Calibration) {
            return None;
        }
        let _signals = BlockedSignals::new();
        let _restore = ActivityGuard::set(thread, Activity::OwnWork);
        Some(work())
    })
}

/// Whether this thread does perfmark's own work, apart from entry and exit code, which does not allocate.
#[inline]
pub(crate) fn is_in_own_work() -> bool {
    with_thread(|thread| matches!(thread.activity.get(), Activity::OwnWork | Activity::Calibration))
}

/// Calls `work` with this thread's recorder, unless there is none or it is held.
pub(crate) fn with_recorder(work: impl FnOnce(&Recorder)) {
    if let Some(taken) = HeldRecorder::acquire() {
        work(&taken);
        taken.release();
    }
}

/// Restores the thread's activity when it is dropped, also after a panic.
pub(crate) struct ActivityGuard<'a> {
    thread: &'a ThreadState,
    activity: Activity,
    interrupts_hook: bool,
}

impl<'a> ActivityGuard<'a> {
    /// Sets the thread's activity. As long as the guard lives, nobody can acquire the recorder, and marked functions
    /// skip no calls.
    pub(crate) fn set(thread: &'a ThreadState, activity: Activity) -> Self {
        let interrupts_hook = thread.interrupts_hook.replace(thread.is_busy());
        TlsPointer::get().clear();
        thread.skip_in_gaps(false);
        Self { thread, activity: thread.activity.replace(activity), interrupts_hook }
    }
}

impl Drop for ActivityGuard<'_> {
    fn drop(&mut self) {
        if !self.thread.interrupts_hook.replace(self.interrupts_hook) {
            TlsPointer::get().store(self.thread.recorder().map_or(ptr::null(), RecorderPtr::as_ptr));
        }
        self.thread.activity.set(self.activity);
        self.thread.skip_in_gaps(true);
    }
}

/// Makes `recorder` this thread's recorder while it runs `calls`, during perfmark's own work.
///
/// # Safety
///
/// RECORDER and CELLS hold for `recorder` until `calls` returns.
pub(crate) unsafe fn with_calibration_recorder(thread: &ThreadState, recorder: RecorderPtr, calls: &dyn Fn()) {
    let activity = thread.activity.replace(Activity::Calibration);
    // SAFETY: this function's contract.
    let program_recorder = unsafe { thread.replace_recorder(Some(recorder)) };
    TlsPointer::get().store(recorder.as_ptr());
    calls();
    TlsPointer::get().clear();
    // SAFETY: RECORDER and CELLS hold for the recorder that the thread had before.
    unsafe { thread.replace_recorder(program_recorder) };
    thread.skip_in_gaps(false);
    thread.activity.set(activity);
}

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use super::super::event_set::EventSet;
    use super::super::plan::Plan;
    use super::*;
    use crate::recording::mark::CallMode;
    use crate::recording::recorder::calls::call::empty_thinned_calls::CALIBRATION_CALLS;
    use crate::recording::recorder::hooks::slow;

    #[test]
    fn own_work_in_a_signal_handler_that_interrupts_a_hook_leaves_the_open_calls_alone() {
        static MARK: Mark = Mark::hidden(7);
        let cells = ThreadCells::new(None, None);
        let recorder = RecorderPtr::allocate().expect("memory");
        // SAFETY: RECORDER, CELLS: only this test uses the recorder, until it is freed below. The event set has no
        // slot, and its hooks suit all plans.
        unsafe {
            let set = EventSet::new(&[], &EventSlots::default(), CallMode::default(), &CALIBRATION_CALLS, slow::HOOKS);
            let plan = Plan::new(MarkCells::new(&MARK, [].into(), 1), &set, 0, ptr::null());
            recorder.set_up_stack(0);
            recorder.set_up(&raw const cells, None);
            (0..3).for_each(|_| _ = recorder.stack.open(recorder.stack.next().expect("room"), &plan, 0));
            with_thread(|thread| {
                let before = thread.replace_recorder(Some(recorder));
                TlsPointer::get().clear();
                let mut visited = 0;
                // The links of the frames are reversed meanwhile.
                recorder.stack.visit_above(None, |_| {
                    visited += own_work(|| 1).expect("the thread does no other");
                    assert!(TlsPointer::get().load().is_null(), "the hook still holds the recorder");
                });
                assert_eq!(visited, 3);
                thread.replace_recorder(before);
            });
            recorder.free();
        }
    }
}
