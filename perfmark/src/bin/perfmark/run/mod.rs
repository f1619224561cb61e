//! `perfmark run`: runs a program and merges the reports of all of its processes.
//!
//! Each process that contains perfmark writes its report into a directory that is created for this run. The file's name
//! has a unique token (`%u`), because the kernel reuses process numbers and each namespace has its own.

#[cfg(unix)]
mod signals;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::Duration;

use clap::Args;
use perfmark::{Filter, Snapshot};

use crate::output::{Destination, clean, counted, say};
use crate::report::{Form, Gathered};
use crate::reports;

/// Run a program, and show what its marks recorded in all of its processes
///
/// The program keeps stdin, stdout and stderr. The report goes to stderr after the program has ended, or to a file.
/// Ctrl-C is for the program: the report still follows. Other signals are passed on to it.
#[derive(Args, Debug)]
#[command(after_long_help = HOW)]
pub(crate) struct Arguments {
    /// Events of marks that name none: `time,instructions` (`PERFMARK_EVENTS`)
    #[arg(short, long, value_name = "EVENTS", value_parser = events)]
    events: Option<String>,
    /// Which marks record, which events, and one call in how many: `app::parser,app::io=off` (`PERFMARK_FILTER`)
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    filter: Option<String>,
    #[command(flatten)]
    form: Form,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

const HOW: &str = "\
Exit status: that of the program, or 128 plus the signal's number if a signal ended it. 127 if the
program does not exist, 126 if it cannot be executed, 2 if an argument of perfmark is wrong. 125 if
something else failed before the program ran, or if a report could not be read or written and the
program's status was 0. The reports are kept in that case, and perfmark prints where.

A process that is killed or aborts, or that calls _exit or exec, leaves no report: set
PERFMARK_DUMP_INTERVAL=1 for it. Processes that still run when the program has ended are not in the
report; perfmark lists them with the directory that their reports will be in.";
/// The exit statuses of timeout(1).
const OWN_TROUBLE: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

fn events(list: &str) -> Result<String, String> {
    perfmark::private::check_events(list)?;
    Ok(list.into())
}

fn filter(text: &str) -> Result<String, String> {
    text.parse::<Filter>().map_err(|error| error.to_string())?;
    Ok(text.into())
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    arguments.form.check()?;
    let destination = arguments.form.destination(Destination::Stderr);
    let directory = match destination.check().and_then(|()| Directory::make()) {
        Ok(directory) => directory,
        Err(why) => {
            say(&why);
            return Ok(OWN_TROUBLE.into());
        }
    };
    let (program, given) = arguments.command.split_first().ok_or("no program")?;
    let mut command = Command::new(program);
    command.args(given).env("PERFMARK_OUTPUT", directory.0.join("%p-%u.json")).env("PERFMARK_FORMAT", "json");
    for (variable, value) in [("PERFMARK_EVENTS", &arguments.events), ("PERFMARK_FILTER", &arguments.filter)] {
        if let Some(value) = value {
            command.env(variable, value);
        }
    }
    let (pid, status) = match run_to_end(&mut command) {
        Ok(ended) => ended,
        Err(error) => {
            say(&format!("{}: {error}", Path::new(program).display()));
            directory.end();
            let is_missing = error.kind() == ErrorKind::NotFound;
            return Ok(if is_missing { NOT_FOUND } else { NOT_EXECUTABLE }.into());
        }
    };
    // Checked before the reports are read, so that a process that ends meanwhile is in both, and not in neither.
    let running = running_with(&directory.0);
    report_running(&running, &directory);
    let shown = show(&directory, pid, &arguments.form, destination);
    let code = code(status);
    Ok(match shown {
        Err(why) => {
            say(&why);
            directory.keep();
            if code == 0 { OWN_TROUBLE.into() } else { code.into() }
        }
        Ok(count) => {
            if running.is_empty() {
                directory.end();
                if count == 0 {
                    say(&nothing_left(Path::new(program), status));
                }
            }
            code.into()
        }
    })
}

/// Runs the program to its end.
fn run_to_end(command: &mut Command) -> io::Result<(u32, ExitStatus)> {
    #[cfg(unix)]
    signals::pass_on();
    let mut child = command.spawn()?;
    #[cfg(unix)]
    signals::attend(child.id());
    let status = child.wait()?;
    Ok((child.id(), status))
}

fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status.code().map_or(OWN_TROUBLE, |code| u8::try_from(code & 0xff).unwrap_or(OWN_TROUBLE))
}

fn report_running(running: &[(u32, String)], directory: &Directory) {
    if running.is_empty() {
        return;
    }
    let names: Vec<_> = running.iter().take(10).map(|(pid, name)| format!("{pid} ({})", clean(name))).collect();
    let more = if running.len() > 10 { ", …" } else { "" };
    say(&format!(
        "{} still running and not in this report; reports at exit will be in {}: {}{more}",
        if running.len() == 1 { "1 process is".into() } else { format!("{} processes are", running.len()) },
        directory.0.display(),
        names.join(", "),
    ));
}

/// Shows the reports, and returns their number.
fn show(directory: &Directory, pid: u32, form: &Form, destination: Destination<'_>) -> Result<usize, String> {
    let (mut all, unreadable) = directory.reports()?;
    // The program's own first, because the merged report has its name and number.
    all.sort_by_key(|(_, snapshot)| (snapshot.pid != pid, snapshot.pid));
    let count = all.len();
    let mut gathered = Gathered::new(form);
    for (name, snapshot) in all {
        gathered.add(name, snapshot);
    }
    if count > 0 {
        gathered.show(destination)?;
    }
    match unreadable {
        0 => Ok(count),
        _ => Err(format!("{} could not be read", counted(unreadable as u64, "report"))),
    }
}

fn nothing_left(program: &Path, status: ExitStatus) -> String {
    let program = program.display();
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!(
            "{program} left no report: signal {signal} ended it; \
             set PERFMARK_DUMP_INTERVAL=1 to get one each second, if it contains perfmark"
        );
    }
    let _ = status;
    let why = match env::var("PERFMARK") {
        Ok(value) if value == "off" => "PERFMARK=off is set, so nothing is recorded",
        _ => {
            "no marked function is linked into it with the feature `record`; or it ended by exec, _exit or abort, \
             where PERFMARK_DUMP_INTERVAL=1 may help; or it cannot write to the directory for reports"
        }
    };
    format!("{program} left no report: {why}")
}

/// The directory for the reports of a run's processes; only this user can access it.
struct Directory(PathBuf);

impl Directory {
    fn make() -> Result<Self, String> {
        let parent = env::temp_dir();
        let parent = std::path::absolute(&parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        // A process replaces these in a file's name.
        if parent.to_str().is_none_or(|path| path.contains("%p") || path.contains("%u")) {
            return Err(format!(
                "TMPDIR={}: reports cannot be written there; set TMPDIR to a path in UTF-8 without %p and %u",
                parent.display()
            ));
        }
        #[cfg_attr(not(unix), expect(unused_mut, reason = "there are no modes"))]
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        for number in 0_u64.. {
            let path = parent.join(format!("perfmark-run-{}-{number}", process::id()));
            match builder.create(&path) {
                Ok(()) => return Ok(Self(path)),
                // Left by an earlier process with the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(format!(
                        "{}: {error}; set TMPDIR to a directory for reports that is writable",
                        path.display()
                    ));
                }
            }
        }
        Err("no free name is left for a directory of reports".into())
    }

    /// All reports that can be read, with their processes' names, and the number of those that cannot. Their errors are
    /// printed.
    fn reports(&self) -> Result<(Vec<(String, Snapshot)>, usize), String> {
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
        Ok((all, unreadable))
    }

    /// Removes the directory.
    fn end(&self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            say(&format!("{}: {error}", self.0.display()));
        }
    }

    /// Prints where the reports are kept.
    fn keep(&self) {
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
    // Kernel threads have no environment, and a process that is just being started has none yet.
    thread::sleep(A_MOMENT);
    let started = none.into_iter().filter_map(|(pid, _)| environment(pid));
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
