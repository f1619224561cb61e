//! Whether the program calls perfmark itself.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

static IS_CALLED: AtomicBool = AtomicBool::new(false);

/// The program calls a function of the public interface. Those that work on data alone, such as
/// [`Snapshot::merge`](crate::Snapshot::merge), do not count.
pub(crate) fn note_call() {
    IS_CALLED.store(true, Relaxed);
}

pub(crate) fn is_called() -> bool {
    IS_CALLED.load(Relaxed)
}
