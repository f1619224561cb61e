//! Before `main`: asks to be called at exit. At exit: writes the report.
#![allow(unsafe_code, reason = "a static initialiser, and atexit")]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process;

use crate::collect;
use crate::config::{Output, config};
use crate::report::{self, Format};
use crate::start;
use crate::terminal::{DEFAULT_WIDTH, STDERR, STDOUT, say, width_of, write_all};

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
        start::start();
        if start::is_off() {
            return;
        }
        // SAFETY: the handler is a function without arguments, which catches its panics.
        let registered = unsafe { libc::atexit(at_exit) };
        if registered != 0 {
            say("atexit failed: there will be no report at exit; perfmark::snapshot() still has the figures");
        }
    }
    before_main
};

extern "C" fn at_exit() {
    // A panic here would abort a program that has done its work.
    if std::panic::catch_unwind(write_report).is_err() {
        say("the report panicked; please report this");
    }
}

fn write_report() {
    let snapshot = collect::snapshot();
    let is_child = start::is_forked_child();
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
