//! The process's file descriptors.
#![allow(unsafe_code, reason = "getrlimit")]

/// The most descriptors that the process may have; a guess if it is unknown.
pub(crate) fn limit() -> usize {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a live variable, which receives the limits.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
            return usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX);
        }
    }
    1_024
}
