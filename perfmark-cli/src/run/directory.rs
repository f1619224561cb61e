//! The directory for the reports of a run's processes.
//!
//! Each process that contains perfmark writes its report into a directory that is created for this run. The file's name
//! has a unique token (`%u`), because the kernel reuses process numbers and each namespace has its own.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use perfmark::Snapshot;
use tempfile::TempDir;

use crate::output::say;
use crate::reports;

/// A temporary directory that only this user can access.
pub(crate) fn private(prefix: &str) -> Result<TempDir, String> {
    let parent = env::temp_dir();
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder
        .tempdir_in(&parent)
        .map_err(|error| format!("{}: {error}; set TMPDIR to a directory that is writable", parent.display()))
}

/// The directory for the reports of a run's processes; only this user can access it.
pub(super) struct Directory(pub(super) PathBuf);

impl Directory {
    pub(super) fn make() -> Result<Self, String> {
        let directory = private("perfmark-run-")?;
        // A process replaces these in a file's name.
        if directory.path().to_str().is_none_or(|path| path.contains("%p") || path.contains("%u")) {
            return Err(format!(
                "TMPDIR={}: reports cannot be written there; set TMPDIR to a path in UTF-8 without %p and %u",
                env::temp_dir().display()
            ));
        }
        // A process that outlives this one still writes its report there.
        Ok(Self(directory.keep()))
    }

    /// Lets the program write its reports there.
    pub(super) fn set_on(&self, command: &mut Command) {
        command.env("PERFMARK_OUTPUT", self.0.join("%p-%u.json")).env("PERFMARK_FORMAT", "json");
    }

    /// Whether processes still run that will write a report there. They are printed.
    pub(super) fn is_in_use(&self) -> bool {
        let running = running_with(&self.0);
        if running.is_empty() {
            return false;
        }
        let names: Vec<_> = running.iter().take(10).map(|(pid, name)| format!("{pid} ({name})")).collect();
        let more = if running.len() > 10 { ", …" } else { "" };
        let (count, dumps, reports) = match running.len() {
            1 => ("1 process is".into(), "its last dump, if there was one", "its report"),
            count => (format!("{count} processes are"), "their last dumps, if there were any", "their reports"),
        };
        say(&format!(
            "{count} still running: {}{more}; this report has {dumps}; {reports} at exit will be in {}, together with \
             the reports merged into this one",
            names.join(", "),
            self.0.display(),
        ));
        true
    }

    /// All reports that can be read, with their processes' names, and the number of those that cannot. Their errors are
    /// printed. The report of the process `pid` is the first, because a merged report has its name and number.
    pub(super) fn reports(&self, pid: u32) -> Result<(Vec<(String, Snapshot)>, usize), String> {
        let entries = fs::read_dir(&self.0).map_err(|error| format!("{}: {error}", self.0.display()))?;
        let files = entries.flatten().map(|entry| entry.path());
        // A draft belongs to a process that is still writing it, or was killed meanwhile.
        let complete = files.filter(|file| file.extension().is_none_or(|extension| extension != "draft"));
        let (mut all, mut unreadable) = (Vec::new(), 0);
        for file in complete {
            match reports::read(&file) {
                Ok(snapshot) => {
                    let pid = if snapshot.pid == 0 { "unknown".into() } else { snapshot.pid.to_string() };
                    all.push((format!("{} · pid {pid}", snapshot.program), snapshot));
                }
                Err(why) => {
                    say(&why);
                    unreadable += 1;
                }
            }
        }
        all.sort_by_key(|(_, snapshot)| (snapshot.pid != pid, snapshot.pid));
        Ok((all, unreadable))
    }

    /// Removes the directory.
    pub(super) fn end(&self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            say(&format!("{}: {error}", self.0.display()));
        }
    }

    /// Prints where the reports are kept.
    pub(super) fn keep(&self) {
        if self.0.exists() {
            say(&format!("the reports are kept as JSON in {}", self.0.display()));
        }
    }
}

/// The number and name of each process that will write a report into that directory, because its environment names it.
/// This works on Linux only.
fn running_with(directory: &Path) -> Vec<(u32, String)> {
    let path = directory.as_os_str().as_encoded_bytes();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let environment = |pid: u32| fs::read(format!("/proc/{pid}/environ")).ok().map(|environment| (pid, environment));
    let (none, some): (Vec<_>, Vec<_>) =
        pids.filter_map(environment).partition(|(_, environment)| environment.is_empty());
    // A process that is just being started has no environment yet. It already has a program, because the kernel sets it
    // before others see the new memory (`begin_new_exec` in fs/exec.c). Kernel threads and ended processes have none.
    // No event can be waited for.
    let has_program = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok();
    let starting: Vec<u32> = none.into_iter().map(|(pid, _)| pid).filter(|&pid| has_program(pid)).collect();
    if !starting.is_empty() {
        thread::sleep(A_MOMENT);
    }
    let started = starting.into_iter().filter_map(environment);
    let has_it = |(_, environment): &(u32, Vec<u8>)| environment.windows(path.len()).any(|part| part == path);
    let mut running: Vec<_> = some.into_iter().chain(started).filter(has_it).map(|(pid, _)| (pid, name(pid))).collect();
    running.sort_unstable();
    running
}

/// The time in which a process that is being started gets its environment.
const A_MOMENT: Duration = Duration::from_millis(10);

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| "?".into(), |name| name.trim().into())
}
