//! The failed checks of a run.

use std::sync::{Mutex, PoisonError};

/// Messages of failed checks, from any thread.
#[derive(Default)]
pub(crate) struct Failures(Mutex<Vec<String>>);

/// Later messages are dropped, because they add no information.
const LIMIT: usize = 20;

impl Failures {
    /// Records a failure unless the condition holds.
    pub(crate) fn unless(&self, condition: bool, message: impl FnOnce() -> String) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !condition && failures.len() < LIMIT {
            failures.push(message());
        }
    }

    /// Prints the failures. Returns whether there are any.
    pub(crate) fn print(&self) -> bool {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.iter().for_each(|message| println!("failed: {message}"));
        !failures.is_empty()
    }
}
