//! Runs of two programs in pairs, for a comparison.
//!
//! The order in each pair is drawn at random, which is what the test of `perfmark diff --paired` assumes.

use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::process::{Command, Stdio};

use super::once::{Ended, run_once};
use super::program::OWN_TROUBLE;
use crate::diff::Side;
use crate::output::TROUBLE;

/// Runs each of the programs, base and head, that many times, and checks the reports of the first pair. Their stdin is
/// empty, and their stdout is discarded.
pub(super) fn run_pairs(
    programs: [&Path; 2],
    arguments: &[OsString],
    settings: impl Fn(&mut Command),
    pairs: usize,
    check: impl Fn(&[Side; 2]) -> Result<(), String>,
) -> Result<[Side; 2], Ended> {
    let side = |name, program: &Path| Side { name, files: vec![program.display().to_string()], runs: Vec::new() };
    let mut sides = [side("base", programs[0]), side("head", programs[1])];
    // The keys of RandomState are random.
    let random = RandomState::new();
    for pair in 0..pairs {
        let first = usize::from(random.hash_one(pair) & 1 == 1);
        for side in [first, 1 - first] {
            let mut command = Command::new(programs[side]);
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
            settings(&mut command);
            let run = run_once(command).and_then(|report| {
                report.ok_or_else(|| ("left no report; `perfmark run -- PROGRAM` prints why".into(), OWN_TROUBLE))
            });
            let Side { name, files, runs } = &mut sides[side];
            let failed = |why| format!("{name} run {} of {pairs}: {}: {why}", pair + 1, files[0]);
            runs.push(run.map_err(|(why, status): Ended| (failed(why), status))?);
        }
        if pair == 0 {
            check(&sides).map_err(|why| (why, TROUBLE))?;
        }
    }
    Ok(sides)
}
