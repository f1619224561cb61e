//! A thread that listens to signals.
#![allow(unsafe_code, reason = "a handler wakes a thread")]

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

/// Listens to signals as long as it lives.
#[derive(Debug)]
pub(crate) struct Listener {
    registered: Vec<SigId>,
    wakeup: Arc<Wakeup>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Calls `received` on its own thread whenever one of the signals came.
    pub(crate) fn start(signals: &[i32], received: impl Fn() + Send + 'static) -> io::Result<Self> {
        let wakeup = Wakeup::new()?;
        let mut listener = Self { registered: Vec::new(), wakeup: wakeup.clone(), thread: None };
        for &signal in signals {
            check(signal).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
            let wakeup = wakeup.clone();
            // SAFETY: the handler only posts to a semaphore, which is async-signal-safe.
            listener.registered.push(unsafe { register(signal, move || wakeup.post()) }?);
        }
        let listen = move || {
            while wakeup.wait() {
                received();
            }
        };
        listener.thread = Some(background::spawn("perfmark-signal", listen)?);
        Ok(listener)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.registered.drain(..).for_each(|id| _ = unregister(id));
        self.wakeup.is_over.store(true, Relaxed);
        self.wakeup.post();
        _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A semaphore. A handler may post to it to wake a thread (`signal-safety(7)`), and it needs no descriptor. In a forked
/// child it wakes nobody.
struct Wakeup {
    semaphore: UnsafeCell<libc::sem_t>,
    is_over: AtomicBool,
}

// SAFETY: semaphores may be shared between threads (`sem_overview(7)`).
unsafe impl Send for Wakeup {}
// SAFETY: the same.
unsafe impl Sync for Wakeup {}

impl std::fmt::Debug for Wakeup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wakeup")
    }
}

impl Wakeup {
    /// In an `Arc`, because a semaphore must not move.
    fn new() -> io::Result<Arc<Self>> {
        // SAFETY: zeroes are a valid `sem_t` until `sem_init` initializes it.
        let memory = unsafe { std::mem::zeroed() };
        let wakeup = Arc::new(Self { semaphore: UnsafeCell::new(memory), is_over: AtomicBool::new(false) });
        // SAFETY: live memory that nobody uses yet.
        let result = unsafe { libc::sem_init(wakeup.semaphore.get(), 0, 0) };
        if result == 0 { Ok(wakeup) } else { Err(io::Error::last_os_error()) }
    }

    fn post(&self) {
        // SAFETY: a live semaphore. It fails only after some two billion pending posts, and the thread wakes anyway.
        unsafe { libc::sem_post(self.semaphore.get()) };
    }

    /// Waits until it was posted at least once. Returns whether the listener continues.
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

impl Drop for Wakeup {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { libc::sem_destroy(self.semaphore.get()) };
    }
}
