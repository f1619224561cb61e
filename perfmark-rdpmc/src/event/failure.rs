//! Why an event has no encoding on a machine.

use crate::error::Error;
use crate::machine::Unreadable;

#[derive(Debug)]
pub(super) enum Failure {
    /// A name or value that is invalid on this machine.
    Invalid(String),
    /// No event has the name. These are similar.
    Unknown(String, Vec<String>),
    /// A valid event that this machine does not count.
    Refused(String),
    /// A file that could not be read to find out.
    Unreadable(Unreadable),
    /// The same for a file of tracefs.
    InTracefs(Unreadable),
}

impl Failure {
    pub(super) fn explain(self, subject: String) -> Error {
        match self {
            Self::Invalid(why) => Error::invalid(subject, why),
            Self::Unknown(why, similar) => Error::unknown(subject, why, similar),
            Self::Refused(why) => Error::refused(subject, why),
            Self::InTracefs(file) if file.errno == libc::EACCES => {
                let why = format!(
                    "{file} contains the tracepoint's number, and only root can access tracefs; run as root \
                     (CAP_DAC_READ_SEARCH), or as root allow a group with `mount -o remount,gid=GROUP,mode=750`"
                );
                Error::os(file.errno, "open", subject, &why)
            }
            Self::Unreadable(file) | Self::InTracefs(file) => file.explain(subject),
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
