//! Threads of perfmark's own.

use std::io;
use std::thread::{Builder, JoinHandle};

use super::held_back::HeldBack;

/// A thread on which none of the program's signals is handled: a program that waits for one on a thread of its own has it blocked in all that it knows.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let _signals = HeldBack::new();
    Builder::new().name(name.into()).spawn(work)
}
