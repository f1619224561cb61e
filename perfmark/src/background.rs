//! Threads of perfmark's own.
#![allow(unsafe_code, reason = "signal masks")]

use std::io;
use std::thread::{Builder, JoinHandle};

/// A thread on which none of the program's signals is handled: a program that waits for one on a thread of its own has it blocked in all that it knows.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    #[cfg(unix)]
    let _blocked = Blocked::all();
    Builder::new().name(name.into()).spawn(work)
}

/// Signals that are blocked on this thread, which a new thread takes over (`pthread_sigmask(3)`).
#[cfg(unix)]
struct Blocked {
    before: libc::sigset_t,
}

#[cfg(unix)]
impl Blocked {
    fn all() -> Self {
        // SAFETY: live sets.
        unsafe {
            let (mut all, mut before) = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self { before }
        }
    }
}

#[cfg(unix)]
impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set that was in force.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}
