//! Marks, their values, the filter and samplings belong to the process. Tests that need them for themselves run in
//! processes of their own, beside other tests.

use std::process::Command;
use std::{env, thread};

/// Runs the calling test in a process of its own, and returns `true`. Panics if it does not pass there. Returns `false`
/// in that process, and in one in which tests run one after the other, as the variable says.
pub(crate) fn passed_in_own_process() -> bool {
    const HAS_OWN: &str = "PERFMARK_TEST_HAS_OWN_PROCESS";
    if env::var_os(HAS_OWN).is_some() {
        return false;
    }
    let thread = thread::current();
    let test = thread.name().filter(|name| *name != "main").expect("the thread is named after its test");
    let mut command = Command::new(env::current_exe().expect("known"));
    let output = command.args([test, "--exact", "--nocapture"]).env(HAS_OWN, "1").output().expect("started");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let has_passed = output.status.success() && stdout.contains("test result: ok. 1 passed");
    assert!(has_passed, "{}\nstdout: {stdout}\nstderr: {stderr}", output.status);
    for reason in stdout.lines().filter(|line| line.starts_with("skipped")) {
        println!("{reason}");
    }
    true
}
