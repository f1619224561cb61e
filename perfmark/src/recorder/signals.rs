//! Signals that wait while perfmark does its own cold work.
//!
//! A mark that is met there is in an allocator, and no call of the program's. In a signal handler it would be one, and nothing tells the two apart: so
//! handlers run before or after. What a thread's own fault raises is not held back, as the kernel ends a process that has it blocked.
#![allow(unsafe_code, reason = "signal masks")]

/// As long as it lives, no handler runs on this thread.
pub(super) struct HeldBack(#[cfg(unix)] Option<libc::sigset_t>);

impl HeldBack {
    pub(super) fn new() -> Self {
        Self(
            #[cfg(unix)]
            // SAFETY: live sets; sigfillset makes any memory one, and these are signals.
            unsafe {
                let (mut held, mut before) = (std::mem::zeroed(), std::mem::zeroed());
                libc::sigfillset(&raw mut held);
                for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS] {
                    libc::sigdelset(&raw mut held, fault);
                }
                (libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, &raw mut before) == 0).then_some(before)
            },
        )
    }
}

#[cfg(unix)]
impl Drop for HeldBack {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the set that was in force.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}
