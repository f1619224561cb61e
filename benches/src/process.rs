//! The cost of a process: its private memory, its start and its end.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use crate::clocks::now;

/// The private memory of this process in KiB. `None` if the system does not report it.
///
/// This is `Anonymous` of all mappings together (proc(5)). `RssAnon` is less exact, because each processor may keep 32
/// pages or more of it in its own counter.
#[must_use]
pub fn private_memory() -> Option<u64> {
    of_all_mappings("Anonymous:")
}

/// A field of `/proc/self/smaps_rollup` for all mappings together, in KiB. `None` if the system does not report it.
#[must_use]
pub fn of_all_mappings(field: &str) -> Option<u64> {
    let all = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    all.lines().find_map(|line| line.strip_prefix(field))?.trim().strip_suffix(" kB")?.parse().ok()
}

/// The cost of a child process.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// From before its creation until `main`.
    pub start: Duration,
    /// Its private memory at the start of `main`, in KiB.
    pub memory: u64,
    /// The duration of a snapshot.
    pub snapshot: Duration,
    /// From the end of `main` until its end, including the report.
    pub end: Duration,
}

/// The argument that makes a program answer as a child.
const CHILD: &str = "--child";

impl Child {
    /// Runs a program that calls [`answer`], in an empty environment.
    ///
    /// # Errors
    ///
    /// If it does not run, or prints something else.
    pub fn run(program: impl AsRef<OsStr>) -> io::Result<Self> {
        Self::of(Command::new(program).env_clear())
    }

    /// Runs such a program with its own arguments or environment.
    ///
    /// # Errors
    ///
    /// If it does not run, or prints something else.
    pub fn of(command: &mut Command) -> io::Result<Self> {
        let before = now();
        let child = command.arg(CHILD).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let output = child.wait_with_output()?;
        let after = now();
        let answer = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<u64> = answer.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [start, memory, snapshot, end] if output.status.success() => {
                let [start, snapshot, end] = [start, snapshot, end].map(Duration::from_nanos);
                Ok(Self { start: start.saturating_sub(before), memory, snapshot, end: after.saturating_sub(end) })
            }
            _ => Err(io::Error::other(format!("the child ended with {} and printed {answer:?}", output.status))),
        }
    }
}

/// Answers the parent if this process is a child, and returns false otherwise. Call this first in `main`.
#[must_use]
pub fn answer() -> bool {
    let start = now();
    let memory = private_memory().unwrap_or(0);
    if env::args_os().nth(1).is_none_or(|argument| argument != CHILD) {
        return false;
    }
    let before = now();
    let marks = perfmark::snapshot().marks.len();
    let snapshot = now().saturating_sub(before);
    std::hint::black_box(marks);
    println!("{} {memory} {} {}", start.as_nanos(), snapshot.as_nanos(), now().as_nanos());
    true
}
