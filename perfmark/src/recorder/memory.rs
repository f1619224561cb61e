//! The memory of threads' recorders. There are as many as threads recorded at once: what a thread that ended had is
//! kept for another one.
#![allow(unsafe_code, reason = "maps memory")]

use std::cell::Cell;
use std::io;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::plan::Plan;
use super::stack::{FrameSpace, STACK_ALIGNMENT};
use super::state::Recorder;
use crate::mark::SLOTS;
use crate::per_process::{self, PerProcess};

/// A mark's plan; null where the mark was not called on this thread.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct PlanPtr(*const Plan);

impl PlanPtr {
    pub(super) fn of(plan: &Plan) -> Self {
        Self(plan)
    }

    /// The plan, if there is one.
    #[inline]
    pub(super) fn plan<'a>(self) -> Option<&'a Plan> {
        // SAFETY: what `of` was given lives as long as the thread's cells (CELLS).
        unsafe { self.0.as_ref() }
    }
}

/// What is mapped for a thread, at a multiple of [`ALIGNMENT`](STACK_ALIGNMENT). Each recorder is a part of
/// one.
#[repr(C)]
pub(super) struct ThreadMemory {
    pub(super) frames: FrameSpace,
    pub(super) recorder: Recorder,
    /// By the mark's place.
    plans: [Cell<PlanPtr>; SLOTS],
}

impl ThreadMemory {
    /// The one that the recorder is a part of.
    ///
    /// # Safety
    ///
    /// It is a part of one, for all of which the pointer is good.
    #[inline]
    pub(super) unsafe fn of(recorder: NonNull<Recorder>) -> *mut Self {
        // SAFETY: this function's contract.
        unsafe { recorder.byte_sub(offset_of!(Self, recorder)).as_ptr().cast() }
    }
}

/// A thread's plan of the mark with that place, if it was called there.
///
/// # Safety
///
/// It is the thread's recorder, as RECORDER has it.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "below `SLOTS`")]
pub(super) unsafe fn plan_entry<'a>(recorder: NonNull<Recorder>, slot: u64) -> &'a Cell<PlanPtr> {
    // SAFETY: this function's contract: it is a part of a home, for which the pointer is good. A place is below
    // `PLACES`.
    unsafe { &*(&raw const (*ThreadMemory::of(recorder)).plans).cast::<Cell<PlanPtr>>().add(slot as usize) }
}

/// What threads that ended had mapped. A forked child begins without.
#[derive(Debug, Default)]
struct Pool(Mutex<Vec<Free>>);

/// Zeroes, and nobody's.
#[derive(Debug)]
struct Free(NonNull<Recorder>);

// SAFETY: nobody uses it but who takes it out of the list.
unsafe impl Send for Free {}

static POOL: PerProcess<Pool> = PerProcess::new();

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Vec<Free>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maps a recorder that is not set up, or takes one that was given back.
pub(super) fn allocate() -> io::Result<NonNull<Recorder>> {
    if let Some(Free(recorder)) = POOL.get().ok().and_then(|pool| pool.lock().pop()) {
        return Ok(recorder);
    }
    let memory = per_process::map_aligned(size_of::<ThreadMemory>(), STACK_ALIGNMENT)?;
    // SAFETY: within what was mapped.
    Ok(unsafe { memory.byte_add(offset_of!(ThreadMemory, recorder)).cast() })
}

/// Sets up the stack of a recorder that [`map`] gave, for calls with the numbers behind `number`.
///
/// # Safety
///
/// It was given by `map`.
pub(super) unsafe fn set_up_stack(recorder: NonNull<Recorder>, number: u64) {
    // SAFETY: this function's contract: it is a part of a home, for which the pointer is good.
    let (stack, frames) = unsafe {
        let memory = ThreadMemory::of(recorder);
        (&(*memory).recorder.stack, NonNull::new_unchecked(&raw mut (*memory).frames))
    };
    stack.set_up(frames, number);
}

/// Whether more than some hundred calls were open at once, so that their frames take memory.
///
/// # Safety
///
/// It was given by `map`.
pub(super) unsafe fn was_deep(recorder: NonNull<Recorder>) -> bool {
    const DEEP: usize = 128;
    // SAFETY: this function's contract: it is a part of a home, for which the pointer is good.
    let frame = unsafe { &(*ThreadMemory::of(recorder)).frames[DEEP] };
    // Frames are used one above the other.
    !frame.plan().is_null()
}

/// Gives back what [`map`] gave: zeroed, without memory, and mapped.
///
/// # Safety
///
/// Nobody uses it any more.
pub(super) unsafe fn free(recorder: NonNull<Recorder>) {
    // SAFETY: this function's contract; it is a part of a home.
    unsafe { per_process::clear(NonNull::new_unchecked(ThreadMemory::of(recorder)).cast(), size_of::<ThreadMemory>()) };
    // Without memory for the list it stays mapped, and unused.
    if let Ok(pool) = POOL.get() {
        pool.lock().push(Free(recorder));
    }
}
