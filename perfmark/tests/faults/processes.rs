//! Processes that a program makes: forked, cloned and started ones, and the one in which it continues.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, exit};
use std::task::Poll;
use std::time::{Duration, Instant};
use std::{env, future};

use perfmark::perfmark;

use crate::executor::run;
use crate::ledger::{self, Leaves, assert_descriptors, descriptors, has_perf_events, ledger};
use crate::program::{SCENARIO, assert_code, wait_for};
use crate::{CALLS, work};

/// The scenario of the child of [`starts_programs`], which reports how many perf events it inherited.
pub(crate) const INHERITS: &str = "inherits";

fn fork() -> libc::pid_t {
    // SAFETY: the children call marked functions and parts of the standard library that start no threads, and exit.
    unsafe { libc::fork() }
}

/// Calls of `work` that perfmark has recorded in this process.
fn recorded() -> u64 {
    perfmark::snapshot().marks.iter().filter(|mark| mark.name == "work").map(|mark| mark.calls + mark.in_flight).sum()
}

/// Forks several times. Each child closes what it inherited, starts empty and leaves its own report, and some have
/// children.
pub(crate) fn forks() {
    let before = descriptors();
    for n in 0..4 {
        let before_fork = Instant::now();
        match fork() {
            0 => child(n, before_fork),
            child => wait_for(child, 0),
        }
        work(n);
    }
    assert_descriptors(&before);
}

fn child(n: u64, before_fork: Instant) -> ! {
    assert!(!has_perf_events(), "a child first closes what it inherited");
    ledger::begin(true);
    assert_eq!(recorded(), 0, "it starts empty");
    (0..=n).for_each(work);
    let ran = Duration::from_nanos(perfmark::snapshot().wall_ns);
    assert!(ran <= before_fork.elapsed(), "it ran since its fork, and not for {ran:?}");
    if n > 1 {
        let before_fork = Instant::now();
        match fork() {
            0 => child(n - 2, before_fork),
            grandchild => wait_for(grandchild, 0),
        }
    }
    assert_eq!(recorded(), n + 1);
    ledger().will_leave(Leaves::Report);
    exit(0);
}

/// In the child, calls that its parent began end after some of its own.
pub(crate) fn forks_in_a_call() {
    for calls in 0..4 {
        match outer(calls) {
            0 => {
                work(calls);
                assert_eq!(recorded(), calls + 1, "its own, and not its parent's");
                ledger().will_leave(Leaves::Report);
                exit(0);
            }
            child => wait_for(child, 0),
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

/// In the child, an async call that its parent began goes on or ends, perhaps after calls of its own.
pub(crate) fn forks_in_a_poll() {
    for (at, calls) in [0, 1, 2].into_iter().flat_map(|at| [(at, 0), (at, 1)]) {
        if run(forks_at(at, calls)) {
            let snapshot = perfmark::snapshot();
            let parents = snapshot.marks.iter().filter(|mark| mark.name == "forks_at");
            let parents: u64 = parents.map(|mark| mark.calls + mark.in_flight).sum();
            assert_eq!((parents, recorded()), (0, calls), "its parent's and its own: {at}");
            ledger().will_leave(if calls == 0 { Leaves::Nothing } else { Leaves::Report });
            exit(0);
        }
    }
}

/// Forks in its only poll, in the first of two, or in the second. Returns whether this is the child, which makes calls.
#[perfmark(time, page_faults)]
async fn forks_at(at: u64, calls: u64) -> bool {
    let mut polls = 0;
    let mut is_child = false;
    future::poll_fn(|_| {
        polls += 1;
        if polls == at.max(1) {
            match fork() {
                0 => {
                    ledger::begin(true);
                    (0..calls).for_each(work);
                    is_child = true;
                }
                child => wait_for(child, 0),
            }
        }
        if at == 0 || polls == 2 { Poll::Ready(is_child) } else { Poll::Pending }
    })
    .await
}

/// Children that no fork handler notices.
pub(crate) fn clones() {
    for n in 0..4 {
        // SAFETY: as for `fork`; the child ends at once.
        match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
            0 => {
                (0..n).for_each(in_a_clone);
                // SAFETY: it ends the child.
                unsafe { libc::_exit(0) };
            }
            child => wait_for(libc::pid_t::try_from(child).expect("small"), 0),
        }
        work(n);
    }
}

/// Its calls are not in the parent's report, as the child does not share the parent's memory.
#[perfmark(time, page_faults, instructions)]
fn in_a_clone(_: u64) {}

pub(crate) fn inherits() -> ExitCode {
    assert!(!has_perf_events(), "no perf event is inherited: {:?}", descriptors());
    ExitCode::SUCCESS
}

/// Starts programs by `posix_spawn`, and by fork and exec, where something is to be done in the child first.
pub(crate) fn starts_programs() {
    let before = descriptors();
    let program = || {
        let mut command = Command::new(env::current_exe().expect("known"));
        command.env(SCENARIO, INHERITS).env_remove("PERFMARK_OUTPUT").env("PERFMARK", "off");
        command
    };
    for n in 0..3 {
        assert_code(&program().output().expect("started"), 0);
        work(n);
        let mut forked = program();
        // SAFETY: it makes a marked call in a forked child.
        unsafe {
            forked.pre_exec(|| {
                in_a_clone(0);
                Ok(())
            });
        }
        assert_code(&forked.output().expect("started"), 0);
    }
    assert_descriptors(&before);
}

/// The program continues in another process. Its shepherd, which the test started, only waits for it.
pub(crate) fn becomes_a_daemon() {
    // SAFETY: the process has one thread, as for daemons; then it waits for its children.
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
    // SAFETY: they are children of this process, and the integers are live; it ends this process.
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
