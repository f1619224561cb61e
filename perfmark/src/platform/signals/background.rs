//! perfmark's own threads.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
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
#[derive(Default)]
struct OwnThreads(Mutex<Vec<u32>>);

static OWN_THREADS: PerProcess<OwnThreads> = PerProcess::new();

fn own_threads() -> Option<MutexGuard<'static, Vec<u32>>> {
    Some(OWN_THREADS.get().ok()?.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whether it is one of perfmark's own threads.
#[cfg(feature = "sampling")]
pub(crate) fn is_own(thread: u32) -> bool {
    own_threads().is_some_and(|own| own.contains(&thread))
}

/// The CPU time in user mode of those of perfmark's own threads that live, in nanoseconds.
#[cfg(feature = "sampling")]
pub(crate) fn own_user_ns() -> u64 {
    own_threads().map_or(0, |own| own.iter().map(|&thread| crate::platform::usage::thread_user_ns(thread)).sum())
}

/// The calling thread is perfmark's own as long as this lives.
struct OwnThread(u32);

impl OwnThread {
    fn new() -> Self {
        let thread = thread_id();
        if let Some(mut own) = own_threads() {
            own.push(thread);
        }
        Self(thread)
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        if let Some(mut own) = own_threads() {
            own.retain(|&thread| thread != self.0);
        }
    }
}
