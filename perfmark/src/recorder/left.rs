//! What a thread that ends leaves to the next one.
//!
//! A program may start a thread for each request. So a recorder with the plans of its marks is kept as it is, without
//! the calls, and the first calls of the next thread of the same marks find all that they need. Only a few are kept,
//! and none that is large. None that has counters, either: those belong to their thread.
#![allow(unsafe_code, reason = "recorders are found by pointers")]

use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::home;
use super::made::Made;
use super::state::Recorder;
use crate::mark::Mark;
use crate::per_process::PerProcess;

/// Recorders that are kept, at most.
const RECORDERS: usize = 16;

/// A forked child begins without.
#[derive(Default)]
struct Left(Mutex<Vec<Unused>>);

/// A recorder that is set up, and what belongs to it.
struct Unused {
    home: NonNull<Recorder>,
    made: Box<Made>,
}

// SAFETY: nobody uses them but who takes them out of the list, and there is no counter, which would be its thread's.
unsafe impl Send for Unused {}

static LEFT: PerProcess<Left> = PerProcess::new();

impl Left {
    fn lock(&self) -> MutexGuard<'_, Vec<Unused>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the recorder of an ended thread that called this mark: set up, but for what differs between threads. Its cells
/// still hold that thread's calls, which are retired. Those of threads with other marks stay: with events of these,
/// this thread's calls would take longer.
pub(super) fn take(mark: &Mark) -> Option<(NonNull<Recorder>, Box<Made>)> {
    let mut left = LEFT.get().ok()?.lock();
    let has_mark = |unused: &Unused| unused.made.plans().any(|plan| ptr::eq(plan.cells.mark, mark));
    let at = left.iter().rposition(has_mark)?;
    let Unused { home, made } = left.remove(at);
    Some((home, made))
}

/// Leaves a thread's recorder, and what belongs to it, to another thread; or gives their memory back. The cells are
/// retired.
///
/// # Safety
///
/// Nobody uses them any more. [`home::map`] gave the recorder.
pub(super) unsafe fn leave(mut home: NonNull<Recorder>, made: Option<Box<Made>>) {
    if let (Some(mut made), Ok(left)) = (made, LEFT.get()) {
        // SAFETY: a recorder as `map` gave it, or as it was set up.
        let (recorder, was_deep) = unsafe { (home.as_ref(), home::was_deep(home)) };
        let has_open_calls = recorder.stack.innermost().is_some();
        // Where costs are kept, calls take longer.
        if !has_open_calls && !was_deep && !recorder.keeps_costs.get() && made.is_for_any_thread() {
            let mut left = left.lock();
            left.push(Unused { home, made });
            if left.len() <= RECORDERS {
                return;
            }
            // The one that was not wanted longest.
            home = left.remove(0).home;
        }
    }
    // SAFETY: this function's contract.
    unsafe { home::give_back(home) };
}
