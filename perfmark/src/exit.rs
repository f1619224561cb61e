//! Before `main`: reads the settings and asks to be called at exit. At exit: writes the report.
#![allow(unsafe_code, reason = "a static initialiser, atexit, and writing to descriptors that are not ours to close")]

use std::fs::{self, File};
use std::io::{self, Write as _};
#[cfg(unix)]
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Once, OnceLock};

use perfmark_rdpmc::clock::Clock;

use crate::collect;
use crate::config::{self, Output, config};
use crate::private;
use crate::report::{self, Format};

/// Run by the loader before `main`, so that a program whose marks are never called gives a report, too.
#[used]
#[cfg_attr(
    any(
        target_os = "linux",
        target_os = "android",
        target_os = "freebsd",
        target_os = "netbsd",
        target_os = "openbsd"
    ),
    unsafe(link_section = ".init_array")
)]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        start();
    }
    before_main
};

/// When the program started, and in which process.
static STARTED: OnceLock<(Clock, u32)> = OnceLock::new();

/// The clock that runs since the program's start.
pub(crate) fn clock() -> &'static Clock {
    &started().0
}

fn started() -> &'static (Clock, u32) {
    STARTED.get_or_init(|| (Clock::start(), process::id()))
}

/// Starts perfmark, once: called before `main`, or by the first mark where another static initialiser comes before ours.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        started();
        for wrong in config::read_environment() {
            say(&wrong);
        }
        if !config().on {
            private::switch_off();
            return;
        }
        // SAFETY: the handler is a function without arguments, which catches its panics.
        let registered = unsafe { libc::atexit(at_exit) };
        if registered != 0 {
            say("atexit failed: there will be no report at exit; perfmark::snapshot() still has the figures");
        }
    });
}

extern "C" fn at_exit() {
    // A panic here would abort a program that has done its work.
    if std::panic::catch_unwind(write_report).is_err() {
        say("the report panicked; please report this");
    }
}

fn write_report() {
    let snapshot = collect::snapshot();
    let is_child = snapshot.pid != started().1;
    let is_silent = match &config().output {
        // A child that called no mark has nothing to say, and a program without marks was not asked to.
        _ if is_child => !snapshot.marks.iter().any(|mark| mark.calls + mark.in_flight > 0),
        Output::Stderr | Output::Stdout => snapshot.marks.is_empty(),
        Output::File(_) => false,
    };
    if is_silent {
        return;
    }
    let text = |width| report::render(&snapshot, config().format, width);
    match &config().output {
        Output::Stderr => write_all(STDERR, &after_the_program(&text(width_of(STDERR)))),
        Output::Stdout => write_all(STDOUT, &after_the_program(&text(width_of(STDOUT)))),
        Output::File(path) => {
            // A forked child does not overwrite its parent's report.
            let path = if is_child { with_pid(path, snapshot.pid) } else { path.clone() };
            let text = text(DEFAULT_WIDTH);
            if let Err(error) = write_file(&path, &text) {
                say(&format!("PERFMARK_OUTPUT={}: {error}; the report follows", path.display()));
                write_all(STDERR, &text);
            }
        }
    }
}

/// A table is set off from what the program printed.
fn after_the_program(text: &str) -> String {
    if config().format == Format::Table { format!("\n{text}") } else { text.into() }
}

fn with_pid(path: &Path, pid: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{pid}"));
    name.into()
}

/// Replaces a file as a whole, so that nobody ever reads half a report. What is no regular file (a pipe, `/dev/null`) is written to.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|at| !at.is_file()) {
        return File::options().write(true).open(path)?.write_all(text.as_bytes());
    }
    let draft = with_pid(path, process::id()).with_extension("draft");
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, path)).inspect_err(|_| _ = fs::remove_file(&draft))
}

/// One line on stderr.
fn say(what: &str) {
    write_all(STDERR, &format!("perfmark: {what}\n"));
}

const STDOUT: i32 = 1;
const STDERR: i32 = 2;

/// Columns of a report that goes to no terminal.
const DEFAULT_WIDTH: usize = 100;

/// Writes to a descriptor, past the locks of the standard library's handles, which a thread that still runs may hold. A closed or
/// broken one is nothing that the program should hear of.
#[cfg(unix)]
fn write_all(fd: i32, text: &str) {
    use std::os::fd::FromRawFd as _;
    // SAFETY: it may be closed, which the write then says; ManuallyDrop leaves it open.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    _ = file.write_all(text.as_bytes());
}

#[cfg(not(unix))]
fn write_all(fd: i32, text: &str) {
    _ = if fd == STDOUT { io::stdout().write_all(text.as_bytes()) } else { io::stderr().write_all(text.as_bytes()) };
}

/// The columns of the terminal, as far as a table can use them.
fn width_of(fd: i32) -> usize {
    terminal_columns(fd).map_or(DEFAULT_WIDTH, |columns| columns.clamp(80, 140))
}

#[cfg(unix)]
fn terminal_columns(fd: i32) -> Option<usize> {
    // SAFETY: a zeroed winsize is a valid one, and TIOCGWINSZ writes one.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) == 0).then_some(size)
    };
    size.map(|size| size.ws_col.into()).filter(|&columns| columns > 0)
}

#[cfg(not(unix))]
fn terminal_columns(_: i32) -> Option<usize> {
    None
}
