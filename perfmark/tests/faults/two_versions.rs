//! A program with two versions of perfmark and marks of each, called also inside the other's. It counts their calls
//! itself, in files `calls`.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::{env, fs, process, thread};

static CALLS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Has that many calls inside it.
#[perfmark::perfmark(time, page_faults)]
fn of_one(inside: u64) {
    CALLS[0].fetch_add(1, SeqCst);
    (0..inside).for_each(|_| of_another(0));
}

#[another::perfmark(time, page_faults, crate = another)]
fn of_another(inside: u64) {
    CALLS[1].fetch_add(1, SeqCst);
    (0..inside).for_each(|_| of_one(0));
}

fn work() {
    for n in 0..100 {
        of_one(n % 3);
        of_another(n % 8);
    }
}

/// Works on threads that end, and on one that runs until the program ends.
fn work_on_threads() {
    for thread in [(); 4].map(|()| thread::spawn(work)) {
        thread.join().expect("does not panic");
    }
    let (worked, has_worked) = mpsc::channel();
    thread::spawn(move || {
        work();
        worked.send(()).expect("main listens");
        loop {
            thread::park();
        }
    });
    has_worked.recv().expect("it works");
}

/// Works in a child, which leaves its own reports.
fn work_forked() {
    // SAFETY: the child calls marked functions, writes a file, and exits.
    match unsafe { libc::fork() } {
        0 => {
            CALLS.iter().for_each(|calls| calls.store(0, SeqCst));
            work();
            write_calls(&format!(".{}", process::id()));
            process::exit(0);
        }
        child => {
            let mut status = -1;
            // SAFETY: it is a child of this process, and the integer is live.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            let status = process::ExitStatus::from_raw(status);
            assert!(status.success(), "{status}");
        }
    }
}

/// Writes down what this process called.
fn write_calls(suffix: &str) {
    let [one, another] = CALLS.each_ref().map(|calls| calls.load(SeqCst));
    fs::write(format!("calls{suffix}"), format!("{{\"of_one\": {one}, \"of_another\": {another}}}")).expect("written");
}

/// The argument says how to end.
fn main() {
    work();
    work_on_threads();
    work_forked();
    work();
    write_calls("");
    match env::args().nth(1).as_deref() {
        Some("main_returns") => {}
        Some("another_thread_exits") => thread::spawn(|| process::exit(3)).join().expect("does not panic"),
        Some("main_panics") => panic!("as asked"),
        Some("killed_after_dumps") => {
            // SAFETY: both versions of perfmark dump at this signal.
            unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
            while !(Path::new("report").exists() && Path::new("report.copy-2").exists()) {
                thread::yield_now();
            }
            // SAFETY: it ends the process.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        ending => panic!("no ending: {ending:?}"),
    }
}
