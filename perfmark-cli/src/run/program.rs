//! Running a program to its end.

use std::io::{self, ErrorKind};
use std::process::{Command, ExitStatus};

#[cfg(unix)]
use super::signals;

/// The exit statuses of timeout(1).
pub(super) const OWN_TROUBLE: u8 = 125;
pub(super) const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The exit status for a program that cannot be started.
pub(super) fn not_started(error: &io::Error) -> u8 {
    if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}

/// Runs the program to its end.
pub(super) fn run_to_end(command: &mut Command) -> io::Result<(u32, ExitStatus)> {
    #[cfg(unix)]
    signals::pass_on();
    let mut child = command.spawn()?;
    #[cfg(unix)]
    signals::attend(child.id());
    let status = child.wait()?;
    Ok((child.id(), status))
}

pub(super) fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status.code().map_or(OWN_TROUBLE, |code| u8::try_from(code & 0xff).unwrap_or(OWN_TROUBLE))
}
