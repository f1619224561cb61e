//! One run of a program, for a comparison.

use std::process::Command;

use perfmark::Snapshot;

use crate::reports::Merged;

use super::directory::Directory;
use super::program::{OWN_TROUBLE, code, not_started, run_to_end};
#[cfg(unix)]
use super::signals;

/// Why there is nothing to show or to compare: an error to be printed, and the exit status.
pub(super) type Ended = (String, u8);

/// Runs a program to its end, which must be a success, and returns the merged report of its processes, if there is one.
pub(super) fn run_once(mut command: Command) -> Result<Option<Snapshot>, Ended> {
    let directory = Directory::make().map_err(|why| (why, OWN_TROUBLE))?;
    directory.set_on(&mut command);
    let ended = run_to_end(&mut command).map_err(|error| (error.to_string(), not_started(&error)));
    #[cfg(unix)]
    let ended = match (ended, signals::ending()) {
        // The program handled it, and may have left out a part of its work.
        (Ok((_, status)), Some(signal)) if status.code().is_some() => {
            Err((format!("signal {signal} came; nothing was compared"), u8::try_from(128 + signal).unwrap_or(u8::MAX)))
        }
        (ended, _) => ended,
    };
    // Checked before the reports are read, so that a process that ends meanwhile is in both, and not in neither. If
    // nothing is compared, no report is missed.
    let is_in_use = matches!(ended, Ok((_, status)) if status.success()) && directory.is_in_use();
    let reports = ended.and_then(|(pid, status)| match status.success() {
        true => directory.reports(pid).map_err(|why| (why, OWN_TROUBLE)),
        // A signal, such as that of Ctrl-C or of an abort, ends the comparison with its own status.
        false if status.code().is_none() => Err((format!("{status}; nothing was compared"), code(status))),
        false => Err((format!("{status}: the program failed; perfmark compares nothing"), OWN_TROUBLE)),
    });
    if !is_in_use {
        directory.end();
    }
    match reports? {
        (_, unreadable) if unreadable > 0 => Err(("a report could not be read".into(), OWN_TROUBLE)),
        (all, _) if all.is_empty() => Ok(None),
        (all, _) => Ok(Some(Merged::of(all.into_iter().map(|(_, one)| one)))),
    }
}
