//! The process's end. Before `main` it registers a handler for exit. At exit, or earlier on the program's request, it
//! writes the report.
#![allow(unsafe_code, reason = "a static initialiser, and atexit")]

use std::cell::Cell;
use std::io;
use std::panic::UnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::naming::Names;
use super::output_settings::{self, Output, after_the_program, output_settings};
use super::{copies, dumps, test_program};
use crate::platform::files::{in_this_process, of_copy, write_file};
use crate::platform::per_process::PerProcess;
use crate::platform::signals::{before_end, prepare_before_end};
use crate::platform::terminal::{STDERR, STDOUT, print_report, say};
use crate::recording::cells::registry;
use crate::recording::collect;
use crate::recording::mark::{self, Mark, defaults, linked};
#[cfg(feature = "sampling")]
use crate::recording::sample;
use crate::recording::{recorder, start};
use crate::report::Report;
use crate::settings::recording;
use crate::snapshot::origin::is_downloaded;

/// The loader runs this before `main`, so that a program whose marks are never called writes a report, too.
#[used]
#[cfg_attr(all(unix, not(target_vendor = "apple")), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        // It may call a marked allocator; that is not a call of the program.
        recorder::own_work(|| {
            start::start();
            output_settings::read_environment();
        });
        // Loom's locks do not work outside of its models.
        if cfg!(all(test, perfmark_loom)) {
            return;
        }
        if recording::is_off() {
            dumps::outlive_signal();
            return;
        }
        copies::begin();
        recorder::prepare_process();
        // A module in a browser has no exit.
        #[cfg(all(target_family = "wasm", target_os = "unknown"))]
        let registered = 0;
        // SAFETY: the handler is a function without arguments, which catches its panics. Miri does not support atexit.
        #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
        let registered = if cfg!(miri) { 0 } else { unsafe { libc::atexit(at_exit) } };
        if registered != 0 {
            say("atexit failed; no report is written at exit; call perfmark::snapshot() for the values");
        }
        // Not as perfmark's own work, which restores the signal mask: this blocks the signal for dumps.
        dumps::prepare_from_environment();
        if output_settings().reports_on_sigint
            && let Err(why) = prepare_before_end()
        {
            say(&no_report_on_sigint(&why));
        }
        recorder::at_first_call(start_threads);
    }
    before_main
};

/// Starts the threads that the environment's settings require, and reports wrong settings.
fn start_threads() -> Vec<String> {
    output_settings::say_wrong();
    let started = [
        dumps::start_from_environment(),
        #[cfg(feature = "sampling")]
        sample::start_from_environment(),
        #[cfg(not(feature = "sampling"))]
        without_sampling(),
        before_end(|| end(write_report)).map_err(|why| no_report_on_sigint(&why)),
    ];
    started.into_iter().filter_map(Result::err).collect()
}

#[cfg(not(feature = "sampling"))]
fn without_sampling() -> Result<(), String> {
    recording::settings().cannot_sample.clone().map_or(Ok(()), Err)
}

fn no_report_on_sigint(why: &io::Error) -> String {
    format!("PERFMARK_ON_SIGINT: {why}; SIGINT ends the program without a report")
}

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
extern "C" fn at_exit() {
    end(write_report);
}

/// Ends recording before the program does, and writes the report now.
pub(crate) fn finish() {
    // Not in a signal handler that interrupted perfmark's own work, whose locks may be taken.
    if IS_OVER.load(SeqCst) || recorder::own_work(start::start).is_none() || recording::is_off() {
        return;
    }
    end(|| {
        recorder::own_work(turn_off);
        write_report();
        #[cfg(feature = "sampling")]
        sample::stop();
        recorder::close_thread();
    });
}

/// From now on no call is recorded, and no thread is set up or taken down with system calls.
fn turn_off() {
    // Afterwards, nothing can be noted.
    recorder::note_samples();
    recording::turn_off();
    linked::collected().chain(mark::called()).for_each(Mark::switch_off);
    registry::wait_for_setups();
}

/// Whether recording has ended: the report was written, or none is to be written.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// Held while the report is written. Another caller, such as the end of the process, waits for it.
static ENDING: PerProcess<Mutex<()>> = PerProcess::new();

/// Ends the process's recording with `how`, if it has not ended.
fn end(how: impl FnOnce() + UnwindSafe) {
    thread_local!(static IS_ENDING: Cell<bool> = const { Cell::new(false) });
    // A signal handler that ends the process while this thread writes must not wait for itself.
    if IS_OVER.load(SeqCst) || IS_ENDING.replace(true) {
        return;
    }
    let _locked = ENDING.lock();
    if !IS_OVER.load(SeqCst) {
        // A panic here would abort a program that has finished its work.
        if std::panic::catch_unwind(how).is_err() {
            say("writing the report panicked; please report this bug");
        }
        IS_OVER.store(true, SeqCst);
    }
    IS_ENDING.set(false);
}

/// Set if the program disabled the report.
static IS_REPORT_DISABLED: AtomicBool = AtomicBool::new(false);

/// Ends the dumps that the environment sets. No report is written at exit.
pub(crate) fn disable_report() {
    IS_REPORT_DISABLED.store(true, Relaxed);
    dumps::end_from_environment();
}

/// Whether the environment or the program uses perfmark beyond its marks.
fn is_requested() -> bool {
    output_settings().is_in_environment || start::is_api_used()
}

/// Whether only downloaded crates have marks. Their authors may have forgotten `default-features = false`.
fn only_dependencies_have_marks() -> bool {
    let mut files = linked::all().into_iter().map(|mark| mark.file).chain(defaults::files());
    files.all(is_downloaded)
}

/// Whether this is a program of `cargo test`, and the environment does not ask for a report.
fn is_silent_test() -> bool {
    !output_settings().is_in_environment && test_program::is_test(std::env::args_os())
}

fn write_report() {
    let is_requested = is_requested();
    if IS_REPORT_DISABLED.load(Relaxed) || !is_requested && only_dependencies_have_marks() || is_silent_test() {
        return;
    }
    dumps::end_from_environment();
    let mut snapshot = collect::snapshot();
    Names::default().add_to(&mut snapshot);
    let is_child = start::is_forked_child();
    let is_silent = match &output_settings().output {
        // A child that called no mark has nothing to report, and neither has a program without marks.
        _ if is_child || !is_requested => !snapshot.marks.iter().any(|mark| mark.calls + mark.in_flight > 0),
        Output::Stderr | Output::Stdout => snapshot.marks.is_empty(),
        Output::File(_) => false,
    };
    if is_silent {
        return;
    }
    output_settings::say_wrong();
    let format = output_settings().format;
    let report = output_settings().report(&snapshot, format);
    let print = |report: Report<'_>, fd| {
        print_report(fd, &after_the_program(&report.on(fd, output_settings().may_color), format));
    };
    match &output_settings().output {
        Output::Stderr => print(report, STDERR),
        Output::Stdout => print(report, STDOUT),
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
