//! Scenarios that change the entire process: each runs in a new process of this program.

use std::env;
use std::process::Command;

use super::{clock, faults, process};

const SCENARIO: &str = "PERFMARK_TEST_SCENARIO";
/// Users that no other program runs as, so that their locked memory is this test's alone.
const USER: libc::uid_t = 61_357;

/// Runs a scenario in a new process, which panics if it fails.
pub(super) fn passes(scenario: &str) {
    let output = Command::new(env::current_exe().expect("known")).env(SCENARIO, scenario).output().expect("started");
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

/// Runs the scenario that this process was started for, if any.
pub(super) fn run() -> bool {
    let Ok(scenario) = env::var(SCENARIO) else { return false };
    match scenario.as_str() {
        "a millisecond" => unprivileged(clock::a_millisecond),
        "a stalled reader" => unprivileged(clock::a_stalled_reader),
        "contents" => unprivileged(faults::samples_contain_what_was_requested),
        _ => panic!("no scenario {scenario}"),
    }
    true
}

/// Gives up root's permissions, if this is root, and runs the test where the kernel allows it to others.
fn unprivileged(test: fn()) {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        process::become_user(USER);
    }
    match perfmark_rdpmc::sample::Sampler::dummy().open() {
        Err(error) if error.errno_name() == Some("EACCES") => println!("skipped: {error}"),
        _ => test(),
    }
}
