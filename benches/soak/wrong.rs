//! What went wrong.

use std::sync::{Mutex, PoisonError};

/// What whoever found something wrong says of it.
#[derive(Default)]
pub(crate) struct Wrong(Mutex<Vec<String>>);

/// More of it tells nothing new.
const ENOUGH: usize = 20;

impl Wrong {
    /// Takes note, unless it is as it must be.
    pub(crate) fn unless(&self, is_right: bool, what: impl FnOnce() -> String) {
        let mut wrong = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_right && wrong.len() < ENOUGH {
            wrong.push(what());
        }
    }

    /// Tells it. False where there is nothing to be told.
    pub(crate) fn tell(&self) -> bool {
        let wrong = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.iter().for_each(|what| println!("wrong: {what}"));
        !wrong.is_empty()
    }
}
