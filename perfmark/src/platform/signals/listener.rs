//! Handlers of signals, which wake a thread.
#![allow(unsafe_code, reason = "a handler wakes a thread")]

use std::io;
use std::sync::Arc;

use signal_hook::SigId;
use signal_hook::low_level::{register, unregister};

use super::disposition::has_action;
pub(crate) use super::disposition::set_blocked;
use super::handled::check;
use crate::platform::alarm::Alarm;

/// Handles signals as long as it lives.
#[derive(Debug)]
pub(crate) struct Listener(Vec<SigId>);

impl Listener {
    /// Wakes a thread when one of the signals comes.
    pub(crate) fn new(signals: &[i32], alarm: &Arc<Alarm>) -> io::Result<Self> {
        // Nothing changes if one cannot be handled.
        let checked = signals.iter().try_for_each(|&signal| check(signal));
        checked.map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let mut listener = Self(Vec::new());
        for &signal in signals {
            let alarm = Arc::clone(alarm);
            // SAFETY: the handler only wakes a thread, which is async-signal-safe.
            listener.0.push(unsafe { register(signal, move || alarm.wake()) }?);
        }
        Ok(listener)
    }
}

/// Leaves a signal to the thread of dumps: the calling thread and those that it starts block it, so that none of their
/// system calls is interrupted. Not if the program handles or ignores the signal, or blocks it itself.
pub(crate) fn leave_to_dumps(signal: i32) {
    if has_action(signal, libc::SIG_DFL) {
        set_blocked(&[signal], true);
    }
}

/// Lets a signal do nothing where its default action would end the program.
pub(crate) fn outlive(signal: i32) {
    if has_action(signal, libc::SIG_DFL) {
        // SAFETY: the handler does nothing.
        _ = unsafe { register(signal, || ()) };
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|id| _ = unregister(id));
    }
}
