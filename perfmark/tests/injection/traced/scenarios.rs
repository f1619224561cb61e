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

/// The scenario's own directory.
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

/// A marked call, which leaves the program's errno as it is, whatever fails in it.
fn call(marked: fn()) {
    const OWN: libc::c_int = 4_242;
    // SAFETY: this thread's errno.
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
    // Not by the call that perfmark writes with.
    // SAFETY: live bytes, which are only read.
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
        "asked" | "stdout" => plainly(),
        #[cfg(feature = "signal")]
        "signal" => signal(),
        "sandbox" => sandbox(),
        "counters" => counters(),
        _ => panic!("no scenario {scenario}"),
    }
}

/// The main thread, and two others that end.
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

/// One thread, whose marks have several sets of events.
fn sets() {
    call(plain);
    call(hardware);
    say("half way\n");
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
    // SAFETY: the child calls marks, writes, and ends.
    match unsafe { libc::fork() } {
        0 => {
            call(software);
            call(software);
            say("the child goes on\n");
            std::process::exit(0);
        }
        child => {
            let mut status = -1;
            // SAFETY: a child of ours, and a live integer.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            say(if status == 0 { "it ended well\n" } else { "it did not end well\n" });
        }
    }
    call(software);
}

fn plainly() {
    call(plain);
    say("half way\n");
    call(plain);
}

fn dumps() {
    dump(|dumps| dumps.every(Duration::from_millis(1)), || true);
}

#[cfg(feature = "signal")]
fn signal() {
    // Where signals can be waited for no more, none of them helps.
    let asked = std::cell::Cell::new(0);
    let ask = || {
        asked.set(asked.get() + 1);
        // SAFETY: it is handled.
        unsafe { libc::raise(libc::SIGUSR1) };
        asked.get() < 20_000
    };
    dump(|dumps| dumps.on_signal(libc::SIGUSR1), ask);
}

/// Dumps until there is a file, or there is no use in asking again.
fn dump(when: impl FnOnce(Dumps) -> Dumps, ask: impl Fn() -> bool) {
    call(plain);
    let file = PathBuf::from(env::var_os(DIRECTORY).expect("given")).join("dump");
    let name = std::ffi::CString::new(file.to_str().expect("UTF-8")).expect("a name");
    let dumping = when(Dumps::new(file).format(Format::Json)).start();
    // SAFETY: a live name.
    let is_there = || unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, name.as_ptr(), libc::F_OK) } == 0;
    // A dump that fails is followed by the next.
    while dumping.is_ok() && !is_there() && ask() {
        thread::yield_now();
    }
    drop(dumping);
    say("dumped\n");
}

/// When the program forbids itself what perfmark does: that many steps from the start. And what such calls say.
pub(super) const STEP: &str = "PERFMARK_TEST_STEP";
pub(super) const ERRNO: &str = "PERFMARK_TEST_ERRNO";
pub(super) const STEPS: usize = 6;

/// A sandbox that closes at one of its steps: no events, nothing of those there are, no files.
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
    // Made before the sandbox closes, as a thread needs memory of its own.
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
