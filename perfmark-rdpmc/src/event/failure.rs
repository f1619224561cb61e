//! Why an event has no numbers on a machine.

use crate::error::Error;
use crate::machine::Unreadable;

/// A name or value that is wrong there, or files that could not be read, so that nobody knows.
#[derive(Debug)]
pub(super) enum Failure {
    Wrong(String),
    Unreadable(Unreadable),
}

impl Failure {
    pub(super) fn explain(self, tried: String) -> Error {
        match self {
            Self::Wrong(why) => Error::name(tried, why),
            Self::Unreadable(file) => file.explain(tried),
        }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Self {
        Self::Wrong(why.into())
    }
}

impl From<Unreadable> for Failure {
    fn from(file: Unreadable) -> Self {
        Self::Unreadable(file)
    }
}
