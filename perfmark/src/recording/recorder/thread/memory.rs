//! The mapped memory of threads: frames, recorder, and the table of plans.
//!
//! There is as much of it as threads recorded at the same time. The memory of a thread that ended is reused.
#![allow(unsafe_code, reason = "maps memory")]

use std::cell::Cell;
use std::io;
use std::mem::offset_of;
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
pub(crate) struct ThreadMemory {
    pub(crate) frames: FrameSpace,
    pub(crate) recorder: Recorder,
    /// The thread's plans, by the marks' slots; null for marks that were not called on this thread.
    plans: [Cell<*const Plan>; SLOTS],
    /// How many calls marked functions skipped.
    counts: Counts,
    splits: SplitSpace,
}

/// The distance in bytes from a recorder's gap, which begins with its position, to the counts.
pub(crate) const FROM_GAP_TO_COUNTS: usize =
    offset_of!(ThreadMemory, counts) - offset_of!(ThreadMemory, recorder.bursts.gap);

/// The counts of calls that the thread's marked functions skip.
///
/// # Safety
///
/// RECORDER holds for `recorder`.
pub(crate) unsafe fn counts(recorder: NonNull<Recorder>) -> *const Counts {
    // SAFETY: RECORDER: the recorder came from `allocate`, so the counts are mapped.
    unsafe { &raw const (*ThreadMemory::of(recorder)).counts }
}

impl ThreadMemory {
    /// The memory that contains this recorder.
    ///
    /// # Safety
    ///
    /// The recorder came from [`allocate`], so it is in a `ThreadMemory`, and the pointer is valid for all of that.
    #[inline]
    pub(crate) unsafe fn of(recorder: NonNull<Recorder>) -> *mut Self {
        // SAFETY: by this function's `# Safety` section, the result is within the same mapping.
        unsafe { recorder.byte_sub(offset_of!(Self, recorder)).as_ptr().cast() }
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

/// The thread's plan of the mark with this slot. `None` if the mark was not called on the thread.
///
/// # Safety
///
/// RECORDER holds for `recorder`, and `slot` is below [`SLOTS`]. CELLS: the plan is used as long as it lives.
#[inline]
pub(crate) unsafe fn find_plan<'a>(recorder: NonNull<Recorder>, slot: u64) -> Option<&'a Plan> {
    // SAFETY: this function's contract.
    unsafe { plan_entry(recorder, slot).get().as_ref() }
}

/// Lets calls of the plan's mark find it, if the mark has a slot. Its marked functions skip calls in gaps if they may:
/// the first such plan in a slot counts these.
///
/// # Safety
///
/// RECORDER holds for `recorder`, and CELLS for the plan.
pub(crate) unsafe fn set_plan(recorder: NonNull<Recorder>, plan: &Plan) {
    if plan.slot == 0 {
        return;
    }
    // SAFETY: this function's contract, and the slot of a plan is below `SLOTS`.
    unsafe { plan_entry(recorder, plan.slot.into()) }.set(plan);
    // SAFETY: this function's contract, and the slot of a plan is below `SLOTS`.
    let count = unsafe { count(recorder, plan.slot) };
    if !plan.is_skipped_by_function() {
        entry::switch_off(count);
    } else if entry::switch_on(count) {
        // SAFETY: CELLS: the memory of a thread's recorder lives as long as its cells; that for calibration is freed
        // after the plans.
        unsafe { plan.cells.count_skipped_in(count) };
    }
}

/// The number of calls that the marked function with this slot skipped.
///
/// # Safety
///
/// RECORDER holds for `recorder`, and `slot` is below [`SLOTS`].
pub(crate) unsafe fn count<'a>(recorder: NonNull<Recorder>, slot: u32) -> &'a AtomicI64 {
    // SAFETY: RECORDER: the recorder came from `allocate`, so the counts are mapped.
    unsafe { &(*counts(recorder))[slot as usize] }
}

/// Lets the next call of the mark with this slot set up a plan.
///
/// # Safety
///
/// RECORDER holds for `recorder`, and `slot` is below [`SLOTS`].
pub(crate) unsafe fn forget_plan(recorder: NonNull<Recorder>, slot: u32) {
    // SAFETY: this function's contract.
    unsafe {
        plan_entry(recorder, slot.into()).set(ptr::null());
        entry::switch_off(count(recorder, slot));
    }
}

/// # Safety
///
/// RECORDER holds for `recorder`, and `slot` is below [`SLOTS`].
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "below `SLOTS`")]
unsafe fn plan_entry<'a>(recorder: NonNull<Recorder>, slot: u64) -> &'a Cell<*const Plan> {
    // SAFETY: RECORDER: the recorder came from `allocate`, so the table is mapped. `slot` is within the table.
    unsafe { &*(&raw const (*ThreadMemory::of(recorder)).plans).cast::<Cell<*const Plan>>().add(slot as usize) }
}

impl HeldRecorder {
    /// The cells to which calls of the mark are added at present, if it was called on the thread.
    pub(crate) fn cells_in_use(&self, mark: &'static Mark) -> Option<&MarkCells> {
        // SAFETY: RECORDER and CELLS hold for a recorder that is held. A mark's slot is below `SLOTS`.
        let plan = unsafe { find_plan(self.as_ptr(), mark.slot()) };
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
        // SAFETY: RECORDER holds for a recorder that is held. Slots of plans are below `SLOTS`. This function's
        // contract.
        unsafe {
            match plan {
                Some(plan) => {
                    debug_assert_eq!(plan.slot, slot);
                    set_plan(self.as_ptr(), plan);
                }
                None => forget_plan(self.as_ptr(), slot),
            }
        }
    }
}

/// Zeroed memory that nobody uses.
#[derive(Debug)]
struct Free(NonNull<Recorder>);

// SAFETY: only the thread that takes it out of the pool uses it.
unsafe impl Send for Free {}

/// The memory of threads that ended. A forked child starts with an empty pool.
static POOL: PerProcess<Mutex<Vec<Free>>> = PerProcess::new();

/// Returns a recorder that is not set up, in new memory or in memory that was freed.
pub(crate) fn allocate() -> io::Result<NonNull<Recorder>> {
    if let Some(Free(recorder)) = POOL.lock().ok().and_then(|mut pool| pool.pop()) {
        return Ok(recorder);
    }
    let memory = per_process::map_aligned(size_of::<ThreadMemory>(), STACK_ALIGNMENT)?;
    // SAFETY: the offset is within the new mapping.
    Ok(unsafe { memory.byte_add(offset_of!(ThreadMemory, recorder)).cast() })
}

/// Sets up the stack of a recorder. Its calls get the numbers after `number`.
///
/// # Safety
///
/// The recorder came from [`allocate`].
pub(crate) unsafe fn set_up_stack(recorder: NonNull<Recorder>, number: u64) {
    // SAFETY: a recorder from `allocate` is in a `ThreadMemory` that is mapped.
    let (stack, frames) = unsafe {
        let memory = ThreadMemory::of(recorder);
        (&(*memory).recorder.stack, NonNull::new_unchecked(&raw mut (*memory).frames))
    };
    stack.set_up(frames, number);
}

/// Whether more than 128 calls were open at once, so that their frames take memory.
///
/// # Safety
///
/// The recorder came from [`allocate`].
pub(crate) unsafe fn was_deep(recorder: NonNull<Recorder>) -> bool {
    const DEEP: usize = 128;
    // SAFETY: a recorder from `allocate` is in a `ThreadMemory` that is mapped.
    let frame = unsafe { &(*ThreadMemory::of(recorder)).frames[DEEP] };
    // Frames are used from the bottom up, and a frame that was used holds a plan.
    !frame.plan_ptr().is_null()
}

/// The memory of a recorder. It is freed when this is dropped.
#[derive(Debug)]
pub(crate) struct Owned(NonNull<Recorder>);

impl Owned {
    /// # Safety
    ///
    /// The recorder came from [`allocate`], and nobody uses it once this is dropped.
    pub(crate) unsafe fn new(recorder: NonNull<Recorder>) -> Self {
        Self(recorder)
    }
}

// SAFETY: it is dropped only, by which time no thread uses the memory.
unsafe impl Send for Owned {}
// SAFETY: there is nothing to do with a reference.
unsafe impl Sync for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: `new` requires it.
        unsafe { free(self.0) };
    }
}

/// Zeroes the memory of a recorder, returns its pages to the kernel, and keeps the mapping for another thread.
///
/// # Safety
///
/// The recorder came from [`allocate`], and nobody uses it any more.
pub(crate) unsafe fn free(recorder: NonNull<Recorder>) {
    // SAFETY: by this function's `# Safety` section, this is a mapped `ThreadMemory` that nobody uses.
    unsafe { per_process::clear(NonNull::new_unchecked(ThreadMemory::of(recorder)).cast(), size_of::<ThreadMemory>()) };
    // If the list cannot be allocated, the memory stays mapped and unused.
    if let Ok(mut pool) = POOL.lock() {
        pool.push(Free(recorder));
    }
}
