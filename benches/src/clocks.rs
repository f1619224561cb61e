//! The kernel's clocks, by `clock_gettime(2)`: one for all processes, and one for each thread.

use std::mem::zeroed;
use std::time::Duration;

fn read(clock: libc::clockid_t) -> Duration {
    // SAFETY: all zeroes are a valid `timespec`, and the kernel writes one to the pointer.
    let time = unsafe {
        let mut time: libc::timespec = zeroed();
        libc::clock_gettime(clock, &raw mut time);
        time
    };
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// The time of the clock that all processes share.
#[must_use]
pub fn now() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

/// The CPU time of this thread.
#[must_use]
pub fn cpu_time() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}
