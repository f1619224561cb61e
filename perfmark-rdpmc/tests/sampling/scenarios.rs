//! Scenarios that change the entire process: each runs in a new process of this program.

use std::env;
use std::process::Command;

use perfmark_rdpmc::sample::Sampler;

use super::{clock, faults, forks, limits, process, signals};

const SCENARIO: &str = "PERFMARK_TEST_SCENARIO";
/// Users that no other program runs as. The second one is of one scenario, whose locked memory is its own.
const USERS: [libc::uid_t; 2] = [61_357, 61_358];

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
        "permissions" => unprivileged(limits::what_requires_permission_is_named),
        "without permissions" => unprivileged(limits::unprivileged_requests_are_allowed),
        "locked memory" => unprivileged_as(USERS[1], limits::locked_memory),
        "fork" => forks::a_child_has_no_ring(),
        "fork beside openings" => forks::rings_come_and_go_while_others_fork(),
        "signal" => signals::for_each_sample(),
        "sigtrap" => signals::before_the_next_instruction(),
        _ => panic!("no scenario {scenario}"),
    }
    true
}

/// Gives up root's permissions, if this is root, and runs the test where the kernel allows it to others.
fn unprivileged(test: fn()) {
    unprivileged_as(USERS[0], test);
}

fn unprivileged_as(user: libc::uid_t, test: fn()) {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        process::become_user(user);
    }
    match Sampler::dummy().open().map(drop) {
        Err(error) if error.errno_name() == Some("EACCES") => println!("skipped: {error}"),
        _ => test(),
    }
}
