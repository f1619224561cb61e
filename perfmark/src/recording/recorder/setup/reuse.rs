//! Recorders of threads that ended, kept for other threads.
//!
//! Some programs start a thread for each request. To make first calls cheap, a recorder is kept with the plans of its
//! marks, and the next thread with the same marks uses it. Only a few recorders are kept. Large recorders are not kept,
//! and neither are recorders with counters, which belong to their thread.
#![allow(unsafe_code, reason = "recorders are found by pointers")]

use std::ptr::{self, NonNull};
use std::sync::Mutex;

use super::resources::Resources;
use crate::platform::per_process::PerProcess;
use crate::recording::mark::Mark;
use crate::recording::recorder::thread::{Recorder, memory};

/// The most recorders that are kept.
const MAX_RECORDERS: usize = 16;

/// A recorder that is set up, and its resources.
struct Entry {
    recorder_ptr: NonNull<Recorder>,
    resources: Box<Resources>,
}

// SAFETY: only the thread that takes an entry out of the pool uses it. `is_reusable` excluded counters, which belong to
// their thread.
unsafe impl Send for Entry {}

/// The recorders that are kept. A forked child starts with an empty pool.
static POOL: PerProcess<Mutex<Vec<Entry>>> = PerProcess::new();

/// Takes the recorder of an ended thread that called this mark. It is set up, except for what differs between threads,
/// and its cells still contain that thread's calls, which are in the registry already. Recorders with other marks are
/// not used, because additional events would make this thread's calls slower.
pub(crate) fn take(mark: &Mark) -> Option<(NonNull<Recorder>, Box<Resources>)> {
    let mut pool = POOL.lock().ok()?;
    let has_mark = |entry: &Entry| entry.resources.plans().any(|plan| ptr::eq(plan.cells.mark, mark));
    let index = pool.iter().rposition(has_mark)?;
    let Entry { recorder_ptr, resources } = pool.remove(index);
    Some((recorder_ptr, resources))
}

/// Keeps a thread's recorder with its resources for another thread, or drops the resources, which frees both. The
/// registry has merged the cells.
pub(crate) fn put(recorder_ptr: NonNull<Recorder>, mut resources: Box<Resources>) {
    // SAFETY: `resources` owns the memory of the recorder, which `memory::allocate` mapped, and nobody else uses it.
    let (recorder, was_deep) = unsafe { (recorder_ptr.as_ref(), memory::was_deep(recorder_ptr)) };
    let has_open_calls = recorder.stack.innermost().is_some();
    // A recorder that tracks overhead would make calls slower.
    if !has_open_calls && !was_deep && !recorder.tracks_overhead.get() && resources.is_reusable() {
        let Ok(mut pool) = POOL.lock() else { return };
        pool.push(Entry { recorder_ptr, resources });
        if pool.len() > MAX_RECORDERS {
            // Frees the recorder that was not used for the longest time.
            pool.remove(0);
        }
    }
}
