//! Whether counters may be opened. The environment or the program can forbid it, for sandboxes that kill a program.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use super::recording::settings;

/// Set by the program; never reset.
static ARE_DISABLED: AtomicBool = AtomicBool::new(false);
/// Whether perfmark has tried to open a counter, or is about to.
static HAS_TRIED: AtomicBool = AtomicBool::new(false);

/// No counter is opened from now on. Returns whether none was tried before.
pub(crate) fn disable_counters() -> bool {
    ARE_DISABLED.store(true, SeqCst);
    !HAS_TRIED.load(SeqCst)
}

/// All code that opens a counter calls this first.
///
/// # Errors
///
/// The reason, if none may be opened.
pub(crate) fn check() -> Result<(), &'static str> {
    refusal().map_or(Ok(()), Err)?;
    // Sequentially consistent with `disable_counters`: either that sees the attempt, or this sees that counters are
    // disabled.
    HAS_TRIED.store(true, SeqCst);
    refusal().map_or(Ok(()), Err)
}

/// The reason why no counter may be opened, if there is one.
pub(crate) fn refusal() -> Option<&'static str> {
    if settings().is_time_only() {
        Some("PERFMARK_EVENTS=time opens no counters")
    } else if ARE_DISABLED.load(SeqCst) {
        Some("perfmark::disable_counters() was called")
    } else {
        None
    }
}
