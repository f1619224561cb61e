//! Marks, their figures and the filter are the process's: tests that want them for themselves run one at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// As long as it is held, no other test that asks for it runs.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
