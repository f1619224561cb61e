//! A thread that listens to signals.
#![allow(unsafe_code, reason = "a handler wakes a thread")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use signal_hook::SigId;
use signal_hook::low_level::{register, unregister};

use super::background;
use super::disposition::{has_action, set_blocked};
use super::handled::check;
use super::wakeup::Wakeup;

/// Listens to signals as long as it lives.
#[derive(Debug)]
pub(crate) struct Listener {
    signals: Vec<i32>,
    registered: Vec<SigId>,
    wakeup: Arc<Wakeup>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Keeps signals that come from now on for [`start`](Self::start).
    pub(crate) fn new(signals: &[i32]) -> io::Result<Self> {
        // Nothing changes if one cannot be handled.
        let checked = signals.iter().try_for_each(|&signal| check(signal));
        checked.map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let (wakeup, is_over) = (Wakeup::new()?, Arc::default());
        let mut listener = Self { signals: signals.to_vec(), registered: Vec::new(), wakeup, is_over, thread: None };
        for &signal in signals {
            let wakeup = listener.wakeup.clone();
            // SAFETY: the handler only posts to a semaphore, which is async-signal-safe.
            listener.registered.push(unsafe { register(signal, move || wakeup.post()) }?);
        }
        Ok(listener)
    }

    /// Calls `received` on a thread whenever one of the signals comes, or came.
    pub(crate) fn start(&mut self, received: impl Fn() + Send + 'static) -> io::Result<()> {
        let (signals, wakeup, is_over) = (self.signals.clone(), self.wakeup.clone(), self.is_over.clone());
        let listen = move || {
            // If all other threads block a signal, it comes here, and interrupts nothing.
            set_blocked(&signals, false);
            while wakeup.wait() && !is_over.load(Relaxed) {
                received();
            }
        };
        self.thread = Some(background::spawn("perfmark-signal", listen)?);
        Ok(())
    }
}

/// Leaves a signal to listeners: the calling thread and those that it starts block it, so that none of their system
/// calls is interrupted. Not if the program handles or ignores the signal, or blocks it itself.
pub(crate) fn leave_to_listeners(signal: i32) {
    if has_action(signal, libc::SIG_DFL) {
        set_blocked(&[signal], true);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.registered.drain(..).for_each(|id| _ = unregister(id));
        self.is_over.store(true, Relaxed);
        self.wakeup.post();
        _ = self.thread.take().map(JoinHandle::join);
    }
}
