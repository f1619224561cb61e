//! Blocking signals on a thread.
#![allow(unsafe_code, reason = "signal masks")]

/// Blocks signals as long as it lives: no handler runs on this thread, nor on threads that it starts.
///
/// Signals that a thread's own fault raises are not blocked, because the kernel ends a process that blocks them.
pub(crate) struct BlockedSignals(#[cfg(all(unix, not(miri)))] Option<libc::sigset_t>);

/// The signals that a thread's own fault raises. SIGTRAP is that of a breakpoint instruction. perfmark-rdpmc's list
/// lacks it, because events can send it for each sample (`Sampler::sigtrap`); perfmark opens no such event.
#[cfg(unix)]
#[cfg_attr(miri, allow(dead_code, reason = "Miri has no signals"))]
pub(super) const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

impl BlockedSignals {
    pub(crate) fn new() -> Self {
        Self(
            // Miri has no signals.
            #[cfg(all(unix, not(miri)))]
            // SAFETY: live sets; sigfillset makes any memory one, and these are signals.
            unsafe {
                let (mut blocked, mut before) = (std::mem::zeroed(), std::mem::zeroed());
                libc::sigfillset(&raw mut blocked);
                for fault in FAULTS {
                    libc::sigdelset(&raw mut blocked, fault);
                }
                (libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before) == 0).then_some(before)
            },
        )
    }
}

#[cfg(all(unix, not(miri)))]
impl Drop for BlockedSignals {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: the set that was in force.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}
