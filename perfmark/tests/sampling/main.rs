//! Samples: each belongs to the call in which it was taken.
//!
//! Two loops have known addresses and shares, so that a sample in the wrong mark shows.
#![cfg(all(feature = "sampling", target_os = "linux"))]

#[path = "../alone/mod.rs"]
mod alone;
mod loops;
mod pages;
mod sampled;

mod attribution;
mod calls;
mod cost;
mod limits;
mod samplings;
