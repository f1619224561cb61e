//! A thread that hears of signals.
#![allow(unsafe_code, reason = "what wakes a thread from a handler")]

use std::cell::UnsafeCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use signal_hook::SigId;
use signal_hook::low_level::{register, unregister};

use super::background;
use super::handled::check;

/// Signals are heard of as long as it lives.
#[derive(Debug)]
pub(crate) struct Listener {
    registered: Vec<SigId>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Calls `heard` on a thread of its own whenever one of the signals came.
    pub(crate) fn start(signals: &[i32], heard: impl Fn() + Send + 'static) -> io::Result<Self> {
        let bell = Bell::new()?;
        let mut listener = Self { registered: Vec::new(), bell: bell.clone(), thread: None };
        for &signal in signals {
            check(signal).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
            let bell = bell.clone();
            // SAFETY: all that the handler does is to ring, which handlers may.
            listener.registered.push(unsafe { register(signal, move || bell.ring()) }?);
        }
        let listen = move || {
            while bell.wait() {
                heard();
            }
        };
        listener.thread = Some(background::spawn("perfmark-signal", listen)?);
        Ok(listener)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.registered.drain(..).for_each(|id| _ = unregister(id));
        self.bell.is_over.store(true, Relaxed);
        self.bell.ring();
        _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A semaphore: what handlers may do to wake a thread (`signal-safety(7)`), and no file. In a forked child it wakes nobody.
struct Bell {
    semaphore: UnsafeCell<libc::sem_t>,
    is_over: AtomicBool,
}

// SAFETY: semaphores are for threads.
unsafe impl Send for Bell {}
// SAFETY: the same.
unsafe impl Sync for Bell {}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bell")
    }
}

impl Bell {
    /// In its place for good, as a semaphore must be.
    fn new() -> io::Result<Arc<Self>> {
        // SAFETY: any memory, until it is made a semaphore.
        let memory = unsafe { std::mem::zeroed() };
        let bell = Arc::new(Self { semaphore: UnsafeCell::new(memory), is_over: AtomicBool::new(false) });
        // SAFETY: live memory that nobody uses yet.
        let result = unsafe { libc::sem_init(bell.semaphore.get(), 0, 0) };
        if result == 0 { Ok(bell) } else { Err(io::Error::last_os_error()) }
    }

    fn ring(&self) {
        // SAFETY: a live semaphore. One that was rung two thousand million times is no more: the thread wakes all the same.
        unsafe { libc::sem_post(self.semaphore.get()) };
    }

    /// Until it was rung, once or often; whether it is to go on.
    fn wait(&self) -> bool {
        // SAFETY: a live semaphore.
        while unsafe { libc::sem_wait(self.semaphore.get()) } != 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return false;
            }
        }
        // SAFETY: a live semaphore.
        while unsafe { libc::sem_trywait(self.semaphore.get()) } == 0 {}
        !self.is_over.load(Relaxed)
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // SAFETY: nobody has it any more.
        unsafe { libc::sem_destroy(self.semaphore.get()) };
    }
}
