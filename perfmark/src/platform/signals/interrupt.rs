//! Work to do when SIGINT (Ctrl-C) is about to end the process.
#![allow(unsafe_code, reason = "a signal handler that wakes a thread")]

use std::cell::UnsafeCell;
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use libc::c_int;

use super::background;

/// A semaphore that the handler posts to (`signal-safety(7)`). It needs no descriptor, which the program could close.
struct Wakeup(UnsafeCell<MaybeUninit<libc::sem_t>>);

// SAFETY: semaphores may be shared between threads (`sem_overview(7)`).
unsafe impl Sync for Wakeup {}

static WAKEUP: Wakeup = Wakeup(UnsafeCell::new(MaybeUninit::zeroed()));
/// The process that has the thread. A forked child does not.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Calls `work` on a thread when SIGINT comes, and then ends the process by SIGINT, as without this. It changes nothing
/// if SIGINT does not end the process now, and a handler that the program installs later replaces this one. A forked
/// child ends without the work.
///
/// Called once in a process.
pub(crate) fn before_end(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // SAFETY: zeroes are a valid sigaction, and the memory is live.
    let is_default = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        libc::sigaction(libc::SIGINT, ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_DFL
    };
    if !is_default {
        return Ok(());
    }
    // SAFETY: static memory that nobody uses yet.
    if unsafe { libc::sem_init(semaphore(), 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it only returns the process's number.
    PROCESS.store(unsafe { libc::getpid() }, Relaxed);
    background::spawn("perfmark-sigint", move || {
        // SAFETY: the initialized semaphore, which is never destroyed.
        while unsafe { libc::sem_wait(semaphore()) } != 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
        work();
        end();
    })?;
    install(handle as extern "C" fn(c_int) as usize);
    Ok(())
}

fn semaphore() -> *mut libc::sem_t {
    WAKEUP.0.get().cast()
}

fn install(action: usize) {
    // SAFETY: zeroes are a valid sigaction; `action` is SIG_DFL, or a handler of the type that no flag requires.
    unsafe {
        let mut all: libc::sigaction = mem::zeroed();
        all.sa_sigaction = action;
        all.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &raw const all, ptr::null_mut());
    }
}

/// Further signals while the work is done change nothing.
extern "C" fn handle(_: c_int) {
    // SAFETY: getpid(2) and sem_post(3) are async-signal-safe, and change no memory of the program except errno, which
    // sem_post changes only if it fails: after two billion signals.
    unsafe {
        if libc::getpid() == PROCESS.load(Relaxed) {
            libc::sem_post(semaphore());
        } else {
            // It takes effect when the handler returns.
            install(libc::SIG_DFL);
            libc::raise(libc::SIGINT);
        }
    }
}

/// Ends the process by SIGINT.
fn end() {
    install(libc::SIG_DFL);
    // SAFETY: a live set of signals; this thread blocks SIGINT until here.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        libc::raise(libc::SIGINT);
    }
}
