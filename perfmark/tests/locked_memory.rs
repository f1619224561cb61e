//! How much locked memory (`mlockall(2)`) a thread's marks take, as the guide's chapter on production says. The test
//! locks all of the process's memory, and so is the only one here.
#![cfg(all(feature = "record", target_os = "linux"))]

use std::{fs, io, thread};

use perfmark::perfmark;

#[perfmark(time)]
fn work() {}

/// Of this process, in KiB.
fn locked() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// How much more is locked after a thread's first call of a mark than before, in KiB.
fn locked_by_a_call() -> u64 {
    let call = || {
        let before = locked();
        work();
        locked().saturating_sub(before)
    };
    thread::spawn(call).join().expect("no panic")
}

#[test]
fn a_thread_with_marks_locks_half_a_mebibyte_and_gives_it_back() {
    // Else a thread's allocations would lock the C library's own 64 MiB, too.
    // SAFETY: a parameter that there is.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    // SAFETY: no pointers.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        return println!("skipped: memory cannot be locked here: {}", io::Error::last_os_error());
    }
    // What the process needs once, and stacks and heaps, are there after the first.
    locked_by_a_call();
    let before = locked();
    for _ in 0..16 {
        let each = locked_by_a_call();
        println!("{each} KiB");
        assert!((1..=576).contains(&each), "{each} KiB");
    }
    assert!(locked() <= before + 256, "{before} KiB before 16 threads, {} after", locked());
}
