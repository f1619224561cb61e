//! Samples: each belongs to the call in which it was taken.
//!
//! Two loops have known addresses and shares, so that a sample in the wrong mark shows.
#![cfg(feature = "sampling")]

#[path = "../alone/mod.rs"]
mod alone;
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

use std::sync::{Mutex, PoisonError};

/// Samplings belong to the process, and each snapshot has all samples that were taken before: tests run one after
/// another, in processes of their own. Returns whether the calling test has passed there.
fn passed_alone() -> bool {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    alone::passed_in_own_process()
}
