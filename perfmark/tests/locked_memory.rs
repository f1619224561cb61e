//! How much locked memory (`mlockall(2)`) the marks of a thread take, as the guide's chapter on production says. The
//! test locks all memory of the process, so it is the only one in this file.
#![cfg(feature = "record")]

use std::{fs, io, thread};

use perfmark::perfmark;

#[perfmark(time)]
fn work() {}

/// Locked memory of this process, in KiB.
fn locked() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// By how many KiB a thread's first call of a mark raises the locked memory. Starts that many threads that live at
/// once, and measures the last of them.
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
fn a_thread_with_marks_locks_what_the_guide_says_and_releases_it() {
    // Otherwise an allocation of a thread would lock the C library's own 64 MiB, too.
    // SAFETY: it is a known parameter.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    // SAFETY: it takes no pointers.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
        return println!("skipped: memory cannot be locked here: {}", io::Error::last_os_error());
    }
    // The first thread sets up what the process needs once, and stacks and heaps. The fourth finds no memory of ended
    // threads.
    let new = locked_by_a_call(4);
    println!("{new} KiB");
    assert!((1..=1_280).contains(&new), "{new} KiB");
    let before = locked();
    for _ in 0..16 {
        let each = locked_by_a_call(1);
        println!("{each} KiB");
        // It is 0 if an ended thread left what this one needs.
        assert!(each <= 576, "{each} KiB");
    }
    assert!(locked() <= before + 256, "{before} KiB before 16 threads, {} after", locked());
}
