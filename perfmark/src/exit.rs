//! Before `main`: asks to be called at exit. At exit: writes the report.
#![allow(unsafe_code, reason = "a static initialiser, and atexit")]

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::collect;
use crate::config::{Output, config};
use crate::output::{in_this_process, of_copy, write_file};
use crate::report::{Format, Report};
use crate::terminal::{STDERR, STDOUT, print_report, say};
use crate::{copies, dumps, recorder, start};

/// Run by the loader before `main`, so that a program whose marks are never called gives a report, too.
#[used]
#[cfg_attr(all(unix, not(target_vendor = "apple")), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        // A marked allocator is called by it: no call of the program's.
        recorder::own_work(start::start);
        // Loom's locks are nothing outside of its models.
        if start::is_off() || cfg!(all(test, perfmark_loom)) {
            return;
        }
        copies::begin();
        recorder::prepare_process();
        // A module in a browser never ends.
        #[cfg(all(target_family = "wasm", target_os = "unknown"))]
        let registered = 0;
        // SAFETY: the handler is a function without arguments, which catches its panics. Miri has no such list of handlers.
        #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
        let registered = if cfg!(miri) { 0 } else { unsafe { libc::atexit(at_exit) } };
        if registered != 0 {
            say("atexit failed: there will be no report at exit; perfmark::snapshot() still has the figures");
        }
        dumps::start_asked();
    }
    before_main
};

extern "C" fn at_exit() {
    // A panic here would abort a program that has done its work.
    if std::panic::catch_unwind(write_report).is_err() {
        say("the report panicked; please report this");
    }
}

/// Set where the program is perfmark's own.
static LEAVES_NONE: AtomicBool = AtomicBool::new(false);

/// Ends the dumps that the environment asks for, and leaves no report at exit: these settings are meant for the programs that this one is about.
pub(crate) fn leave_none() {
    LEAVES_NONE.store(true, Relaxed);
    dumps::end_asked();
}

fn write_report() {
    if LEAVES_NONE.load(Relaxed) {
        return;
    }
    dumps::end_asked();
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
    let report = Report::new(&snapshot).format(config().format);
    match &config().output {
        Output::Stderr => print_report(STDERR, &after_the_program(&report.on(STDERR, config().may_color))),
        Output::Stdout => print_report(STDOUT, &after_the_program(&report.on(STDOUT, config().may_color))),
        Output::File(path) => {
            let path = of_copy(in_this_process(path, is_child), copies::before());
            let text = report.to_string();
            if let Err(error) = write_file(&path, &text) {
                say(&format!("PERFMARK_OUTPUT={}: {error}; the report follows", path.display()));
                print_report(STDERR, &text);
            }
        }
    }
}

/// A table is set off from what the program printed.
fn after_the_program(report: &Report<'_>) -> String {
    if config().format == Format::Table { format!("\n{report}") } else { report.to_string() }
}
