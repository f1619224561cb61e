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

/// How much more is locked after a thread's first call of a mark than before, in KiB: of the last of some threads that live at once.
fn locked_by_a_call(threads: u64) -> u64 {
    let call = move || {
        let before = locked();
        work();
        let more = locked().saturating_sub(before);
        if threads > 1 { locked_by_a_call(threads - 1) } else { more }
    };
    thread::spawn(call).join().expect("no panic")
}

#[test]
fn a_thread_with_marks_locks_less_than_a_mebibyte_and_gives_it_back() {
    // Else a thread's allocations would lock the C library's own 64 MiB, too.
    // SAFETY: a parameter that there is.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    // SAFETY: no pointers.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        return println!("skipped: memory cannot be locked here: {}", io::Error::last_os_error());
    }
    // What the process needs once, and stacks and heaps, are there after the first; and the fourth finds no memory of ended threads.
    let new = locked_by_a_call(4);
    println!("{new} KiB");
    assert!((1..=900).contains(&new), "{new} KiB");
    let before = locked();
    for _ in 0..16 {
        let each = locked_by_a_call(1);
        println!("{each} KiB");
        // Nothing, if an ended thread left what this one needs.
        assert!(each <= 576, "{each} KiB");
    }
    assert!(locked() <= before + 256, "{before} KiB before 16 threads, {} after", locked());
}
