//! Processes that a program makes: forked, cloned, started; and the one that it goes on in.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, exit};

use perfmark::perfmark;

use crate::ledger::{self, Leaves, descriptors, ledger};
use crate::program::SCENARIO;
use crate::{CALLS, work};

/// What the child of [`starts_programs`] is started for: it tells how many perf events it inherited.
pub(crate) const INHERITS: &str = "inherits";

/// Waits for a child, which ends with 0 where it found everything right.
fn wait_for(child: libc::pid_t) {
    let mut status = -1;
    // SAFETY: a child of ours, and a live integer.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child ended well");
}

fn fork() -> libc::pid_t {
    // SAFETY: the children here call marked functions, the standard library as far as it does not start threads, and end.
    unsafe { libc::fork() }
}

/// Calls of `work` that perfmark has recorded in this process.
fn recorded() -> u64 {
    perfmark::snapshot().marks.iter().filter(|mark| mark.name == "work").map(|mark| mark.calls + mark.in_flight).sum()
}

/// One after the other, and each with a child of its own: closed what it inherited, starts empty, leaves its own report.
pub(crate) fn forks() {
    let before = descriptors();
    for n in 0..4 {
        match fork() {
            0 => child(n),
            child => wait_for(child),
        }
        work(n);
    }
    assert_eq!(descriptors(), before);
}

fn child(n: u64) -> ! {
    assert_eq!(descriptors()[0], 0, "first of all it closed what it inherited");
    ledger::begin(true);
    assert_eq!(recorded(), 0, "it starts empty");
    (0..=n).for_each(work);
    if n > 1 {
        match fork() {
            0 => child(n - 2),
            grandchild => wait_for(grandchild),
        }
    }
    assert_eq!(recorded(), n + 1);
    ledger().will_leave(Leaves::Report);
    exit(0);
}

/// In the child, calls end that its parent began, after some of its own.
pub(crate) fn forks_in_a_call() {
    for calls in 0..4 {
        match outer(calls) {
            0 => {
                work(calls);
                assert_eq!(recorded(), calls + 1, "its own, and not its parent's");
                ledger().will_leave(Leaves::Report);
                exit(0);
            }
            child => wait_for(child),
        }
    }
}

#[perfmark(time, page_faults)]
fn outer(calls: u64) -> libc::pid_t {
    inner(calls)
}

#[perfmark]
fn inner(calls: u64) -> libc::pid_t {
    let child = fork();
    if child == 0 {
        ledger::begin(true);
        (0..calls).for_each(work);
    }
    child
}

/// Children that no fork handler knows of.
pub(crate) fn clones() {
    for n in 0..4 {
        // SAFETY: as `fork` has it; the child ends at once.
        match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
            0 => {
                (0..n).for_each(in_a_clone);
                // SAFETY: ends the child.
                unsafe { libc::_exit(0) };
            }
            child => wait_for(libc::pid_t::try_from(child).expect("small")),
        }
        work(n);
    }
}

/// Nothing of it is in the parent's report, whose memory the child does not share.
#[perfmark(time, page_faults, instructions)]
fn in_a_clone(_: u64) {}

pub(crate) fn inherits() -> ExitCode {
    if descriptors()[0] == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Started by `posix_spawn`, and, as something is to be done in the child first, by fork and exec.
pub(crate) fn starts_programs() {
    let before = descriptors();
    let program = || {
        let mut command = Command::new(env::current_exe().expect("known"));
        command.env(SCENARIO, INHERITS).env_remove("PERFMARK_OUTPUT").env("PERFMARK", "off");
        command
    };
    for n in 0..3 {
        assert!(program().status().expect("started").success(), "no perf event is inherited");
        work(n);
        let mut forked = program();
        // SAFETY: a marked call, in a forked child.
        unsafe {
            forked.pre_exec(|| {
                in_a_clone(0);
                Ok(())
            });
        }
        assert!(forked.status().expect("started").success(), "no perf event is inherited");
    }
    assert_eq!(descriptors(), before);
}

/// The program goes on in a process that its shepherd, the one that the test started, only waits for.
pub(crate) fn becomes_a_daemon() {
    // SAFETY: what daemons do, who have one thread; and waiting for them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1), 0);
        match fork() {
            0 => assert_eq!(libc::daemon(1, 0), 0),
            starter => shepherd(starter),
        }
    }
    ledger::begin(true);
    assert_eq!(recorded(), 0, "it starts empty");
    (0..CALLS).for_each(work);
}

/// Ends as the daemon does, and leaves nothing.
fn shepherd(starter: libc::pid_t) -> ! {
    let (mut status, mut of_daemon) = (0, 0);
    // SAFETY: children of ours, and live integers; ends this process.
    unsafe {
        loop {
            match libc::wait(&raw mut status) {
                -1 => break,
                child if child == starter => {}
                _ => of_daemon = status,
            }
        }
        if libc::WIFSIGNALED(of_daemon) {
            libc::signal(libc::WTERMSIG(of_daemon), libc::SIG_DFL);
            libc::raise(libc::WTERMSIG(of_daemon));
        }
        libc::_exit(libc::WEXITSTATUS(of_daemon))
    }
}
