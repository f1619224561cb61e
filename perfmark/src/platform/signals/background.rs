//! perfmark's own threads.

use std::io;
use std::thread::{Builder, JoinHandle};

use super::blocked::BlockedSignals;

/// Starts a thread on which all signals are blocked. A program that waits for a signal on one thread blocks it on all
/// threads that it knows, but it does not know this one.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let _signals = BlockedSignals::new();
    Builder::new().name(name.into()).spawn(work)
}
