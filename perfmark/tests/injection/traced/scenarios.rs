//! The programs that are traced.

use std::env;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::calls;
use perfmark::{Dumps, Format, perfmark};
use perfmark_rdpmc::{Attr, Counter, Group, Hardware, Software};

/// The directory of the scenario.
pub(super) const DIRECTORY: &str = "PERFMARK_TEST_DIRECTORY";

#[perfmark(time)]
fn plain() {
    black_box(());
}

#[perfmark(page_faults, task_clock, minor_faults)]
fn software() {
    black_box(());
}

#[perfmark(cycles, instructions)]
fn hardware() {
    black_box(());
}

#[perfmark(time, off_cpu)]
fn waiting() {
    black_box(());
}

/// A marked call. It must leave the program's errno unchanged, whatever fails in it.
fn call(marked: fn()) {
    const OWN: libc::c_int = 4_242;
    // SAFETY: it is this thread's errno.
    let errno = unsafe { &mut *libc::__errno_location() };
    *errno = OWN;
    marked();
    if *errno != OWN {
        say("a marked call changed errno\n");
    }
}

/// The host's own output.
fn say(what: &str) {
    let piece = libc::iovec { iov_base: what.as_ptr().cast_mut().cast(), iov_len: what.len() };
    // Does not use the call that perfmark writes with.
    // SAFETY: the bytes are live and only read.
    let written = unsafe { libc::writev(1, &raw const piece, 1) };
    assert_eq!(usize::try_from(written), Ok(what.len()));
}

pub(super) fn run(scenario: &str) {
    match scenario {
        "threads" => threads(),
        "sets" => sets(),
        "file" => file(),
        "fork" => fork(),
        "dumps" => dumps(),
        "asked" | "stdout" => two_calls(),
        #[cfg(feature = "signal")]
        "signal" => signal(),
        "sandbox" => sandbox(),
        "counters" => counters(),
        _ => panic!("no scenario {scenario}"),
    }
}

/// Calls on the main thread, and on two others that end.
fn threads() {
    call(software);
    for _ in 0..2 {
        let thread = thread::spawn(|| {
            call(software);
            call(software);
        });
        thread.join().expect("does not panic");
        say("a thread has ended\n");
    }
    call(software);
}

/// Calls on one thread, whose marks have several sets of events.
fn sets() {
    call(plain);
    call(hardware);
    say("half way\n");
    call(waiting);
    call(plain);
}

fn file() {
    call(software);
    say("half way\n");
    let snapshot = perfmark::snapshot();
    let calls = snapshot.marks.iter().find(|mark| mark.name == "software").map(|mark| mark.calls);
    say(if calls == Some(1) { "counted\n" } else { "not counted\n" });
    black_box(perfmark::threads());
    call(software);
}

fn fork() {
    call(software);
    say("it forks\n");
    // SAFETY: the child calls marks, writes, and exits.
    match unsafe { libc::fork() } {
        0 => {
            call(software);
            call(software);
            say("the child continues\n");
            std::process::exit(0);
        }
        child => {
            let mut status = -1;
            // SAFETY: it is a child of this process, and the integer is live.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            say(if status == 0 { "it ended well\n" } else { "it did not end well\n" });
        }
    }
    call(software);
}

fn two_calls() {
    call(plain);
    say("half way\n");
    call(plain);
}

fn dumps() {
    dump(|dumps| dumps.every(Duration::from_millis(1)), || true);
}

#[cfg(feature = "signal")]
fn signal() {
    // If signals can no longer be waited for, sending more does not help.
    let asked = std::cell::Cell::new(0);
    let ask = || {
        asked.set(asked.get() + 1);
        // SAFETY: the signal has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        asked.get() < 20_000
    };
    dump(|dumps| dumps.on_signal(libc::SIGUSR1), ask);
}

/// Dumps until there is a file, or until asking again is pointless.
fn dump(when: impl FnOnce(Dumps) -> Dumps, ask: impl Fn() -> bool) {
    call(plain);
    let file = PathBuf::from(env::var_os(DIRECTORY).expect("given")).join("dump");
    let name = std::ffi::CString::new(file.to_str().expect("UTF-8")).expect("a name");
    let dumping = when(Dumps::new(file).format(Format::Json)).start();
    // SAFETY: the name is live.
    let is_there = || unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, name.as_ptr(), libc::F_OK) } == 0;
    // After a dump that fails, there is another.
    while dumping.is_ok() && !is_there() && ask() {
        thread::yield_now();
    }
    drop(dumping);
    say("dumped\n");
}

/// The step from which on the program forbids itself what perfmark does, and the error of such calls.
pub(super) const STEP: &str = "PERFMARK_TEST_STEP";
pub(super) const ERRNO: &str = "PERFMARK_TEST_ERRNO";
pub(super) const STEPS: usize = 6;

/// Enters a sandbox at one of its steps: no new events, no use of open ones, no files.
fn sandbox() {
    const FORBIDDEN: &[&str] = &[
        "SYS_perf_event_open",
        "SYS_ioctl",
        "ioctl(PERF_EVENT_IOC_ID)",
        "read of an event",
        "SYS_fcntl",
        "fcntl(F_GETFL)",
        "SYS_mmap",
        "SYS_madvise",
        "SYS_openat",
        "SYS_statx",
        "SYS_getrandom",
    ];
    let number = |name: &str| env::var(name).ok()?.parse::<i32>().ok();
    let closes = number(STEP).zip(number(ERRNO));
    let step = move |at: i32| {
        if let Some((_, errno)) = closes.filter(|&(step, _)| step == at) {
            calls::forbid(FORBIDDEN, errno).expect("a second filter");
        }
        call(software);
        call(hardware);
        say("a step\n");
    };
    step(0);
    step(1);
    // Started before the program enters the sandbox, as a thread needs memory of its own.
    let (go, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        wait.into_iter().for_each(step);
    });
    for at in 2..4 {
        go.send(at).expect("it listens");
    }
    drop(go);
    thread.join().expect("does not panic");
    step(4);
    step(5);
}

/// Counters without marks.
fn counters() {
    for attr in [Attr::new(Software::TaskClock), Attr::new(Hardware::Instructions)] {
        let opened = Counter::open(&attr);
        if let Ok(counter) = &opened {
            _ = black_box((counter.read(), counter.user_reads(), counter.disable(), counter.reset(), counter.enable()));
        }
        drop(opened);
        say("a counter\n");
    }
    let attrs = [Software::TaskClock, Software::PageFaults, Software::ContextSwitches]
        .map(|event| Attr::new(event).kernel(true));
    if let Ok(group) = Group::open(&attrs) {
        _ = black_box((group.read(), group.disable(), group.reset(), group.enable(), group.read()));
    }
    say("a group\n");
}
