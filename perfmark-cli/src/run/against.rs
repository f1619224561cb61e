//! Runs of two programs in pairs, for a comparison.
//!
//! The order in each pair is drawn at random, which is what the test of `perfmark diff --paired` assumes.

use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use perfmark::Snapshot;

use super::directory::Directory;
use super::program::{OWN_TROUBLE, code, not_started, run_to_end};
use crate::diff::Side;
use crate::output::say;

/// Why there is nothing to compare: an error to be printed, and the exit status.
pub(super) type Ended = (String, u8);

const NAMES: [&str; 2] = ["base", "head"];

/// Runs each of the programs, base and head, that many times. Their stdin is empty, and their stdout is discarded.
pub(super) fn run_pairs(
    programs: [&Path; 2],
    arguments: &[OsString],
    settings: impl Fn(&mut Command),
    pairs: usize,
) -> Result<[Side; 2], Ended> {
    let mut sides =
        [0, 1].map(|side: usize| Side { name: NAMES[side], files: Vec::new(), runs: Vec::with_capacity(pairs) });
    // The keys of RandomState are random.
    let random = RandomState::new();
    for pair in 0..pairs {
        let first = usize::from(random.hash_one(pair) & 1 == 1);
        for side in [first, 1 - first] {
            let mut command = Command::new(programs[side]);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
            settings(&mut command);
            let run = run_once(command).map_err(|(why, status)| {
                let program = programs[side].display();
                (format!("{} run {} of {pairs}: {program}: {why}", NAMES[side], pair + 1), status)
            })?;
            sides[side].runs.push(run);
        }
    }
    for (side, program) in sides.iter_mut().zip(programs) {
        side.files.push(program.display().to_string());
    }
    Ok(sides)
}

/// The merged report of the program's processes.
fn run_once(mut command: Command) -> Result<Snapshot, Ended> {
    let directory = Directory::make().map_err(|why| (why, OWN_TROUBLE))?;
    directory.set_on(&mut command);
    let ended = run_to_end(&mut command).map_err(|error| (error.to_string(), not_started(&error)));
    let reports = ended.and_then(|(_, status)| match status.success() {
        true => directory.reports().map_err(|why| (why, OWN_TROUBLE)),
        // A signal, such as of Ctrl-C, ends the comparison with its own status.
        false if status.code().is_none() => Err((format!("{status}; nothing was compared"), code(status))),
        false => Err((format!("{status}; nothing was compared, because both programs must succeed"), OWN_TROUBLE)),
    });
    directory.end();
    match reports? {
        (_, unreadable) if unreadable > 0 => Err(("a report could not be read".into(), OWN_TROUBLE)),
        (all, _) if all.is_empty() => Err(("left no report; `perfmark run -- PROGRAM` prints why".into(), OWN_TROUBLE)),
        (all, _) => {
            let mut merged = Snapshot::default();
            for (_, one) in &all {
                merged.merge(one);
            }
            Ok(merged)
        }
    }
}

/// Prints why nothing was compared.
pub(super) fn fail((why, status): Ended) -> ExitCode {
    say(&why);
    status.into()
}
