//! The process's own descriptors: what perfmark says and reports goes there.
//!
//! They are written past the locks of the standard library's handles, which a thread that still runs may hold while the process ends.
#![allow(unsafe_code, reason = "writing to descriptors that are not ours, and signal masks")]

use std::io;
#[cfg(not(unix))]
use std::io::Write as _;
use std::path::Path;

pub(crate) const STDOUT: i32 = 1;
pub(crate) const STDERR: i32 = 2;

/// One line on stderr.
pub(crate) fn say(what: &str) {
    write_all(STDERR, &format!("perfmark: {what}\n"));
}

/// Columns of a report that goes to no terminal.
pub(crate) const DEFAULT_WIDTH: usize = 100;

/// Writes to a descriptor. A closed or broken one is nothing that the program should hear of.
pub(crate) fn write_all(fd: i32, text: &str) {
    _ = write(fd, text.as_bytes());
}

/// Writes to what is there: a device, a pipe, a link to a descriptor. A pipe that nobody reads is refused, not waited for.
#[cfg(unix)]
pub(crate) fn write_in_place(path: &Path, is_link: bool, text: &str) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let follow = if is_link { 0 } else { libc::O_NOFOLLOW };
    let file = std::fs::OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK | follow).open(path)?;
    write(file.as_raw_fd(), text.as_bytes())
}

#[cfg(not(unix))]
pub(crate) fn write_in_place(path: &Path, _: bool, text: &str) -> io::Result<()> {
    std::fs::OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(unix)]
fn write(fd: i32, mut bytes: &[u8]) -> io::Result<()> {
    /// For a reader of a pipe that must not block us.
    const PATIENCE_MS: libc::c_int = 2_000;
    let _quiet = Quiet::new();
    while !bytes.is_empty() {
        // SAFETY: live bytes; a closed descriptor is an error.
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        if let Ok(written) = usize::try_from(written) {
            bytes = &bytes[written.min(bytes.len())..];
            continue;
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock => {
                let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
                // SAFETY: one live pollfd.
                if unsafe { libc::poll(&raw mut poll, 1, PATIENCE_MS) } <= 0 {
                    return Err(error);
                }
            }
            _ => return Err(error),
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn write(fd: i32, bytes: &[u8]) -> io::Result<()> {
    if fd == STDOUT { io::stdout().write_all(bytes) } else { io::stderr().write_all(bytes) }
}

/// Holds back on this thread what writing may raise, and takes off what it raised: a report without a reader, or one that is larger than files may be
/// (`setrlimit(2)`), is no reason to die.
pub(crate) struct Quiet {
    /// The thread's mask before.
    #[cfg(unix)]
    before: Option<libc::sigset_t>,
    /// Waiting already, and so not ours to take.
    #[cfg(unix)]
    pending: [bool; RAISED.len()],
}

#[cfg(unix)]
const RAISED: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

#[cfg(not(unix))]
impl Quiet {
    pub(crate) fn new() -> Self {
        Self {}
    }
}

#[cfg(unix)]
impl Quiet {
    pub(crate) fn new() -> Self {
        let pending = Self::pending();
        // SAFETY: live sets.
        let before = unsafe {
            let mut before: libc::sigset_t = std::mem::zeroed();
            let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, &Self::set(&RAISED), &raw mut before);
            (blocked == 0).then_some(before)
        };
        Self { before, pending }
    }

    fn set(signals: &[libc::c_int]) -> libc::sigset_t {
        // SAFETY: sigemptyset makes any memory a set; these are signals.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for &signal in signals {
                libc::sigaddset(&raw mut set, signal);
            }
            set
        }
    }

    fn pending() -> [bool; RAISED.len()] {
        // SAFETY: a live set.
        unsafe {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending);
            RAISED.map(|signal| libc::sigismember(&raw const pending, signal) == 1)
        }
    }
}

#[cfg(unix)]
impl Drop for Quiet {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        for ((signal, now), before) in RAISED.into_iter().zip(Self::pending()).zip(self.pending) {
            if now && !before {
                let mut taken = 0;
                // SAFETY: live memory. Waiting for a signal that is pending takes it off without a wait.
                unsafe { libc::sigwait(&Self::set(&[signal]), &raw mut taken) };
            }
        }
        // SAFETY: the set that was in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    }
}

/// The columns of the terminal, as far as a table can use them.
pub(crate) fn width_of(fd: i32) -> usize {
    terminal_columns(fd).map_or(DEFAULT_WIDTH, |columns| columns.clamp(80, 200))
}

/// Whether it is a terminal that takes colours, as far as the system can tell.
#[cfg(unix)]
pub(crate) fn is_terminal(fd: i32) -> bool {
    // SAFETY: a closed descriptor is none.
    unsafe { libc::isatty(fd) == 1 }
}

#[cfg(not(unix))]
pub(crate) fn is_terminal(_: i32) -> bool {
    false
}

#[cfg(unix)]
fn terminal_columns(fd: i32) -> Option<usize> {
    // SAFETY: a zeroed winsize is a valid one, and TIOCGWINSZ writes one.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) == 0).then_some(size)
    };
    size.map(|size| size.ws_col.into()).filter(|&columns| columns > 0)
}

#[cfg(not(unix))]
fn terminal_columns(_: i32) -> Option<usize> {
    None
}
