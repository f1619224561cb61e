//! The mapped memory of threads: frames, recorder, and the table of plans.
//!
//! There is as much of it as threads recorded at the same time. The memory of a thread that ended is reused.
#![allow(unsafe_code, reason = "maps memory")]

use std::cell::Cell;
use std::io;
use std::mem::offset_of;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::AtomicI64;

use super::plan::Plan;
use super::stack::{Frame, FrameSpace, SPLIT_QUARTERS, STACK_ALIGNMENT, Split, SplitSpace};
use super::state::{HeldRecorder, Recorder};
use crate::platform::per_process::{self, PerProcess};
use crate::recording::cells::MarkCells;
use crate::recording::mark::Mark;
use crate::recording::mark::entry::{self, Counts, SLOTS};

/// The layout of a thread's memory, which is aligned to [`STACK_ALIGNMENT`].
#[repr(C)]
struct ThreadMemory {
    frames: FrameSpace,
    recorder: Recorder,
    /// The thread's plans, by the marks' slots; null for marks that were not called on this thread.
    plans: [Cell<*const Plan>; SLOTS],
    /// How many calls marked functions skipped.
    counts: Counts,
    splits: SplitSpace,
}

/// The distance in bytes from a recorder's gap, which begins with its position, to the counts.
pub(crate) const FROM_GAP_TO_COUNTS: usize =
    offset_of!(ThreadMemory, counts) - offset_of!(ThreadMemory, recorder.bursts.gap);

/// A recorder in the [memory](ThreadMemory) of a thread. Only [`allocate`](Self::allocate) makes one, and that memory
/// stays mapped. It cannot leave its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecorderPtr(NonNull<Recorder>);

impl Deref for RecorderPtr {
    type Target = Recorder;

    #[inline]
    fn deref(&self) -> &Recorder {
        // SAFETY: it is mapped, and all of it is cells or atomics. All zeroes are a recorder that is not set up.
        unsafe { self.0.as_ref() }
    }
}

impl RecorderPtr {
    /// A recorder that is not set up, in new memory or in memory that was freed.
    pub(crate) fn allocate() -> io::Result<Self> {
        if let Some(Unused(recorder)) = POOL.lock().ok().and_then(|mut pool| pool.pop()) {
            return Ok(recorder);
        }
        let memory = per_process::map_aligned(size_of::<ThreadMemory>(), STACK_ALIGNMENT)?;
        // SAFETY: the offset is within the new mapping.
        Ok(Self(unsafe { memory.byte_add(offset_of!(ThreadMemory, recorder)).cast() }))
    }

    /// Zeroes the memory, returns its pages to the kernel, and keeps the mapping for another thread.
    ///
    /// # Safety
    ///
    /// Nobody uses the recorder any more.
    pub(crate) unsafe fn free(self) {
        // SAFETY: this function's contract; it is the complete memory.
        unsafe { per_process::clear(self.memory().cast(), size_of::<ThreadMemory>()) };
        // If the list cannot be allocated, the memory stays mapped and unused.
        if let Ok(mut pool) = POOL.lock() {
            pool.push(Unused(self));
        }
    }

    /// What [`as_ptr`](Self::as_ptr) returned; `None` of null.
    ///
    /// # Safety
    ///
    /// It is null, or `as_ptr` returned it on this thread.
    #[inline]
    pub(crate) unsafe fn from_ptr(recorder: *const Recorder) -> Option<Self> {
        NonNull::new(recorder.cast_mut()).map(Self)
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *const Recorder {
        self.0.as_ptr()
    }

    /// The memory. Nobody may refer to all of it at once, because the stack also writes what is in no cell.
    #[inline]
    fn memory(self) -> NonNull<ThreadMemory> {
        // SAFETY: the recorder is in such memory, which stays mapped, and the pointer is valid for all of that.
        unsafe { self.0.byte_sub(offset_of!(ThreadMemory, recorder)).cast() }
    }

    /// Sets up the stack. Its calls get the numbers after `number`.
    pub(crate) fn set_up_stack(self, number: u64) {
        // Frames are at its beginning.
        self.stack.set_up(self.memory().cast(), number);
    }

    /// Whether more than 128 calls were open at once, so that their frames take memory.
    pub(crate) fn was_deep(self) -> bool {
        const DEEP: usize = 128;
        // SAFETY: it is mapped, and frames are cells.
        let frame = unsafe { &(*self.memory().as_ptr()).frames[DEEP] };
        // Frames are used from the bottom up, and a frame that was used holds a plan.
        !frame.plan_ptr().is_null()
    }

    /// The counts of calls that the thread's marked functions skip.
    pub(crate) fn counts(self) -> *const Counts {
        // SAFETY: it is mapped.
        unsafe { &raw const (*self.memory().as_ptr()).counts }
    }

    /// The number of calls that the marked function with this slot skipped.
    pub(crate) fn count<'a>(self, slot: u32) -> &'a AtomicI64 {
        // SAFETY: it is mapped.
        unsafe { &(*self.counts())[slot as usize] }
    }

    /// The thread's plan of the mark with this slot. `None` if the mark was not called on the thread.
    ///
    /// # Safety
    ///
    /// `slot` is below [`SLOTS`]. CELLS: the plan is used as long as it lives.
    #[inline]
    pub(crate) unsafe fn find_plan<'a>(self, slot: u64) -> Option<&'a Plan> {
        // SAFETY: this function's contract.
        unsafe { self.plan_entry(slot).get().as_ref() }
    }

    /// # Safety
    ///
    /// `slot` is below [`SLOTS`].
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "below `SLOTS`")]
    unsafe fn plan_entry<'a>(self, slot: u64) -> &'a Cell<*const Plan> {
        // SAFETY: it is mapped, and `slot` is within the table.
        unsafe { &*(&raw const (*self.memory().as_ptr()).plans).cast::<Cell<*const Plan>>().add(slot as usize) }
    }

    /// Lets calls of the plan's mark find it, if the mark has a slot. Its marked functions skip calls in gaps if they
    /// may: the first such plan in a slot counts these.
    ///
    /// # Safety
    ///
    /// CELLS holds for the plan.
    pub(crate) unsafe fn set_plan(self, plan: &Plan) {
        if plan.slot == 0 {
            return;
        }
        // SAFETY: the slot of a plan is below `SLOTS`.
        unsafe { self.plan_entry(plan.slot.into()) }.set(plan);
        let count = self.count(plan.slot);
        if !plan.is_skipped_by_function() {
            entry::switch_off(count);
        } else if entry::switch_on(count) {
            // SAFETY: CELLS: the memory of a thread's recorder lives as long as its cells; that for calibration is
            // freed after the plans.
            unsafe { plan.cells.count_skipped_in(count) };
        }
    }

    /// Lets the next call of the mark with this slot set up a plan.
    pub(crate) fn forget_plan(self, slot: u32) {
        entry::switch_off(self.count(slot));
        // SAFETY: it is below `SLOTS`: otherwise, there would be no count.
        unsafe { self.plan_entry(slot.into()) }.set(ptr::null());
    }
}

impl HeldRecorder {
    /// The cells to which calls of the mark are added at present, if it was called on the thread.
    pub(crate) fn cells_in_use(&self, mark: &'static Mark) -> Option<&MarkCells> {
        // SAFETY: CELLS holds for a recorder that is held. A mark's slot is below `SLOTS`.
        let plan = unsafe { self.ptr().find_plan(mark.slot()) };
        let cells = plan.map(|plan| &plan.cells).filter(|cells| ptr::eq(cells.mark, mark));
        cells.or_else(|| self.cells_of(mark).next())
    }

    /// Lets calls of the mark with this slot use the thread's plan from the next one on; without one, that call sets it
    /// up.
    ///
    /// # Safety
    ///
    /// The plan is this thread's, has this slot, and is bound. CELLS holds for it: it lives as long as the thread's
    /// cells.
    pub(crate) unsafe fn change_plan(&self, slot: u32, plan: Option<&Plan>) {
        let Some(plan) = plan else { return self.ptr().forget_plan(slot) };
        debug_assert_eq!(plan.slot, slot);
        // SAFETY: this function's contract.
        unsafe { self.ptr().set_plan(plan) };
    }
}

/// What a frame has besides.
///
/// # Safety
///
/// The frame is in a [`ThreadMemory`], and the pointer is valid for all of that.
#[inline]
pub(crate) unsafe fn split_of(frame: *const Frame) -> NonNull<Split> {
    let offset = frame.addr() % STACK_ALIGNMENT;
    let at = offset_of!(ThreadMemory, splits) + offset / 4 * SPLIT_QUARTERS;
    // SAFETY: frames are at the beginning of a `ThreadMemory`, which is aligned, and there is a split for each.
    unsafe { NonNull::new_unchecked(frame.byte_sub(offset).byte_add(at).cast_mut().cast()) }
}

/// The zeroed memory of a recorder that nobody uses.
#[derive(Debug)]
struct Unused(RecorderPtr);

// SAFETY: only the thread that takes it out of the pool uses it.
unsafe impl Send for Unused {}

/// The memory of threads that ended. A forked child starts with an empty pool.
static POOL: PerProcess<Mutex<Vec<Unused>>> = PerProcess::new();

/// Frees the memory of a recorder when it is dropped.
#[derive(Debug)]
pub(crate) struct Owned(RecorderPtr);

impl Owned {
    /// # Safety
    ///
    /// Nobody uses the recorder once this is dropped.
    pub(crate) unsafe fn new(recorder: RecorderPtr) -> Self {
        Self(recorder)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: `new` requires it.
        unsafe { self.0.free() };
    }
}
