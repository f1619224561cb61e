//! Passing signals on to the program.
//!
//! The terminal sends Ctrl-C and similar signals to the program as well as to this process. So only signals from
//! processes are passed on, once the program runs. Of those that come before, the last one is sent to it when it
//! starts: it ends the program, and this process still removes its temporary directories. Ignored signals stay ignored,
//! as under nohup(1), and the program inherits that. In the program, the signals that are handled here have their
//! default action (`execve(2)`).
#![allow(unsafe_code, reason = "signal handlers that receive the sender")]

use std::mem;
use std::ptr;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::SeqCst;

use libc::{c_int, c_void, pid_t, siginfo_t};

/// Signals that end a process that does not handle them, or that have a meaning for the program.
const PASSED_ON: [c_int; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
];

/// The program's process; 0 while there is none.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// The last signal that came while there was no program.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// The last signal that asked this process to end; 0 if there was none.
static ENDING: AtomicI32 = AtomicI32::new(0);

/// The last signal that asked this process to end, which a program may have survived.
pub(super) fn ending() -> Option<c_int> {
    Some(ENDING.load(SeqCst)).filter(|&signal| signal != 0)
}

/// Handles these signals, so that none of them ends this process.
pub(crate) fn pass_on() {
    for signal in PASSED_ON {
        // SAFETY: zeroed is a valid sigaction; the handler has the type that SA_SIGINFO requires, and calls nothing but
        // kill(2).
        unsafe {
            let mut before: libc::sigaction = mem::zeroed();
            libc::sigaction(signal, ptr::null(), &raw mut before);
            if before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = handle as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
}

extern "C" fn handle(signal: c_int, about: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel's description of the signal.
    let code = unsafe { (*about).si_code };
    if [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM].contains(&signal) {
        ENDING.store(signal, SeqCst);
    }
    match PROGRAM.load(SeqCst) {
        0 => EARLY.store(signal, SeqCst),
        // A code above 0 is the kernel's, such as for a key. A process sends SI_USER, SI_QUEUE or SI_TKILL.
        program if code <= 0 => send(program, signal),
        _ => {}
    }
}

fn send(program: pid_t, signal: c_int) {
    // SAFETY: no memory is touched. errno may change; only the wait of the standard library reads it here, at once
    // after its own call.
    unsafe { libc::kill(program, signal) };
}

/// Passes signals on until the program has ended. It is not reaped yet at that point, so no other process has its
/// number.
pub(crate) fn attend(program: u32) {
    let Ok(program) = pid_t::try_from(program) else { return };
    PROGRAM.store(program, SeqCst);
    match EARLY.swap(0, SeqCst) {
        0 => {}
        signal => send(program, signal),
    }
    loop {
        // SAFETY: live memory for the answer; WNOWAIT leaves the process as it is.
        let waited = unsafe {
            let mut about: siginfo_t = mem::zeroed();
            libc::waitid(libc::P_PID, program.unsigned_abs(), &raw mut about, libc::WEXITED | libc::WNOWAIT)
        };
        if waited == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            break;
        }
    }
    PROGRAM.store(0, SeqCst);
}
