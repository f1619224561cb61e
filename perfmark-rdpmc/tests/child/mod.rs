//! Processes that tests start: new ones of the same program, and forked ones. Of one that fails, the exit status or the
//! signal is printed, and what it wrote.
//!
//! # Safety
//!
//! A forked child does what the test says, and exits. All pointers are to live integers.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, thread};

/// Set for a new process of this program, which runs that scenario.
pub(crate) const SCENARIO: &str = "PERFMARK_TEST_SCENARIO";

/// Runs the scenario of this list for which this process was started. Returns `false` if it was not started for one.
pub(crate) fn runs_scenario(scenarios: &[(&str, fn())]) -> bool {
    let Ok(wanted) = env::var(SCENARIO) else { return false };
    let scenario = scenarios.iter().find(|(name, _)| *name == wanted);
    scenario.unwrap_or_else(|| panic!("no scenario {wanted}")).1();
    true
}

/// Runs a scenario of this program in a new process, which panics if it fails.
pub(crate) fn passes(scenario: &str) {
    succeeds(Command::new(env::current_exe().expect("known")).env(SCENARIO, scenario));
}

/// Runs a program, which must succeed.
pub(crate) fn succeeds(command: &mut Command) {
    let output = run_to_end(command.stdout(Stdio::piped()).stderr(Stdio::piped()), Duration::from_secs(60));
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// Runs a program to its end. If it takes longer, it is killed with its children.
pub(crate) fn run_to_end(command: &mut Command, limit: Duration) -> Output {
    let process = command.process_group(0).spawn().expect("started");
    let group = libc::pid_t::try_from(process.id()).expect("small");
    let (ended, end) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        if end.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            // SAFETY: ends processes of this test. They may have blocked all other signals.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    });
    let output = process.wait_with_output().expect("started");
    drop(ended);
    watch.join().expect("does not panic");
    output
}

pub(crate) fn fork() -> libc::pid_t {
    // SAFETY: see above.
    unsafe { libc::fork() }
}

/// Whether the work of the child that `make` creates succeeded. The child ends without destructors.
pub(crate) fn in_child(make: impl FnOnce() -> libc::pid_t, work: impl FnOnce() -> bool) -> bool {
    match make() {
        0 => {
            // SAFETY: a child that hangs is ended by a signal.
            unsafe { libc::alarm(60) };
            let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!passed)) }
        }
        child => {
            let status = ended(child);
            if !status.success() {
                eprintln!("the forked child: {status}");
            }
            status.success()
        }
    }
}

/// Waits for a child.
pub(crate) fn ended(child: libc::pid_t) -> ExitStatus {
    let mut status = -1;
    // SAFETY: see above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child, "{}", std::io::Error::last_os_error());
    ExitStatus::from_raw(status)
}
