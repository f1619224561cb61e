//! `perfmark doctor`: what this machine can count, what prevents the rest, and what to do.

use std::process::ExitCode;

use clap::Args;
use perfmark_rdpmc::Support;

use crate::output;

/// Show what can be counted on this machine, what prevents the rest, and how to allow it
#[derive(Args, Debug)]
#[command(after_long_help = "Exit status: 0 if instructions can be counted here, 1 if not.")]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<ExitCode, String> {
    let support = perfmark_rdpmc::support();
    output::print(&support.to_string())?;
    Ok(if counts_instructions(support) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether this machine's PMU counts instructions, as a trial has shown.
pub(crate) fn counts_instructions(support: Support) -> bool {
    support.trial.is_some_and(|trial| trial.instructions.is_ok_and(|check| check.passes()))
}
