//! Marks, their values, the filter and samplings belong to the process. Tests that need them for themselves run in
//! processes of their own.

use std::process::Command;
use std::{env, thread};

/// Whether the calling test has this process for itself. If not, it has passed in a process of its own meanwhile, beside
/// other tests.
pub(crate) fn has_own_process() -> bool {
    const HAS_OWN: &str = "PERFMARK_TEST_HAS_OWN_PROCESS";
    let thread = thread::current();
    // Tests that run one after the other run on the main thread.
    let Some(test) = thread.name().filter(|name| *name != "main" && env::var_os(HAS_OWN).is_none()) else {
        return true;
    };
    let mut command = Command::new(env::current_exe().expect("known"));
    let output = command.args([test, "--exact", "--nocapture"]).env(HAS_OWN, "1").output().expect("started");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    print!("{stdout}");
    assert!(output.status.success(), "{}: {stderr}", output.status);
    false
}
