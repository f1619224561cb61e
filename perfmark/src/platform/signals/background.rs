//! perfmark's own threads.

use std::io;
use std::sync::Mutex;
use std::thread::{Builder, JoinHandle};

use super::blocked::BlockedSignals;
use crate::platform::per_process::PerProcess;
use crate::platform::thread_id::thread_id;
#[cfg(feature = "sampling")]
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

/// A forked child has none.
static OWN_THREADS: PerProcess<Mutex<OwnThreads>> = PerProcess::new();

/// Perfmark's own threads, which are not sampled.
#[derive(Default)]
struct OwnThreads {
    /// The kernel's numbers of those that live.
    alive: Vec<u32>,
    /// The CPU time in user mode of those that have ended since somebody asked for it, in nanoseconds. `None` before.
    #[cfg(feature = "sampling")]
    ended_ns: Option<u64>,
}

/// Whether it is one of perfmark's own threads.
#[cfg(feature = "sampling")]
pub(crate) fn is_own(thread: u32) -> bool {
    OWN_THREADS.lock().is_ok_and(|own| own.alive.contains(&thread))
}

/// The CPU time in user mode of perfmark's own threads until now, in nanoseconds, without those that ended before the
/// first call.
#[cfg(feature = "sampling")]
pub(crate) fn own_user_ns() -> u64 {
    let Ok(mut own) = OWN_THREADS.lock() else { return 0 };
    let of_ended = *own.ended_ns.get_or_insert(0);
    own.alive.iter().fold(of_ended, |sum, &thread| sum + thread_user_ns(thread))
}

/// The calling thread is perfmark's own as long as this lives.
struct OwnThread(u32);

impl OwnThread {
    fn new() -> Self {
        let thread = thread_id();
        if let Ok(mut own) = OWN_THREADS.lock() {
            own.alive.push(thread);
        }
        Self(thread)
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        if let Ok(mut own) = OWN_THREADS.lock() {
            own.alive.retain(|&thread| thread != self.0);
            #[cfg(feature = "sampling")]
            if let Some(ended) = &mut own.ended_ns {
                *ended += thread_user_ns(self.0);
            }
        }
    }
}

#[cfg(all(test, feature = "sampling", target_os = "linux", not(miri)))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn the_cpu_time_of_own_threads_remains_known_when_they_have_ended() {
        let (sender, receiver) = channel();
        let compute = move || {
            let computed = std::iter::repeat_with(|| thread_user_ns(thread_id())).find(|&time| time > 0);
            _ = sender.send(computed);
        };
        let before = own_user_ns();
        spawn("perfmark-test", compute).expect("started").join().expect("no panic");
        let computed = receiver.recv().expect("sent").expect("some");
        assert!(own_user_ns() >= before + computed);
    }
}
