//! The memory of threads' recorders. There are as many as threads recorded at once: what a thread that ended had is
//! kept for another one.
#![allow(unsafe_code, reason = "maps memory")]

use std::io;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::plan::Home;
use super::stack::ALIGNMENT;
use super::state::Recorder;
use crate::per_process::{self, PerProcess};

/// What threads that ended had mapped. A forked child begins without.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<GivenBack>>);

/// Zeroes, and nobody's.
#[derive(Debug)]
struct GivenBack(NonNull<Recorder>);

// SAFETY: nobody uses it but who takes it out of the list.
unsafe impl Send for GivenBack {}

static KEPT: PerProcess<Kept> = PerProcess::new();

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Vec<GivenBack>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maps a recorder that is not set up, or takes one that was given back.
pub(super) fn map() -> io::Result<NonNull<Recorder>> {
    if let Some(GivenBack(recorder)) = KEPT.get().ok().and_then(|kept| kept.lock().pop()) {
        return Ok(recorder);
    }
    let home = per_process::map_aligned(size_of::<Home>(), ALIGNMENT)?;
    // SAFETY: within what was mapped.
    Ok(unsafe { home.byte_add(offset_of!(Home, recorder)).cast() })
}

/// Sets up the stack of a recorder that [`map`] gave, for calls with the numbers behind `number`.
///
/// # Safety
///
/// It was given by `map`.
pub(super) unsafe fn set_up_stack(recorder: NonNull<Recorder>, number: u64) {
    // SAFETY: this function's contract: it is a part of a home, for which the pointer is good.
    let (stack, space) = unsafe {
        let home = Home::of(recorder);
        (&(*home).recorder.stack, NonNull::new_unchecked(&raw mut (*home).space))
    };
    stack.set_up(space, number);
}

/// Whether more than some hundred calls were open at once, so that their frames take memory.
///
/// # Safety
///
/// It was given by `map`.
pub(super) unsafe fn was_deep(recorder: NonNull<Recorder>) -> bool {
    const DEEP: usize = 128;
    // SAFETY: this function's contract: it is a part of a home, for which the pointer is good.
    let frame = unsafe { &(*Home::of(recorder)).space[DEEP] };
    // Frames are used one above the other.
    !frame.plan().is_null()
}

/// Gives back what [`map`] gave: zeroed, without memory, and mapped.
///
/// # Safety
///
/// Nobody uses it any more.
pub(super) unsafe fn give_back(recorder: NonNull<Recorder>) {
    // SAFETY: this function's contract; it is a part of a home.
    unsafe { per_process::clear(NonNull::new_unchecked(Home::of(recorder)).cast(), size_of::<Home>()) };
    // Without memory for the list it stays mapped, and unused.
    if let Ok(kept) = KEPT.get() {
        kept.lock().push(GivenBack(recorder));
    }
}
