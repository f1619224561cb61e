//! The ways in which a program can end.

use std::env;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, exit};
use std::thread;

use crate::ledger::{FOLDER, Leaves, folder, ledger, read};
use crate::program::SCENARIO;
use crate::{busy, leaves};

pub(crate) struct Ending {
    pub(crate) name: &'static str,
    /// Ends the program, or returns what main returns.
    pub(crate) end: fn() -> ExitCode,
    pub(crate) status: Status,
    /// Whether destructors and exit handlers run.
    pub(crate) is_orderly: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Status {
    Code(i32),
    Signal(i32),
}

impl Status {
    pub(crate) fn is(self, status: ExitStatus) -> bool {
        match self {
            Self::Code(code) => status.code() == Some(code),
            Self::Signal(signal) => status.signal() == Some(signal),
        }
    }
}

use Status::{Code, Signal};

pub(crate) const ENDINGS: &[Ending] = &[
    orderly("main_returns", || ExitCode::SUCCESS, 0),
    orderly("main_exits", || exit(3), 3),
    orderly("another_thread_exits", another_thread_exits, 4),
    orderly("main_panics", || panic!("at the end of main"), 101),
    // SAFETY: it ends the process at once, and so do those below.
    fatal("it_ends_at_once", || unsafe { libc::_exit(5) }, Code(5)),
    fatal("it_becomes_another_program", becomes_another_program, Code(0)),
    fatal("it_aborts", || std::process::abort(), Signal(libc::SIGABRT)),
    fatal("it_is_killed", || raise(libc::SIGKILL), Signal(libc::SIGKILL)),
    fatal("it_is_terminated", || raise(libc::SIGTERM), Signal(libc::SIGTERM)),
    fatal("a_threads_stack_overflows", stack_overflows, Signal(libc::SIGABRT)),
];

const fn orderly(name: &'static str, end: fn() -> ExitCode, code: i32) -> Ending {
    Ending { name, end, status: Code(code), is_orderly: true }
}

const fn fatal(name: &'static str, end: fn() -> ExitCode, status: Status) -> Ending {
    Ending { name, end, status, is_orderly: false }
}

/// Ends the program in this way. If that leaves no report, waits until the last dump has everything.
pub(crate) fn end(ending: &Ending, dump: &Path) -> ExitCode {
    if ending.is_orderly {
        ledger().will_leave(Leaves::Report);
    } else {
        ledger().will_leave(Leaves::Dump);
        while read(dump).and_then(|report| ledger().compare(&report)).is_err() {
            thread::yield_now();
        }
        // The core file is not needed.
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limit is live.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) };
    }
    (ending.end)()
}

/// From inside a marked call, while the main thread is in another one.
fn another_thread_exits() -> ExitCode {
    let thread = thread::spawn(|| leaves(|| exit(4)));
    leaves(|| {
        _ = thread.join();
        ExitCode::FAILURE
    })
}

/// Executes this program again, with a scenario that has no fault.
fn becomes_another_program() -> ExitCode {
    let folder = folder().join("next");
    let mut command = Command::new(env::current_exe().expect("known"));
    command.env(SCENARIO, "nothing/main_returns").env("PERFMARK_OUTPUT", folder.join("report")).env(FOLDER, folder);
    panic!("exec: {}", command.exec());
}

fn raise(signal: i32) -> ExitCode {
    // SAFETY: it ends the process.
    unsafe { libc::raise(signal) };
    unreachable!("it is ended")
}

fn stack_overflows() -> ExitCode {
    let thread = thread::Builder::new().stack_size(256 << 10).spawn(|| busy(u64::MAX)).expect("a thread");
    _ = thread.join();
    unreachable!("it is ended")
}
