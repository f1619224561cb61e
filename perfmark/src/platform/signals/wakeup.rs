//! A semaphore with which a signal handler wakes a thread (`signal-safety(7)`). It needs no descriptor, which the
//! program could close.
#![allow(unsafe_code, reason = "a semaphore of the C library")]

use std::cell::UnsafeCell;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::mem;
use std::sync::Arc;

/// In a forked child it wakes nobody.
pub(super) struct Wakeup(UnsafeCell<libc::sem_t>);

// SAFETY: semaphores may be shared between threads (`sem_overview(7)`).
unsafe impl Send for Wakeup {}
// SAFETY: semaphores may be shared between threads (`sem_overview(7)`).
unsafe impl Sync for Wakeup {}

impl Debug for Wakeup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Wakeup")
    }
}

impl Wakeup {
    /// In an `Arc`, because a semaphore must not move.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        // SAFETY: zeroes are a valid `sem_t` until `sem_init` initializes it.
        let wakeup = Arc::new(Self(UnsafeCell::new(unsafe { mem::zeroed() })));
        // SAFETY: live memory that nobody uses yet.
        let result = unsafe { libc::sem_init(wakeup.0.get(), 0, 0) };
        if result == 0 { Ok(wakeup) } else { Err(io::Error::last_os_error()) }
    }

    /// A handler may call it. It changes errno only if it fails: after some two billion posts, when the thread wakes
    /// anyway.
    pub(super) fn post(&self) {
        // SAFETY: a live semaphore.
        unsafe { libc::sem_post(self.0.get()) };
    }

    /// Waits until it was posted at least once. Returns whether it was.
    pub(super) fn wait(&self) -> bool {
        // SAFETY: a live semaphore.
        while unsafe { libc::sem_wait(self.0.get()) } != 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return false;
            }
        }
        // SAFETY: a live semaphore.
        while unsafe { libc::sem_trywait(self.0.get()) } == 0 {}
        true
    }
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { libc::sem_destroy(self.0.get()) };
    }
}
