//! Threads of the C library, which start and end without system calls of the standard library's. Also, the steps by
//! which a program's threads take turns.

use std::ffi::c_void;
use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

static STEP: AtomicU32 = AtomicU32::new(0);

/// Lets threads continue that wait for this step.
pub(crate) fn reach(step: u32) {
    STEP.store(step, SeqCst);
}

/// The current step.
pub(crate) fn step() -> u32 {
    STEP.load(SeqCst)
}

/// Waits without a system call.
pub(crate) fn wait_for(step: u32) {
    while self::step() < step {
        spin_loop();
    }
}

/// Starts a thread.
pub(crate) fn start(work: extern "C" fn(*mut c_void) -> *mut c_void) -> libc::pthread_t {
    let mut id = 0;
    // SAFETY: the function has that type.
    assert_eq!(unsafe { libc::pthread_create(&raw mut id, ptr::null(), work, ptr::null_mut()) }, 0);
    id
}

/// Waits for the end of a thread.
pub(crate) fn join(id: libc::pthread_t) {
    // SAFETY: the thread is one of this process, and is not joined yet.
    assert_eq!(unsafe { libc::pthread_join(id, ptr::null_mut()) }, 0);
}
