//! Running a program to its end.

use std::io::{self, ErrorKind, Read as _, Seek as _};
use std::process::{Command, ExitStatus, Stdio};

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
    let mut child = command.spawn()?;
    #[cfg(unix)]
    signals::attend(child.id());
    let status = child.wait()?;
    Ok((child.id(), status))
}

/// Runs the command to its end, and returns what it wrote to stdout. If it fails, the error is its status.
pub(crate) fn stdout_of(command: &mut Command) -> Result<String, String> {
    let run = |command: &mut Command| -> io::Result<(ExitStatus, String)> {
        // A pipe would have to be read while the command runs.
        let mut file = tempfile::tempfile()?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?);
        let (_, status) = run_to_end(command)?;
        let mut text = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut text)?;
        Ok((status, String::from_utf8_lossy(&text).into_owned()))
    };
    match run(command) {
        Ok((status, text)) if status.success() => Ok(text),
        Ok((status, _)) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status.code().map_or(OWN_TROUBLE, |code| u8::try_from(code & 0xff).unwrap_or(OWN_TROUBLE))
}
