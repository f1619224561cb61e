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
    let starting = Starting::new();
    let work = || {
        let _own = OwnThread::new();
        drop(starting);
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
    /// The number of threads that are being started, and may live already.
    starting: usize,
    /// The CPU time in user mode of those that have ended since somebody asked for it, in nanoseconds. `None` before.
    #[cfg(feature = "sampling")]
    ended_ns: Option<u64>,
}

/// Perfmark's own threads. `None` while one is being started, whose number is not known yet.
#[cfg(feature = "sampling")]
pub(crate) fn own_threads() -> Option<Vec<u32>> {
    OWN_THREADS.lock().map_or(Some(Vec::new()), |own| (own.starting == 0).then(|| own.alive.clone()))
}

/// The CPU time in user mode of perfmark's own threads until now, in nanoseconds, without those that ended before the
/// first call.
#[cfg(feature = "sampling")]
pub(crate) fn own_user_ns() -> u64 {
    let Ok(mut own) = OWN_THREADS.lock() else { return 0 };
    let of_ended = *own.ended_ns.get_or_insert(0);
    own.alive.iter().fold(of_ended, |sum, &thread| sum + thread_user_ns(thread))
}

/// A thread is being started as long as this lives.
struct Starting;

impl Starting {
    fn new() -> Self {
        OWN_THREADS.lock().into_iter().for_each(|mut own| own.starting += 1);
        Self
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        OWN_THREADS.lock().into_iter().for_each(|mut own| own.starting = own.starting.saturating_sub(1));
    }
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

    #[test]
    fn a_thread_is_perfmarks_own_before_it_can_be_found() {
        for _ in 0..100 {
            let (sender, receiver) = channel();
            let (end, until_end) = channel::<()>();
            let work = move || {
                _ = sender.send(thread_id());
                _ = until_end.recv();
            };
            let thread = spawn("perfmark-test", work).expect("started");
            let own = own_threads();
            let id = receiver.recv().expect("sent");
            assert!(own.is_none_or(|own| own.contains(&id)));
            drop(end);
            thread.join().expect("no panic");
        }
    }
}
