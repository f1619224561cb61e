//! Scenarios that change the entire process: each runs in a new process of this program.

use std::env;

use perfmark_rdpmc::sample::Sampler;

use super::child::SCENARIO;
use super::{clock, faults, forks, limits, process, signals};

/// Runs the scenario that this process was started for, if any.
pub(super) fn run() -> bool {
    let Ok(scenario) = env::var(SCENARIO) else { return false };
    match scenario.as_str() {
        "a millisecond" => unprivileged(clock::a_millisecond),
        "lost records" => unprivileged(faults::lost_records_are_counted_exactly),
        "contents" => unprivileged(faults::samples_contain_what_was_requested),
        "permissions" => unprivileged(limits::what_requires_permission_is_named),
        "without permissions" => unprivileged(limits::unprivileged_requests_are_allowed),
        "locked memory" => unprivileged(limits::locked_memory),
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
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        // A user for each process: all processes of a user share its locked memory, also those of another run. User
        // namespaces often have users below 65,536 only.
        process::become_user(40_000 + std::process::id() % 20_000);
    }
    match Sampler::dummy().open().map(drop) {
        Err(error) if error.errno_name() == Some("EACCES") => println!("skipped: {error}"),
        _ => test(),
    }
}
