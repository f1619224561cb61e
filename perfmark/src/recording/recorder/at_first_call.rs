//! What begins with the process's first call of a mark: perfmark's own threads. A program that has called no mark yet
//! has no threads but its own, and may do what only a process with one thread may, such as `unshare(CLONE_NEWUSER)`
//! (`unshare(2)`).

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::state::own_work;
use crate::platform::per_process::PerProcess;
use crate::recording::cells::registry::Setup;
use crate::recording::mark;
use crate::recording::start;

/// Returns why something could not begin.
type Work = fn() -> Vec<String>;

static WORK: OnceLock<Work> = OnceLock::new();
static IS_DONE: AtomicBool = AtomicBool::new(false);
static NOT_BEGUN: PerProcess<Mutex<Vec<String>>> = PerProcess::new();

/// Does this work at the first call of a mark, with signals blocked. A forked child does not do it.
pub(crate) fn at_first_call(work: Work) {
    _ = WORK.set(work);
    // Another static initialiser may have called a mark already.
    if mark::called().next().is_some() {
        own_work(|| Setup::begin().map(|_setup| run()));
    }
}

/// Does the work, if this is the first call. Must be called during a setup, for which the end of recording waits.
pub(super) fn run() {
    let Some(work) = WORK.get() else { return };
    if IS_DONE.load(Relaxed) || start::is_forked_child() || IS_DONE.swap(true, Relaxed) {
        return;
    }
    let why = work();
    if let Ok(known) = NOT_BEGUN.get() {
        known.lock().unwrap_or_else(PoisonError::into_inner).extend(why);
    }
}

/// Why something could not begin, for the report. Must be called in perfmark's own work.
pub(crate) fn not_begun() -> Vec<String> {
    // Until then, nothing is mapped.
    let known = IS_DONE.load(Relaxed).then(|| NOT_BEGUN.get().ok()).flatten();
    known.map_or_else(Vec::new, |known| known.lock().unwrap_or_else(PoisonError::into_inner).clone())
}
