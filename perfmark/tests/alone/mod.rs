//! Marks, their values, the filter and samplings belong to the process. Tests that need them for themselves run one at
//! a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// While it is held, no other test that asks for it runs.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
