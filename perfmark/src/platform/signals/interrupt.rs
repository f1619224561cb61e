//! Work to do when SIGINT (Ctrl-C) is about to end the process.
#![allow(unsafe_code, reason = "a signal handler that wakes a thread")]

use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};

use libc::c_int;

use super::background;
use super::disposition::{has_action, set_blocked};
use crate::platform::alarm::Alarm;
use crate::platform::usage::monotonic_ns;

/// Wakes the thread.
static ALARM: Alarm = Alarm::new();
/// Whether [`prepare`] installed the handler.
static IS_PREPARED: AtomicBool = AtomicBool::new(false);
/// The process that has the thread; 0 before there is one. A forked child has none.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Handles SIGINT, unless the process ignores or handles it already. Until [`before_end`] has started the thread, the
/// handler only ends the process. A handler that the program installs later replaces this one, also if it calls the one
/// before.
#[expect(clippy::unnecessary_wraps, reason = "it fails on other systems")]
pub(crate) fn prepare() -> io::Result<()> {
    if has_action(libc::SIGINT, libc::SIG_DFL) {
        IS_PREPARED.store(true, Relaxed);
        install(HANDLER as usize);
    }
    Ok(())
}

/// Calls `work` on a thread when SIGINT comes, and then ends the process by SIGINT, as without this. Nothing changes if
/// SIGINT did not end the process before. A forked child ends without the work.
///
/// Called once in a process.
pub(crate) fn before_end(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    if !IS_PREPARED.load(Relaxed) {
        return Ok(());
    }
    background::spawn("perfmark-sigint", || {
        ALARM.wait(None);
        work();
        end();
    })?;
    // SAFETY: it only returns the process's number.
    PROCESS.store(unsafe { libc::getpid() }, Relaxed);
    Ok(())
}

const HANDLER: extern "C" fn(c_int) = handle;

fn install(action: usize) {
    // SAFETY: zeroes are a valid sigaction; `action` is SIG_DFL, or a handler of the type that no flag requires.
    unsafe {
        let mut all: libc::sigaction = mem::zeroed();
        all.sa_sigaction = action;
        all.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &raw const all, ptr::null_mut());
    }
}

/// When the first SIGINT came that requested the work, in nanoseconds of the monotonic clock; 0 before.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// Whether the user has waited for the work and sends SIGINT again. One Ctrl-C can send several, at about the same
/// time: the terminal's to the process group, and that of a parent to its child.
fn is_again() -> bool {
    const AT_ONCE: u64 = 1_000_000_000;
    let now = monotonic_ns().unwrap_or(0);
    let first = FIRST.compare_exchange(0, now, Relaxed, Relaxed);
    first.is_err_and(|first| now.saturating_sub(first) > AT_ONCE)
}

/// A further signal ends the process without the rest of the work, if it comes more than a second after the first.
extern "C" fn handle(_: c_int) {
    if !has_action(libc::SIGINT, HANDLER as usize) {
        // The program's handler called this one.
        return;
    }
    // SAFETY: getpid(2) is async-signal-safe, and changes no memory.
    if unsafe { libc::getpid() } == PROCESS.load(Relaxed) && !is_again() {
        return ALARM.wake();
    }
    // It takes effect when the handler returns.
    install(libc::SIG_DFL);
    // SAFETY: raise(3) is async-signal-safe.
    unsafe { libc::raise(libc::SIGINT) };
}

/// Ends the process by SIGINT.
fn end() {
    install(libc::SIG_DFL);
    // This thread blocks SIGINT until here.
    set_blocked(&[libc::SIGINT], false);
    // SAFETY: it takes no pointers.
    unsafe { libc::raise(libc::SIGINT) };
}
