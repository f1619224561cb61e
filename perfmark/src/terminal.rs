//! The process's own descriptors: what perfmark says and reports goes there.
//!
//! They are written past the locks of the standard library's handles, which a thread that still runs may hold while the process ends.
#![allow(unsafe_code, reason = "descriptors that are not ours to close")]

#[cfg(not(unix))]
use std::io;
use std::io::Write as _;

pub(crate) const STDOUT: i32 = 1;
pub(crate) const STDERR: i32 = 2;

/// One line on stderr.
pub(crate) fn say(what: &str) {
    write_all(STDERR, &format!("perfmark: {what}\n"));
}

/// Columns of a report that goes to no terminal.
pub(crate) const DEFAULT_WIDTH: usize = 100;

/// Writes to a descriptor. A closed or broken one is nothing that the program should hear of.
#[cfg(unix)]
pub(crate) fn write_all(fd: i32, text: &str) {
    use std::fs::File;
    use std::mem::ManuallyDrop;
    use std::os::fd::FromRawFd as _;
    // SAFETY: it may be closed, which the write then says; ManuallyDrop leaves it open.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    _ = file.write_all(text.as_bytes());
}

#[cfg(not(unix))]
pub(crate) fn write_all(fd: i32, text: &str) {
    _ = if fd == STDOUT { io::stdout().write_all(text.as_bytes()) } else { io::stderr().write_all(text.as_bytes()) };
}

/// The columns of the terminal, as far as a table can use them.
pub(crate) fn width_of(fd: i32) -> usize {
    terminal_columns(fd).map_or(DEFAULT_WIDTH, |columns| columns.clamp(80, 140))
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
