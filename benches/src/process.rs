//! What a process takes: its private memory, its start and its end.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use crate::clocks::now;

/// Private memory of this process in KiB; None where the system does not tell it.
///
/// It is `Anonymous` of all mappings together (proc(5)): `RssAnon` is the same, but each processor keeps up to 32 pages or more of it to itself.
#[must_use]
pub fn private_memory() -> Option<u64> {
    of_all_mappings("Anonymous:")
}

/// A figure of all mappings together, in KiB; None where the system does not tell it.
#[must_use]
pub fn of_all_mappings(figure: &str) -> Option<u64> {
    let all = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    all.lines().find_map(|line| line.strip_prefix(figure))?.trim().strip_suffix(" kB")?.parse().ok()
}

/// What a child process took.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// From before it was made until it was in `main`.
    pub start: Duration,
    /// Its private memory then, in KiB.
    pub memory: u64,
    /// What a snapshot took.
    pub snapshot: Duration,
    /// From the end of `main`, with the report, until it was gone.
    pub end: Duration,
}

/// The argument that makes a program such a child.
const CHILD: &str = "--child";

impl Child {
    /// Runs a program that [answers](answer), in an empty environment.
    ///
    /// # Errors
    ///
    /// Where it does not run, or says something else.
    pub fn run(program: impl AsRef<OsStr>) -> io::Result<Self> {
        Self::of(Command::new(program).env_clear())
    }

    /// The same of a program with arguments or an environment of its own.
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
        let figures: Vec<u64> = answer.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
        match figures[..] {
            [start, memory, snapshot, end] if output.status.success() => {
                let [start, snapshot, end] = [start, snapshot, end].map(Duration::from_nanos);
                Ok(Self { start: start.saturating_sub(before), memory, snapshot, end: after.saturating_sub(end) })
            }
            _ => Err(io::Error::other(format!("the child: {}, said {answer:?}", output.status))),
        }
    }
}

/// Answers the parent where this process is a child; to be called first in `main`. False where it is none.
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
