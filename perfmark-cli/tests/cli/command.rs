//! Running the command line.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::program::{SCENARIO, ending, text, unset_variables};
use super::sample::Folder;

pub(super) fn perfmark(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perfmark"));
    unset_variables(&mut command);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The output. Checks the exit status.
#[track_caller]
pub(super) fn answer(arguments: &[&str], status: i32) -> Output {
    let output = perfmark(arguments).output().expect("started");
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", ending(&output));
    assert!(!text(&output.stderr).contains("panicked"), "{}", ending(&output));
    output
}

#[track_caller]
pub(super) fn stdout(arguments: &[&str], status: i32) -> String {
    text(&answer(arguments, status).stdout).into()
}

/// The JSON document on stdout.
#[track_caller]
pub(super) fn document(arguments: &[&str], status: i32) -> Value {
    serde_json::from_str(&stdout(arguments, status)).expect("JSON")
}

#[track_caller]
pub(super) fn stderr(arguments: &[&str], status: i32) -> String {
    text(&answer(arguments, status).stderr).into()
}

#[track_caller]
pub(super) fn assert_contains(text: &str, parts: &[&str]) {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(flat.contains(part), "no {part:?} in:\n{text}");
    }
}

pub(super) fn this_program() -> String {
    env::current_exe().expect("known").to_str().expect("UTF-8").into()
}

/// `perfmark run` of a scenario, with a temporary directory of its own.
pub(super) fn running(folder: &Folder, options: &[&str], scenario: &str) -> Command {
    let program = this_program();
    let mut arguments = vec!["run"];
    arguments.extend(options);
    arguments.extend(["--", &program]);
    let mut command = perfmark(&arguments);
    command.env(SCENARIO, scenario).env("TMPDIR", &folder.0).env("RUST_BACKTRACE", "0");
    command
}

/// Starts a command with pipes for its output, and waits until its program has printed `ready`.
#[track_caller]
pub(super) fn start_until_ready(command: &mut Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("read");
    assert_eq!(line, "ready\n");
    child
}

pub(super) fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("there").next().is_none()
}

/// Runs a program as process 1 of a new namespace.
pub(super) fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork"]);
    // SAFETY: it takes no arguments and always succeeds.
    if unsafe { libc::geteuid() } != 0 {
        command.args(["--user", "--map-root-user"]);
    }
    command
}
