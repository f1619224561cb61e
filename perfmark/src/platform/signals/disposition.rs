//! What happens to a signal: its action in the process, and whether the calling thread blocks it.
#![allow(unsafe_code, reason = "actions and masks of signals")]

use std::mem;
use std::ptr;

/// Whether this is the signal's action: the address of a handler, `SIG_DFL` or `SIG_IGN`. A handler may call it.
pub(super) fn has_action(signal: i32, action: usize) -> bool {
    // SAFETY: zeroes are a valid sigaction, and the memory is live.
    unsafe {
        let mut now: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut now) == 0 && now.sa_sigaction == action
    }
}

/// Sets whether the calling thread blocks these signals.
pub(crate) fn set_blocked(signals: &[i32], is_blocked: bool) {
    let how = if is_blocked { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: a live set; the signals are valid.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(how, &raw const set, ptr::null_mut());
    }
}
