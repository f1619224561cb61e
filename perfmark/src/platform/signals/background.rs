//! perfmark's own threads.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::blocked::BlockedSignals;
use crate::platform::per_process::PerProcess;
use crate::platform::thread_id::thread_id;
use crate::platform::usage::thread_user_ns;

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

/// perfmark's own threads, which are not sampled. A forked child has none.
#[derive(Default)]
struct OwnThreads(Mutex<Own>);

#[derive(Default)]
struct Own {
    /// The kernel's numbers of those that live.
    live: BTreeSet<u32>,
    /// The CPU time in user mode of those that have ended.
    ended_ns: u64,
}

static OWN_THREADS: PerProcess<OwnThreads> = PerProcess::new();

fn own_threads() -> Option<MutexGuard<'static, Own>> {
    Some(OWN_THREADS.get().ok()?.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whether it is one of perfmark's own threads.
#[cfg(feature = "sampling")]
pub(crate) fn is_own(thread: u32) -> bool {
    own_threads().is_some_and(|own| own.live.contains(&thread))
}

/// The CPU time of perfmark's own threads in user mode, in nanoseconds.
#[cfg(feature = "sampling")]
pub(crate) fn own_user_ns() -> u64 {
    own_threads().map_or(0, |own| own.live.iter().map(|&thread| thread_user_ns(thread)).sum::<u64>() + own.ended_ns)
}

/// The calling thread is perfmark's own as long as this lives.
struct OwnThread(u32);

impl OwnThread {
    fn new() -> Self {
        let thread = thread_id();
        own_threads().map(|mut own| own.live.insert(thread));
        Self(thread)
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        if let Some(mut own) = own_threads() {
            own.ended_ns += thread_user_ns(self.0);
            own.live.remove(&self.0);
        }
    }
}
