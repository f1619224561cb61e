//! Runs a program, and makes one of its system calls fail: `ptrace(2)`.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::ptr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use libc::{c_int, c_uint, pid_t};

use super::calls::{self, Answer, Call};
use super::registers::{Registers, ptrace};

/// The call that is to fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// Its index among the calls that the tracer is notified of.
    pub(crate) nth: usize,
    /// The index of the answer that it gets. A call with fewer answers gets its last one.
    pub(crate) answer: usize,
    /// Whether all later calls of its kind get it, too, as from a filter that is installed at that moment.
    pub(crate) for_good: bool,
}

/// The result of a run.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) pid: pid_t,
    /// The program's wait status.
    pub(crate) status: c_int,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The calls that the tracer was notified of.
    pub(crate) calls: Vec<&'static Call>,
    /// The call that failed and its answer, and how often such calls failed.
    pub(crate) failed: Option<(&'static Call, Answer)>,
    pub(crate) failures: usize,
    /// What each process held when it ended. The program itself is last.
    pub(crate) held: Vec<Held>,
}

#[derive(Debug)]
pub(crate) struct Held {
    descriptors: usize,
    /// How many of these are events.
    events: usize,
    /// Mapped pages of events.
    pages: usize,
    /// The signals that its first thread blocks, as the kernel's mask, and the one that may be left to dumps.
    pub(crate) blocked: u64,
}

/// In the program: lets its parent trace it, starting with a stop.
pub(crate) fn be_traced() -> io::Result<()> {
    // SAFETY: no pointer is used; the parent waits for the stop.
    let result =
        unsafe { if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == 0 { libc::raise(libc::SIGSTOP) } else { -1 } };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends a program that hangs. No promise depends on how long it takes.
const HANGS: Duration = Duration::from_secs(60);

/// Runs a program that lets itself be [traced](be_traced).
#[allow(clippy::zombie_processes, reason = "the tracer waits for it, and for all that it makes")]
pub(crate) fn run(command: &mut Command, fault: Option<Fault>) -> Run {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let pid = pid_t::try_from(child.id()).expect("small");
    let (ended, end) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        if end.recv_timeout(HANGS) == Err(RecvTimeoutError::Timeout) {
            // SAFETY: it ends this test's own processes.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
    });
    let mut tracer = Tracer { run: Run { pid, ..Run::default() }, fault, begun: false, late: None };
    tracer.trace();
    drop(ended);
    watch.join().expect("does not panic");
    let mut run = tracer.run;
    // A pipe holds more than they write. Otherwise they would hang.
    child.stdout.take().expect("piped").read_to_string(&mut run.stdout).expect("UTF-8");
    child.stderr.take().expect("piped").read_to_string(&mut run.stderr).expect("UTF-8");
    run
}

struct Tracer {
    run: Run,
    fault: Option<Fault>,
    begun: bool,
    /// The thread whose call is in progress, and the error that it is to return.
    late: Option<(pid_t, i32)>,
}

const OPTIONS: c_int = libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_EXITKILL;

impl Tracer {
    /// Traces until all processes and threads have ended.
    fn trace(&mut self) {
        loop {
            let mut status = 0;
            // SAFETY: the integer is live. It waits for children of this thread only, as other tests have their own.
            let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
            if thread < 0 {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::ECHILD) => return,
                    _ => panic!("waitpid: {error}"),
                }
            }
            if libc::WIFSTOPPED(status) {
                self.stopped(thread, status);
            } else if thread == self.run.pid {
                self.run.status = status;
            }
        }
    }

    fn stopped(&mut self, thread: pid_t, status: c_int) {
        const SYSTEM_CALL: c_int = libc::SIGTRAP | 0x80;
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        let mut how = libc::PTRACE_CONT;
        let mut delivered = 0;
        match (signal, event) {
            (libc::SIGTRAP, libc::PTRACE_EVENT_SECCOMP) => how = self.call(thread),
            (libc::SIGTRAP, libc::PTRACE_EVENT_EXIT) => self.run.held.extend(Held::by(thread)),
            (libc::SIGTRAP, 1..) => {}
            (SYSTEM_CALL, _) => {
                if let Some((_, errno)) = self.late.take_if(|(late, _)| *late == thread) {
                    Registers::of(thread).give(thread, -i64::from(errno));
                }
            }
            // The program's own stop, and that of each new thread.
            (libc::SIGSTOP, _) => {
                if !std::mem::replace(&mut self.begun, true) {
                    ptrace(libc::PTRACE_SETOPTIONS, thread, 0, OPTIONS.cast_unsigned() as usize);
                }
            }
            _ => delivered = signal,
        }
        ptrace(how, thread, 0, usize::try_from(delivered).expect("a signal"));
    }

    /// A call that is about to be made. Returns how the thread continues.
    fn call(&mut self, thread: pid_t) -> c_uint {
        let call = calls::by_message(u16::try_from(message(thread)).expect("16 bits"));
        let n = self.run.calls.len();
        self.run.calls.push(call);
        let Some(fault) = self.fault else { return libc::PTRACE_CONT };
        let is_like_failed = || self.run.failed.is_some_and(|(failed, _)| ptr::eq(failed, call));
        if n != fault.nth && !(fault.for_good && is_like_failed()) {
            return libc::PTRACE_CONT;
        }
        let answer = call.answers[fault.answer.min(call.answers.len() - 1)];
        self.run.failed = Some((call, answer));
        self.run.failures += 1;
        match answer {
            Answer::Fails(errno) => Registers::of(thread).skip(thread, -i64::from(errno)),
            Answer::Nothing => Registers::of(thread).skip(thread, 0),
            Answer::Half => Registers::of(thread).halve(thread),
            Answer::FailsLate(errno) => {
                // The standard library asserts that closing a directory fails with no other error, and on Linux it does
                // not.
                let is_directory = fs::metadata(format!("/proc/{thread}/fd/{}", Registers::of(thread).first()))
                    .is_ok_and(|file| file.is_dir());
                self.late = Some((thread, if is_directory { libc::EINTR } else { errno }));
                return libc::PTRACE_SYSCALL;
            }
        }
        libc::PTRACE_CONT
    }
}

/// The kernel's message about the event at which a thread stopped.
fn message(thread: pid_t) -> usize {
    let mut message = 0_usize;
    ptrace(libc::PTRACE_GETEVENTMSG, thread, 0, (&raw mut message).addr());
    message
}

impl Held {
    /// By how much it exceeds the other, in whatever differs most.
    pub(crate) fn excess_over(&self, other: &Self) -> usize {
        let descriptors = self.descriptors.saturating_sub(other.descriptors);
        let events = self.events.saturating_sub(other.events);
        descriptors.max(events).max(self.pages.saturating_sub(other.pages))
    }

    /// What the ending process holds, if this is its first thread.
    fn by(thread: pid_t) -> Option<Self> {
        let of = |file| fs::read_to_string(format!("/proc/{thread}/{file}")).ok();
        let status = of("status")?;
        if !status.contains(&format!("\nTgid:\t{thread}\n")) {
            return None;
        }
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t"))?;
        let files: Vec<_> =
            fs::read_dir(format!("/proc/{thread}/fd")).ok()?.flatten().map(|entry| entry.path()).collect();
        let is_event =
            |file: &&PathBuf| fs::read_link(file).is_ok_and(|name| name.ends_with("anon_inode:[perf_event]"));
        Some(Self {
            descriptors: files.len(),
            events: files.iter().filter(is_event).count(),
            blocked: u64::from_str_radix(blocked, 16).ok()? | 1 << (libc::SIGUSR1 - 1),
            pages: of("maps")?.lines().filter(|line| line.ends_with("[perf_event]")).count(),
        })
    }
}
