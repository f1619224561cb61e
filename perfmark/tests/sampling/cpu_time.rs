//! The CPU time of threads.
#![allow(unsafe_code, reason = "clock_gettime")]

/// The calling thread's CPU time until now, in nanoseconds.
pub(crate) fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live variable, which receives the time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned()
}
