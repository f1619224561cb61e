//! The command line: what it prints, and its exit status.
//!
//! The programs that it runs are this program, started again with `PERFMARK_TEST_SCENARIO`.

#[path = "../../../perfmark/tests/executor/mod.rs"]
mod executor;
#[path = "../../../perfmark/tests/program/mod.rs"]
mod program;
#[path = "../../../perfmark-rdpmc/tests/seccomp/mod.rs"]
mod seccomp;
#[path = "../../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

mod sample;
mod command;
mod scenarios;

mod reports;
mod samples;
mod hostile;
mod comparisons;
mod hot_lines;
mod gates;
mod several_runs;
mod programs;
mod emulated;
mod gate;
mod machine;
mod marks;

use std::env;
use std::process::ExitCode;

use program::SCENARIO;

fn main() -> ExitCode {
    if let Ok(scenario) = env::var(SCENARIO) {
        return match scenario.strip_prefix("emulated: ") {
            Some(scenario) => emulated::run(scenario),
            None => scenarios::run(&scenario),
        };
    }
    // A shell that starts this program in the background lets it ignore SIGINT, and the programs that it starts inherit
    // that.
    // SAFETY: no thread runs yet, and no handler is installed.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    let tests = [
        reports::TESTS,
        samples::TESTS,
        hostile::TESTS,
        comparisons::TESTS,
        hot_lines::TESTS,
        gates::TESTS,
        several_runs::TESTS,
        programs::TESTS,
        emulated::TESTS,
        gate::TESTS,
        machine::TESTS,
        marks::TESTS,
    ];
    let in_emulator = [emulated::IN_EMULATOR, gate::IN_EMULATOR].concat();
    let missing = emulated::missing();
    if let Some(why) = &missing {
        eprintln!("tests in an emulator are ignored ({}): {why}", in_emulator.len());
    }
    let anywhere = tests.concat().into_iter().map(|(name, test)| support::trial(name, test));
    let in_emulator = in_emulator.into_iter();
    let in_emulator = in_emulator.map(|(name, test)| support::trial(name, test).with_ignored_flag(missing.is_some()));
    support::run(anywhere.chain(in_emulator).collect(), &[])
}
