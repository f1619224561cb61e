//! Why an event has no encoding on a machine.

use crate::error::Error;
use crate::machine::Unreadable;

/// A name or value that is invalid on this machine, or files that could not be read to find out.
#[derive(Debug)]
pub(super) enum Failure {
    Invalid(String),
    /// No event has the name. These are similar.
    Unknown(String, Vec<String>),
    Unreadable(Unreadable),
}

impl Failure {
    pub(super) fn explain(self, subject: String) -> Error {
        match self {
            Self::Invalid(why) => Error::invalid(subject, why),
            Self::Unknown(why, similar) => Error::unknown(subject, why, similar),
            Self::Unreadable(file) => file.explain(subject),
        }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Invalid(why)
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Self {
        Self::Invalid(why.into())
    }
}

impl From<Unreadable> for Failure {
    fn from(file: Unreadable) -> Self {
        Self::Unreadable(file)
    }
}
