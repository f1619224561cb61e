//! A forked child, in which nothing is recorded but its own calls.

use perfmark::{reset, set_filter, snapshot, threads};

use crate::marks::{Batch, COUNTS, calls, counts, made};

/// Forks while other threads work. None if the child found what it must; else its status, as `waitpid` has it.
pub(crate) fn fork() -> Option<i32> {
    // SAFETY: the child uses what perfmark and the allocator keep usable behind a fork, and ends without going back.
    unsafe {
        match libc::fork() {
            0 => {
                // What hangs is killed.
                libc::alarm(60);
                libc::_exit(live());
            }
            -1 => Some(-1),
            child => {
                let mut status = 0;
                let ended = libc::waitpid(child, &raw mut status, 0);
                (ended != child || status != 0).then_some(status)
            }
        }
    }
}

/// The child's life; 0 if all is as it must be.
fn live() -> i32 {
    let before = made();
    let recorded = calls(&counts(&snapshot()));
    set_filter(&"*::told=every:7".parse().expect("a filter")).expect("slots for settings");
    Batch { sixty_fours: 2, each: 50, rare: 0 }.run();
    let (own, seen) = (made(), counts(&snapshot()));
    let is_exact = (0..COUNTS.len()).all(|n| own[n] - before[n] == seen[n]);
    let alive = threads().len();
    reset();
    let left = calls(&counts(&snapshot()));
    let held = [recorded == 0, is_exact, alive == 1, left == 0];
    (10..).zip(held).find(|(_, held)| !held).map_or(0, |(status, _)| status)
}
