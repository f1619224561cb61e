//! Reads the calling thread's Linux performance counters in user space.
//!
//! `perf_event_open(2)` gives a descriptor; its first mapped page tells which hardware counter the event occupies and what
//! to add to it. So a thread can read its own counters by one instruction (`rdpmc` on x86-64, `mrs` on arm64, `csrr` on riscv64) instead of a
//! system call, and falls back to `read(2)` for what the kernel alone can count.
//!
//! ```
//! use perfmark_rdpmc::{Counter, Delta, Event};
//!
//! match Counter::open(&"instructions".parse::<Event>()?.into()) {
//!     Ok(counter) => {
//!         let before = counter.read()?;
//!         let sum: u64 = (0..1000u64).map(std::hint::black_box).sum();
//!         match counter.read()?.since(&before) {
//!             Delta::Exact(n) => println!("{n} instructions for {sum}"),
//!             Delta::Scaled { estimate, .. } => println!("about {estimate} instructions for {sum}"),
//!             Delta::Unmeasured => println!("other events held the counters all the while"),
//!         }
//!     }
//!     // On a machine without a PMU, or without the right to use it: what was tried, what the kernel said, what to do.
//!     Err(why) => eprintln!("{why}"),
//! }
//! # Ok::<(), perfmark_rdpmc::Error>(())
//! ```
//!
//! Linux on x86-64, arm64 and riscv64. Elsewhere the crate compiles, [`Counter::open`] says that the target is not supported, and
//! [`clock`] still tells the time.
//!
//! # One known limit
//!
//! When *root revokes user access while a program reads* (writes 0 to `kernel.perf_user_access`, or to
//! `/sys/bus/event_source/devices/cpu/rdpmc`), the next read is an instruction that the processor refuses and the program dies
//! of SIGILL or SIGSEGV: the page does not tell until its next update. No check prevents this, in any reader.

#![deny(unsafe_code)]

// `libc::ENOENT` and the like then mean this crate's own.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
extern crate self as libc;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) use sys::errno::*;

mod error;
mod arch;
mod sys;
mod machine;
mod event;
mod attr;
mod open;
mod read;
mod reading;
mod region;
mod part;
mod counter;
mod control;
mod group;
pub mod clock;
pub mod support;

pub use arch::known_loop;
pub use attr::{Attr, Field};
pub use control::{disable_all_of_thread, enable_all_of_thread};
pub use counter::Counter;
pub use error::Error;
pub use event::{
    Access, Breakpoint, Cache, CacheEvent, CacheOp, CacheResult, Encoding, Event, Hardware, Kind, Modifier, Modifiers,
    Software, Term, Value,
};
pub use group::{Group, GroupReading};
pub use machine::Machine;
pub use reading::{Delta, Reading};
pub use region::Region;
pub use support::{Support, support};
