//! Programs that test themselves: each is started again with a scenario and an environment.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::ptr;
use std::thread;

use serde_json::Value;

pub(crate) mod machine;
pub(crate) mod threads;

/// The scenario of a program that has one.
pub(crate) const SCENARIO: &str = "PERFMARK_TEST_SCENARIO";

/// Runs a scenario with these variables and no other variables of perfmark's.
pub(crate) fn scenario(name: &str, variables: &[(&str, &str)]) -> Output {
    scenario_of(&env::current_exe().expect("known"), name, variables)
}

/// The same, for a copy of this program.
pub(crate) fn scenario_of(program: &Path, name: &str, variables: &[(&str, &str)]) -> Output {
    loop {
        match command(program, name, variables).output() {
            // A child that another test forked during the copying has the file open until it executes its own program.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => thread::yield_now(),
            done => return done.expect("started"),
        }
    }
}

/// Lets the command have no variable of perfmark's.
pub(crate) fn unset_variables(command: &mut Command) {
    for (variable, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PERFMARK")) {
        command.env_remove(variable);
    }
}

/// The command of a scenario, not started yet.
pub(crate) fn command(program: &Path, name: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    unset_variables(&mut command);
    command.env(SCENARIO, name).envs(variables.iter().copied()).stdin(Stdio::null());
    command.env("RUST_BACKTRACE", "0");
    command
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// How a child ended, for messages: its status or its signal by name, and what it printed.
pub(crate) fn ending(output: &Output) -> String {
    let printed = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{}\nstdout: {}\nstderr: {}", output.status, printed[0], printed[1])
}

/// Checks a child's exit status.
#[track_caller]
pub(crate) fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", ending(output));
}

/// Waits for a forked child, and checks its exit status.
#[track_caller]
pub(crate) fn wait_for(child: libc::pid_t, code: i32) {
    let mut status = -1;
    // SAFETY: the integer is live.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child, "{}", io::Error::last_os_error());
    let status = <ExitStatus as std::os::unix::process::ExitStatusExt>::from_raw(status);
    assert_eq!(status.code(), Some(code), "{status}");
}

/// The scenario's JSON report, which is at the end of stdout.
pub(crate) fn json(name: &str, variables: &[(&str, &str)], status: i32) -> Value {
    let mut all = vec![("PERFMARK_FORMAT", "json"), ("PERFMARK_OUTPUT", "-")];
    all.extend(variables);
    let output = scenario(name, &all);
    assert_code(&output, status);
    let stdout = text(&output.stdout);
    let start =
        stdout.find("{\"schema\"").or_else(|| stdout.find('{')).unwrap_or_else(|| panic!("no report: {stdout}"));
    serde_json::from_str(&stdout[start..]).expect("JSON")
}

pub(crate) fn mark<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut marks = report["marks"].as_array().expect("a list").iter();
    marks.find(|mark| mark["name"] == name).unwrap_or_else(|| panic!("no mark {name} in {report}"))
}

/// The two ends of a new pseudo-terminal with that many columns: this program's, and that of a command.
pub(crate) fn terminal(columns: u16) -> io::Result<(File, OwnedFd)> {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the memory is live, and the size is only read. Nothing else owns the two descriptors.
    unsafe {
        let (name, settings) = (ptr::null_mut(), ptr::null());
        if libc::openpty(&raw mut ours, &raw mut theirs, name, settings, &raw const size) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)))
    }
}

/// A file for this test, which does not exist yet.
pub(crate) fn file(name: &str) -> PathBuf {
    let path = env::temp_dir().join(format!("perfmark-{}-{name}", std::process::id()));
    _ = fs::remove_file(&path);
    path
}

/// A directory for one test, removed when it ends.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = file(name);
        _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("made");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}
