//! `perfmark events`
use std::process::ExitCode;
use clap::Args;
/// List events
#[derive(Args, Debug)]
pub(crate) struct Arguments {}
pub(crate) fn run(_: &Arguments) -> Result<ExitCode, String> { Ok(ExitCode::SUCCESS) }
