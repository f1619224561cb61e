//! A forked child, which must record only its own calls.

use perfmark::{reset, set_filter, snapshot, threads};

use crate::marks::{Batch, COUNTS, calls, counts, made};

/// Forks while other threads work. Returns `None` if the child's checks pass, and its status from `waitpid` otherwise.
pub(crate) fn fork() -> Option<i32> {
    // SAFETY: perfmark and the allocator work after a fork. The child uses only these and ends without returning.
    unsafe {
        match libc::fork() {
            0 => {
                // Kills the child if it hangs.
                libc::alarm(60);
                libc::_exit(check());
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

/// Runs the checks in the child. Returns 0 if all pass, and otherwise a status that identifies the first failure.
fn check() -> i32 {
    let before = made();
    let recorded = calls(&counts(&snapshot()));
    set_filter(&"*::filtered=every:7".parse().expect("a filter")).expect("slots for settings");
    Batch { sixty_fours: 2, each: 50, rare: 0 }.run();
    let (own, seen) = (made(), counts(&snapshot()));
    let is_exact = (0..COUNTS.len()).all(|n| own[n] - before[n] == seen[n]);
    let alive = threads().len();
    reset();
    let left = calls(&counts(&snapshot()));
    let checks = [recorded == 0, is_exact, alive == 1, left == 0];
    (10..).zip(checks).find(|(_, passed)| !passed).map_or(0, |(status, _)| status)
}
