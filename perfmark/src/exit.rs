//! Before `main`: asks to be called at exit. At exit: writes the report.
#![allow(unsafe_code, reason = "a static initialiser, and atexit")]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process;

use crate::collect;
use crate::config::{Output, config};
use crate::report::{self, Format};
use crate::terminal::{self, DEFAULT_WIDTH, STDERR, STDOUT, say, width_of, write_all};
use crate::{recorder, start};

/// Run by the loader before `main`, so that a program whose marks are never called gives a report, too.
#[used]
#[cfg_attr(all(unix, not(target_vendor = "apple")), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        // A marked allocator is called by it: no call of the program's.
        recorder::own_work(start::start);
        if start::is_off() {
            return;
        }
        recorder::prepare_process();
        // A module in a browser never ends.
        #[cfg(all(target_family = "wasm", target_os = "unknown"))]
        let registered = 0;
        // SAFETY: the handler is a function without arguments, which catches its panics.
        #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
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

/// Replaces a file as a whole, so that nobody ever reads half a report. What cannot be replaced is written to.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let Some(path) = replaceable(path) else { return terminal::write_in_place(path, text) };
    let mut draft = with_pid(&path, process::id()).into_os_string();
    draft.push(".draft");
    let write = || -> io::Result<()> {
        File::options().write(true).create_new(true).open(&draft)?.write_all(text.as_bytes())?;
        fs::rename(&draft, &path)
    };
    write().inspect_err(|_| _ = fs::remove_file(&draft))
}

/// The file that `path` leads to, if it is a regular one or none yet; not what lies in /dev and /proc, whose links stand for descriptors.
fn replaceable(path: &Path) -> Option<PathBuf> {
    /// As many as the kernel follows (`path_resolution(7)`).
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if path.starts_with("/dev") || path.starts_with("/proc") {
            return None;
        }
        match fs::symlink_metadata(&path) {
            Ok(at) if at.is_symlink() => path = path.parent()?.join(fs::read_link(&path).ok()?),
            Ok(at) => return at.is_file().then_some(path),
            Err(_) => return Some(path),
        }
    }
    None
}
