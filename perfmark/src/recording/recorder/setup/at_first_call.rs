//! What begins with the process's first call of a mark: the threads that settings in the environment require. Until
//! then, the program may do what only a process with one thread may, such as `unshare(CLONE_NEWUSER)` (`unshare(2)`).

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::recording::cells::registry::Setup;
use crate::recording::mark;
use crate::recording::recorder::thread::own_work;
use crate::recording::start;

/// Returns why something could not begin.
type Work = fn() -> Vec<String>;

static WORK: OnceLock<Work> = OnceLock::new();
static IS_DONE: AtomicBool = AtomicBool::new(false);
static NOT_BEGUN: OnceLock<Vec<String>> = OnceLock::new();

/// Does this work at the first call of a mark, with signals blocked. A forked child does not do it.
pub(crate) fn at_first_call(work: Work) {
    _ = WORK.set(work);
    // Another static initialiser may have called a mark already.
    if mark::called().next().is_some() {
        own_work(|| Setup::begin().map(|_setup| run()));
    }
}

/// Does the work, if this is the first call. Must be called during a setup, for which the end of recording waits.
pub(crate) fn run() {
    let Some(work) = WORK.get() else { return };
    if IS_DONE.load(Relaxed) || start::is_forked_child() || IS_DONE.swap(true, Relaxed) {
        return;
    }
    _ = NOT_BEGUN.set(work());
}

/// Why something could not begin, for the report.
pub(crate) fn not_begun() -> &'static [String] {
    NOT_BEGUN.get().filter(|_| !start::is_forked_child()).map_or(&[], Vec::as_slice)
}
