//! Recorders of threads that ended, kept for other threads.
//!
//! Some programs start a thread for each request. To make first calls cheap, a recorder is kept with the plans of its
//! marks, and the next thread with the same marks uses it. Only a few recorders are kept. Large recorders are not kept,
//! and neither are recorders with counters, which belong to their thread.
#![allow(unsafe_code, reason = "resources are found by pointers")]

use std::ptr;
use std::sync::Mutex;

use super::resources::Resources;
use crate::platform::per_process::PerProcess;
use crate::recording::mark::Mark;

/// The most recorders that are kept.
const MAX_RECORDERS: usize = 16;

/// The resources of a recorder that is set up.
struct Kept(Box<Resources>);

// SAFETY: only the thread that takes it out of the pool uses it. `is_reusable` excluded counters, which belong to their
// thread.
unsafe impl Send for Kept {}

/// The recorders that are kept. A forked child starts with an empty pool.
static POOL: PerProcess<Mutex<Vec<Kept>>> = PerProcess::new();

/// Takes the recorder of an ended thread that called this mark. It is set up, except for what differs between threads,
/// and its cells still contain that thread's calls, which are in the registry already. Recorders with other marks are
/// not used, because additional events would make this thread's calls slower.
pub(crate) fn take(mark: &Mark) -> Option<Box<Resources>> {
    let mut pool = POOL.lock().ok()?;
    let has_mark = |Kept(resources): &Kept| resources.plans().any(|plan| ptr::eq(plan.cells.mark, mark));
    let index = pool.iter().rposition(has_mark)?;
    Some(pool.remove(index).0)
}

/// Keeps a thread's recorder with its resources for another thread, or drops the resources, which frees both. The
/// registry has merged the cells.
pub(crate) fn put(mut resources: Box<Resources>) {
    let recorder = resources.recorder;
    let has_open_calls = recorder.stack.innermost().is_some();
    // A recorder that tracks overhead would make calls slower.
    if !has_open_calls && !recorder.was_deep() && !recorder.tracks_overhead.get() && resources.is_reusable() {
        let Ok(mut pool) = POOL.lock() else { return };
        pool.push(Kept(resources));
        if pool.len() > MAX_RECORDERS {
            // Frees the recorder that was not used for the longest time.
            pool.remove(0);
        }
    }
}
