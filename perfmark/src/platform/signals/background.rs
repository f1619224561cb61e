//! perfmark's own threads.

use std::io;
use std::sync::Mutex;
use std::thread::{Builder, JoinHandle};

use super::blocked::BlockedSignals;
use crate::platform::per_process::PerProcess;
use crate::platform::thread_id::thread_id;

/// Starts a thread on which all signals are blocked. A program that waits for a signal on one thread blocks it on all
/// threads that it knows, but it does not know this one.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let _signals = BlockedSignals::new();
    let work = || {
        let _own = OwnThread::new();
        work();
    };
    Builder::new().name(name.into()).spawn(work)
}

/// The kernel's numbers of perfmark's own threads, which are not sampled. A forked child has none.
static OWN_THREADS: PerProcess<Mutex<Vec<u32>>> = PerProcess::new();

/// Whether it is one of perfmark's own threads.
#[cfg(feature = "sampling")]
pub(crate) fn is_own(thread: u32) -> bool {
    OWN_THREADS.lock().is_ok_and(|own| own.contains(&thread))
}

/// The CPU time in user mode of those of perfmark's own threads that live, in nanoseconds.
#[cfg(feature = "sampling")]
pub(crate) fn own_user_ns() -> u64 {
    OWN_THREADS.lock().map_or(0, |own| own.iter().map(|&thread| crate::platform::usage::thread_user_ns(thread)).sum())
}

/// The calling thread is perfmark's own as long as this lives.
struct OwnThread(u32);

impl OwnThread {
    fn new() -> Self {
        let thread = thread_id();
        if let Ok(mut own) = OWN_THREADS.lock() {
            own.push(thread);
        }
        Self(thread)
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        if let Ok(mut own) = OWN_THREADS.lock() {
            own.retain(|&thread| thread != self.0);
        }
    }
}
