//! Signals held back from a thread.
#![allow(unsafe_code, reason = "signal masks")]

/// As long as it lives, no handler runs on this thread, nor on threads that it starts.
///
/// What a thread's own fault raises is not held back, as the kernel ends a process that has it blocked.
pub(crate) struct HeldBack(#[cfg(all(unix, not(miri)))] Option<libc::sigset_t>);

/// What a thread's own fault raises.
#[cfg(unix)]
#[cfg_attr(miri, allow(dead_code, reason = "nothing is held back there"))]
pub(super) const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

impl HeldBack {
    pub(crate) fn new() -> Self {
        Self(
            // Miri knows no signals.
            #[cfg(all(unix, not(miri)))]
            // SAFETY: live sets; sigfillset makes any memory one, and these are signals.
            unsafe {
                let (mut held, mut before) = (std::mem::zeroed(), std::mem::zeroed());
                libc::sigfillset(&raw mut held);
                for fault in FAULTS {
                    libc::sigdelset(&raw mut held, fault);
                }
                (libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, &raw mut before) == 0).then_some(before)
            },
        )
    }
}

#[cfg(all(unix, not(miri)))]
impl Drop for HeldBack {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the set that was in force.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}
