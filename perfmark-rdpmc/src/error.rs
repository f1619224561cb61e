//! Errors: the event, the system call and its errno, the likely cause, and the remedy.

use std::fmt;

/// Why an event could not be counted, or why its name is invalid.
///
/// Its `Display` form is one line: the event, the system call and its errno, the likely cause on this machine, and the
/// remedy. [`reason`](Error::reason) leaves out the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Repr>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Repr {
    kind: Kind,
    subject: String,
    reason: String,
    /// See [`Error::similar_names`].
    similar: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsupported,
    Invalid,
    Refused,
    Os(i32),
}

impl Error {
    pub(crate) fn unsupported(subject: impl Into<String>) -> Self {
        let reason = "perfmark-rdpmc reads counters on Linux, x86-64, arm64 and riscv64; this target is not supported";
        Self::new(Kind::Unsupported, subject, reason)
    }

    pub(crate) fn invalid(subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, subject, reason)
    }

    /// No event of this machine has the name.
    pub(crate) fn unknown(subject: impl Into<String>, reason: impl Into<String>, similar: Vec<String>) -> Self {
        let mut error = Self::invalid(subject, reason);
        error.0.similar = Some(similar);
        error
    }

    pub(crate) fn refused(subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(Kind::Refused, subject, reason)
    }

    pub(crate) fn os(errno: i32, call: &str, subject: impl Into<String>, why: &str) -> Self {
        Self::new(Kind::Os(errno), subject, format!("{call} failed with {}: {why}", errno_text(errno)))
    }

    fn new(kind: Kind, subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self(Box::new(Repr { kind, subject: subject.into(), reason: reason.into(), similar: None }))
    }

    /// The same error about something else.
    pub(crate) fn about(mut self, subject: String) -> Self {
        self.0.subject = subject;
        self
    }

    /// The errno, if a system call failed.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self.0.kind {
            Kind::Os(errno) => Some(errno),
            _ => None,
        }
    }

    /// The name of the errno, such as `ENOENT`.
    #[must_use]
    pub fn errno_name(&self) -> Option<&'static str> {
        self.errno().and_then(errno_name)
    }

    /// The system call and its errno, the likely cause on this machine, and the remedy, without the event.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Whether this build's target does not support counters.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.0.kind == Kind::Unsupported
    }

    /// Whether the text is not an event of this machine: its syntax is invalid, a name in it is unknown, or a value
    /// does not fit.
    #[must_use]
    pub fn is_invalid_event(&self) -> bool {
        self.0.kind == Kind::Invalid
    }

    /// Whether the text is a valid name, such as `cycels`, but no event of this machine has it. Not if the text has
    /// several parts, such as `cpu/cycels/` or `sched:swich`.
    #[must_use]
    pub fn is_unknown_name(&self) -> bool {
        self.0.similar.is_some()
    }

    /// The most similar names, the most similar first, if the [name is unknown](Self::is_unknown_name). `None` for all
    /// other errors.
    #[must_use]
    pub fn similar_names(&self) -> Option<&[String]> {
        self.0.similar.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.subject, self.0.reason)
    }
}

impl std::error::Error for Error {}

/// The resource that is exhausted, and the remedy, if `errno` means that.
pub(crate) fn exhausted(errno: i32) -> Option<&'static str> {
    match errno {
        libc::EMFILE => Some("this process has no file descriptor left; raise RLIMIT_NOFILE (`ulimit -n`)"),
        libc::ENFILE => Some("the system has no file descriptor left; raise fs.file-max"),
        libc::ENOMEM => Some("the kernel has no memory left"),
        _ => None,
    }
}

/// `ENOENT`, or `errno 12345` for one whose name is not known here.
pub(crate) fn errno_text(errno: i32) -> String {
    errno_name(errno).map_or_else(|| format!("errno {errno}"), str::to_owned)
}

/// The names of the errors that `perf_event_open(2)`, `mmap(2)`, `read(2)` and a seccomp filter return.
fn errno_name(errno: i32) -> Option<&'static str> {
    macro_rules! names {
        ($($name:ident)*) => {
            match errno {
                $(libc::$name => Some(stringify!($name)),)*
                _ => None,
            }
        };
    }
    names!(
        E2BIG EACCES EAGAIN EBADF EBUSY EEXIST EFAULT EFBIG EINTR EINVAL EIO EISDIR ELOOP EMFILE ENFILE ENODEV ENOENT
        ENOMEM ENOSPC ENOSYS ENOTDIR EPERM ESRCH EOPNOTSUPP EOVERFLOW
    )
}
