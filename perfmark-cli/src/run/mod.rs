//! `perfmark run`: runs a program and merges the reports of all of its processes, or compares the runs of two programs.

#[cfg(unix)]
mod signals;
mod program;
mod directory;
mod once;
mod emulator;
mod against;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use perfmark::text::counted;
use perfmark::{Filter, Format, Snapshot};

use self::directory::Directory;
pub(crate) use self::directory::private;
use self::emulator::{Emulator, LACKS_INSTRUCTION, SIGILL_CODE, SIGSEGV_CODE, UNALIGNED_HANDLER};
use self::once::{Ended, run_once};
pub(crate) use self::program::stdout_of;
use self::program::{OWN_TROUBLE, code, not_started, run_to_end};
#[cfg(unix)]
pub(crate) use self::signals::pass_on;
use crate::diff::{self, Design, Gate, Side};
use crate::output::{Destination, TROUBLE, say, variable};
use crate::report::{Form, Gathered, Options};

/// Run a program, and show what its marks recorded in all of its processes
///
/// The program keeps stdin, stdout and stderr. The report goes to stderr after the program has ended, or to a file.
/// Ctrl-C is for the program, and the report still follows. If the program does not handle Ctrl-C, on Linux, its
/// processes that called a mark write their reports before it ends them (`PERFMARK_ON_SIGINT=report`), except children
/// that it forks without `exec`. Signals from other processes are passed on to it.
#[derive(Args, Debug)]
#[command(after_long_help = HOW)]
pub(crate) struct Arguments {
    /// Events of marks that name none: `time,instructions` (`PERFMARK_EVENTS`)
    #[arg(short, long, value_name = "EVENTS", value_parser = events)]
    events: Option<String>,
    /// Which marks record, which events, and one call in how many: `app::parser,app::io=off` (`PERFMARK_FILTER`)
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    filter: Option<String>,
    /// Run it in QEMU's user-mode emulator, which counts `instructions` exactly on any machine
    #[arg(long, conflicts_with = "against")]
    emulate: bool,
    #[command(flatten)]
    options: Options,
    /// Compare with this program: run it and PROGRAM in turn, with the same arguments; formats table, markdown and json
    #[arg(long, value_name = "BASE", conflicts_with_all = [
        "each", "width", "lines", "sort", "details", "symbols", "event", "embed_sources"
    ])]
    against: Option<PathBuf>,
    /// Runs of each program in a comparison; at least 8 to judge times, cycles and software events
    #[arg(long, value_name = "N", default_value_t = 10, requires = "against", value_parser = number_of_runs())]
    times: usize,
    /// Fail with status 1 if a mark's cost in the event rose by more than this, as `time:2%`; may be repeated
    #[arg(long, value_name = "EVENT:PERCENT%", requires = "against")]
    fail_on: Vec<Gate>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

const HOW: &str = "\
Exit status: that of the program, or 128 plus the signal's number if a signal ended it. 127 if the program does not \
exist, 126 if it cannot be executed, 2 if an argument of perfmark is wrong. 125 if something else failed before the \
program ran, or if a report could not be read or written and the program's status was 0. The reports are kept in \
that case, and perfmark prints where. If the program leaves no report, perfmark removes an older file of --output.

PERFMARK_OUTPUT and PERFMARK_FORMAT have no effect on the program: perfmark replaces them, to read its reports. To \
choose the file and the format, use --output and --format.

With --emulate, the program runs in QEMU's user-mode emulator (7.2 or later with plugins, such as Debian 12's package \
qemu-user), which counts the instructions of each call exactly. Times are not recorded, because those of an emulator \
say nothing about the processor. It requires no PMU and no permission, but `cc`, which compiles QEMU's plugin. Chapter \
`gate` of the guide says what it counts, and how much longer the program takes. Ctrl-C ends the program without a \
report, unless the program handles it: set PERFMARK_DUMP_INTERVAL=1. 125 if the emulator is missing or does not load \
the plugin; 126 if the program is not an ELF program for x86-64, arm64 or riscv64.

With --against, the two programs run in pairs, the order in each pair drawn at random. Their stdin is empty, and \
their stdout is discarded. The comparison is that of `perfmark diff`, but time and cycles are judged by a \
randomization test of the pairs, over all marks at once (chapter `gate` of the guide has the source): the \
probability that any mark of an unchanged program fails a gate is below 1 %. A mark fails if the test finds a rise, \
and the rise exceeds the limit. The column `finds` has the smallest rise of each mark that most such comparisons \
find. Marks in which that is more than the limit are listed and pass. In 10 pairs, the test finds 5 % in marks whose \
runs vary by 1 %. For half as much, make four times as many runs. Code that nobody changed may become slower by some \
percent because the linker moved it: its `instructions` are then the same.

Exit status of a comparison: 0 no gate failed; 1 a gate failed; 2 an argument is wrong, such as an event or a mark \
that no report of the first pair has; 3 a gate cannot be judged, because all marks vary too much; 125 if a program \
exits with another status than 0 or the comparison cannot be written; 128 plus the signal's number if a signal ended a \
program; 126 and 127 as above.

A process that is killed or aborts, or that calls _exit or exec, leaves no report: set PERFMARK_DUMP_INTERVAL=1 for \
it. Processes that still run when the program has ended are in the report only as of their last dump, if there was \
one. perfmark lists them with the directory of the reports, and keeps it: it has the reports that were merged, too. \
When all processes have ended, merge that directory's reports by `perfmark report`, without the report of the run.";

/// Parses `--times`.
pub(crate) fn number_of_runs() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=10_000)
}

fn events(list: &str) -> Result<String, String> {
    perfmark::check_events(list).map(|_| list.into()).map_err(|error| error.to_string())
}

fn filter(text: &str) -> Result<String, String> {
    text.parse::<Filter>().map_err(|error| error.to_string())?;
    Ok(text.into())
}

pub(crate) fn run(arguments: &mut Arguments) -> Result<ExitCode, String> {
    arguments.options.check()?;
    let arguments = &*arguments;
    // Before there is anything to remove.
    #[cfg(unix)]
    pass_on();
    let ended = match &arguments.against {
        Some(base) => run_against(arguments, base),
        None => run_alone(arguments),
    };
    Ok(ended.unwrap_or_else(|(why, status)| {
        say(&why);
        status.into()
    }))
}

/// An argument is wrong.
fn wrong(why: String) -> Ended {
    (why, TROUBLE)
}

fn failed(why: String) -> Ended {
    (why, OWN_TROUBLE)
}

fn run_alone(arguments: &Arguments) -> Result<ExitCode, Ended> {
    let destination = arguments.options.destination(Destination::Stderr).map_err(wrong)?;
    destination.check().map_err(failed)?;
    let (program, given) = arguments.command.split_first().ok_or_else(|| wrong("no program".into()))?;
    let emulator = arguments.emulate.then(|| Emulator::of(program)).transpose().map_err(|(why, status)| {
        // Other statuses are about the program.
        (if status == OWN_TROUBLE { format!("--emulate: {why}") } else { why }, status)
    })?;
    let directory = Directory::make().map_err(failed)?;
    let mut command = emulator.as_ref().map_or_else(|| Command::new(program), |emulator| emulator.command(program));
    command.args(given);
    directory.set_on(&mut command);
    arguments.set_on(&mut command);
    // Other systems refuse it. QEMU 7.2 calls handlers with a stack that is not aligned, and ends a forked process that
    // starts a thread if several threads ran at the fork, such as the one that the setting starts.
    let is_supported = cfg!(any(target_os = "linux", target_os = "android")) && emulator.is_none();
    if is_supported && variable("PERFMARK_ON_SIGINT").is_none() {
        command.env("PERFMARK_ON_SIGINT", "report");
    }
    let (pid, status) = match run_to_end(&mut command) {
        Ok(ended) => ended,
        Err(error) => {
            directory.end();
            return Err((format!("{}: {error}", Path::new(program).display()), not_started(&error)));
        }
    };
    // Checked before the reports are read, so that a process that ends meanwhile is in both, and not in neither.
    let is_in_use = directory.is_in_use();
    let shown = show(&directory, pid, &arguments.options, &destination);
    let code = code(status);
    Ok(match shown {
        Err(why) => {
            say(&why);
            directory.keep();
            if code == 0 { OWN_TROUBLE.into() } else { code.into() }
        }
        Ok(count) => {
            if !is_in_use {
                directory.end();
                if count == 0 {
                    say(&nothing_left(Path::new(program), status, emulator.is_some()));
                }
            }
            if count == 0 {
                destination.give_nothing();
            }
            code.into()
        }
    })
}

/// Checks that there is an emulator, and that it loads the plugin.
pub(crate) fn check_emulator() -> Result<(), String> {
    let this = env::current_exe().map_err(|error| format!("this program's file: {error}"))?;
    Emulator::of(this.as_os_str()).map(drop).map_err(|(why, _)| why)
}

/// Runs a program that must succeed, in the emulator if `emulates`, and returns the merged report of its processes, if
/// there is one. Its stdin is empty, and its stdout is discarded.
pub(crate) fn report_of(
    program: &Path,
    emulates: bool,
    settings: impl FnOnce(&mut Command),
) -> Result<Option<Snapshot>, String> {
    let emulator = emulates.then(|| Emulator::of(program.as_os_str())).transpose().map_err(|(why, _)| why)?;
    // The emulated program's name is the same in each comparison, because its length is in the program's memory.
    let command = emulator.as_ref().map(|emulator| emulator.command("program".as_ref()));
    let mut command = command.unwrap_or_else(|| Command::new(program));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    settings(&mut command);
    run_once(command).map_err(|(why, code)| {
        let hint = if emulates && code == SIGILL_CODE { format!("; {LACKS_INSTRUCTION}") } else { String::new() };
        format!("{}: {why}{hint}", program.display())
    })
}

/// Compares the program with another one.
fn run_against(arguments: &Arguments, base: &Path) -> Result<ExitCode, Ended> {
    let format = match arguments.options.format {
        Form::Report(Format::Table) => diff::Format::Table,
        Form::Report(Format::Markdown) => diff::Format::Markdown,
        Form::Report(Format::Json) => diff::Format::Json,
        _ => return Err(wrong("--against supports the formats table, markdown and json".into())),
    };
    let destination = arguments.options.destination(Destination::Stdout).map_err(wrong)?;
    let top = format.top(arguments.options.top).map_err(wrong)?;
    arguments.fail_on.iter().try_for_each(|gate| gate.check_pairs(arguments.times)).map_err(wrong)?;
    destination.check().map_err(failed)?;
    let (head, given) = arguments.command.split_first().ok_or_else(|| wrong("no program".into()))?;
    let settings = |command: &mut Command| arguments.set_on(command);
    let (marks, gates) = (arguments.options.marks.as_ref(), &arguments.fail_on);
    let check = |sides: &[Side; 2]| diff::check(sides, marks, gates);
    let sides = against::run_pairs([base, Path::new(head)], given, settings, arguments.times, check)?;
    // After the check, only writing can fail.
    diff::compare(&sides, marks, Design::Paired, gates, format, top, &destination).map_err(failed)
}

impl Arguments {
    fn set_on(&self, command: &mut Command) {
        for (variable, value) in [("PERFMARK_EVENTS", &self.events), ("PERFMARK_FILTER", &self.filter)] {
            if let Some(value) = value {
                command.env(variable, value);
            }
        }
    }
}

/// Shows the reports, and returns their number.
fn show(directory: &Directory, pid: u32, options: &Options, destination: &Destination) -> Result<usize, String> {
    let (all, unreadable) = directory.reports(pid)?;
    let count = all.len();
    let mut gathered = Gathered::new(options);
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

fn nothing_left(program: &Path, status: ExitStatus, emulates: bool) -> String {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let why = match (signal, code(status)) {
        (Some(_), SIGILL_CODE) if emulates => format!("signal 4 (SIGILL) ended it; {LACKS_INSTRUCTION}"),
        (Some(_), SIGSEGV_CODE) if emulates => format!("signal 11 (SIGSEGV) ended it; {UNALIGNED_HANDLER}"),
        (Some(signal), _) => format!(
            "signal {signal} ended it; set PERFMARK_DUMP_INTERVAL=1 to get one each second after its first call of a \
             mark"
        ),
        (None, _) if env::var("PERFMARK").is_ok_and(|value| value.trim() == "off") => {
            "PERFMARK=off is set, so nothing is recorded".into()
        }
        (None, _) => {
            "no marked function is linked into it with the feature `record`; or it is setuid or has capabilities from \
             its file, and ignores perfmark's variables; or it ended by exec, _exit or abort, where \
             PERFMARK_DUMP_INTERVAL=1 may help; or it cannot write to the directory for reports"
                .into()
        }
    };
    format!("{} left no report: {why}", program.display())
}
