//! The command line: shows and compares reports, runs programs, and checks what a machine can count.
//!
//! It uses the library's public interface only, like any program. The programs `perfmark` and `cargo-perfmark` are its
//! only users.

#![deny(unsafe_code)]

mod reports;
mod file;
mod output;
mod samples;
mod bencher;
mod mark;
mod report;
mod events;
mod diff;
mod run;
mod doctor;
mod gate;
mod generate;

use std::ffi::OsString;
use std::iter;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "perfmark", version, max_term_width = 100)]
/// Shows, merges and compares reports of functions measured by #[perfmark], and lists what this machine can count.
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Report(report::Arguments),
    Diff(diff::Arguments),
    Mark(mark::Arguments),
    Unmark(mark::Unmark),
    Run(run::Arguments),
    Gate(gate::Arguments),
    Doctor(doctor::Arguments),
    Events(events::Arguments),
    Completions(generate::Completions),
    Man(generate::Man),
}

/// Executes a command line. `program` is what users type before a command: `perfmark`, or `cargo perfmark`.
#[doc(hidden)]
pub fn main(program: &str, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    // PERFMARK_OUTPUT may name the file that this command reads.
    perfmark::disable_report();
    let done = match CommandLine::parse_from(iter::once(program.into()).chain(arguments)).command {
        Command::Report(mut arguments) => report::run(&mut arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Mark(arguments) => mark::run(&arguments),
        Command::Unmark(arguments) => mark::unmark(&arguments),
        Command::Run(mut arguments) => run::run(&mut arguments),
        Command::Gate(arguments) => gate::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Events(arguments) => events::run(&arguments),
        Command::Completions(arguments) => generate::completions(&arguments, CommandLine::command()),
        Command::Man(arguments) => generate::man(&arguments, CommandLine::command()),
    };
    done.unwrap_or_else(|why| {
        output::say(&why);
        output::TROUBLE.into()
    })
}
