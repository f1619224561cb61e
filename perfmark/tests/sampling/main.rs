//! Samples: each belongs to the call in which it was taken.
//!
//! Two loops have known addresses and shares, so that a sample in the wrong mark shows.
#![cfg(feature = "sampling")]

#[path = "../../../perfmark-rdpmc/tests/child/mod.rs"]
mod child;
mod cpu_time;
mod loops;
#[path = "../../../perfmark-rdpmc/tests/memory/mod.rs"]
mod memory;
mod sampled;

mod attribution;
mod calls;
mod cost;
mod counted;
mod libraries;
mod limits;
mod samplings;
mod short_threads;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Samplings belong to the process: while this is held, no other test that asks for it runs. In a process of its own,
/// each test would read the program's unwind tables again.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
