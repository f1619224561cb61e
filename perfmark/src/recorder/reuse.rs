//! What a thread that ends leaves to the next one.
//!
//! A program may start a thread for each request. So a recorder with the plans of its marks is kept as it is, without
//! the calls, and the first calls of the next thread of the same marks find all that they need. Only a few are kept,
//! and none that is large. None that has counters, either: those belong to their thread.
#![allow(unsafe_code, reason = "recorders are found by pointers")]

use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::memory;
use super::resources::Resources;
use super::state::Recorder;
use crate::mark::Mark;
use crate::per_process::PerProcess;

/// Recorders that are kept, at most.
const MAX_RECORDERS: usize = 16;

/// A forked child begins without.
#[derive(Default)]
struct Pool(Mutex<Vec<Entry>>);

/// A recorder that is set up, and what belongs to it.
struct Entry {
    recorder_ptr: NonNull<Recorder>,
    resources: Box<Resources>,
}

// SAFETY: nobody uses them but who takes them out of the list, and there is no counter, which would be its thread's.
unsafe impl Send for Entry {}

static POOL: PerProcess<Pool> = PerProcess::new();

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the recorder of an ended thread that called this mark: set up, but for what differs between threads. Its cells
/// still hold that thread's calls, which are retired. Those of threads with other marks stay: with events of these,
/// this thread's calls would take longer.
pub(super) fn take(mark: &Mark) -> Option<(NonNull<Recorder>, Box<Resources>)> {
    let mut pool = POOL.get().ok()?.lock();
    let has_mark = |entry: &Entry| entry.resources.plans().any(|plan| ptr::eq(plan.cells.mark, mark));
    let at = pool.iter().rposition(has_mark)?;
    let Entry { recorder_ptr, resources } = pool.remove(at);
    Some((recorder_ptr, resources))
}

/// Leaves a thread's recorder, and what belongs to it, to another thread; or gives their memory back. The cells are
/// retired.
///
/// # Safety
///
/// Nobody uses them any more. [`home::map`] gave the recorder.
pub(super) unsafe fn put_or_free(mut recorder_ptr: NonNull<Recorder>, resources: Option<Box<Resources>>) {
    if let (Some(mut resources), Ok(pool)) = (resources, POOL.get()) {
        // SAFETY: a recorder as `map` gave it, or as it was set up.
        let (recorder, was_deep) = unsafe { (recorder_ptr.as_ref(), memory::was_deep(recorder_ptr)) };
        let has_open_calls = recorder.stack.innermost().is_some();
        // Where costs are kept, calls take longer.
        if !has_open_calls && !was_deep && !recorder.tracks_overhead.get() && resources.is_reusable() {
            let mut pool = pool.lock();
            pool.push(Entry { recorder_ptr, resources });
            if pool.len() <= MAX_RECORDERS {
                return;
            }
            // The one that was not wanted longest.
            recorder_ptr = pool.remove(0).recorder_ptr;
        }
    }
    // SAFETY: this function's contract.
    unsafe { memory::free(recorder_ptr) };
}
