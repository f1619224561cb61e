//! Whether counters may be opened. The environment or the program can forbid it, for sandboxes that kill a program.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use crate::config::config;

/// Set by the program; never reset.
static IS_FORBIDDEN: AtomicBool = AtomicBool::new(false);
/// Whether a counter was opened, or is being opened.
static HAS_OPENED: AtomicBool = AtomicBool::new(false);

/// Forbids it from now on. Returns whether no counter was opened before and none is being opened.
pub(crate) fn forbid() -> bool {
    IS_FORBIDDEN.store(true, SeqCst);
    !HAS_OPENED.load(SeqCst)
}

/// Every place that opens a counter asks this first.
///
/// # Errors
///
/// The reason, if none may be opened.
pub(crate) fn ask() -> Result<(), &'static str> {
    why_not().map_or(Ok(()), Err)?;
    // Sequentially consistent with `forbid`: either `forbid` sees the counter, or this sees that it is forbidden.
    HAS_OPENED.store(true, SeqCst);
    why_not().map_or(Ok(()), Err)
}

/// The reason why no counter may be opened, if there is one.
pub(crate) fn why_not() -> Option<&'static str> {
    if config().is_time_only() {
        Some("PERFMARK_EVENTS=time: no counter is opened")
    } else if IS_FORBIDDEN.load(SeqCst) {
        Some("perfmark::open_no_counters() was called: no counter is opened")
    } else {
        None
    }
}
