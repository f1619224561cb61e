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
//! [`Event`]s are written as perf writes them, an [`Attr`] says how one is counted, a [`Counter`] or a [`Group`] counts on the thread that opened
//! it, a [`Reading`] is what it says at one moment, and a [`Delta`] what lies between two: exact, scaled because other events took the
//! counter for a part of the time, or unmeasured, which is not zero. Counts are of user mode unless the kernel's part is asked for. Linux on
//! x86-64, arm64 and riscv64; elsewhere the crate compiles, opening says that the target is not supported, and [`clock`] still tells the time.
//!
//! # Many short regions
//!
//! [`Counter::begin`] and [`Counter::end`] cost a fraction of two readings while the kernel leaves the counter alone:
//!
//! ```
//! use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Region};
//!
//! if let Ok(counter) = Counter::open(&Attr::new(Hardware::BranchMisses)) {
//!     let mut region = Region::default();
//!     for n in 0..100u64 {
//!         counter.begin(&mut region);
//!         std::hint::black_box(n.is_power_of_two());
//!         if let Delta::Exact(misses) = counter.end(&region) {
//!             println!("{n}: {misses}");
//!         }
//!     }
//! }
//! ```
//!
//! # A ratio
//!
//! Only events of one [`Group`] are counted at the same times, and may be divided by one another:
//!
//! ```
//! use perfmark_rdpmc::{Attr, Delta, Group, Hardware};
//!
//! match Group::open(&[Attr::new(Hardware::BranchMisses), Attr::new(Hardware::Branches)]) {
//!     Ok(group) => {
//!         let before = group.read()?;
//!         std::hint::black_box((0..1000u64).filter(|n| n.is_power_of_two()).count());
//!         if let [Delta::Exact(misses), Delta::Exact(branches)] = group.read()?.since(&before)[..] {
//!             println!("{:.1} % of the branches", 100.0 * misses as f64 / branches as f64);
//!         }
//!     }
//!     // A group with more events than the PMU has counters is told how many fit.
//!     Err(why) => eprintln!("{why}"),
//! }
//! # Ok::<(), perfmark_rdpmc::Error>(())
//! ```
//!
//! # More events than counters
//!
//! The kernel takes turns. Differences are scaled over the region, never over the counter's life, and say so:
//!
//! ```
//! use perfmark_rdpmc::{Attr, Counter, Delta, Hardware};
//!
//! let counters: Vec<Counter> = Hardware::ALL.iter().filter_map(|&event| Counter::open(&Attr::new(event)).ok()).collect();
//! for counter in &counters {
//!     let before = counter.read()?;
//!     std::hint::black_box(6 * 7);
//!     if let Delta::Scaled { estimate, counted } = counter.read()?.since(&before) {
//!         println!("{}: {counted} seen, some {estimate} in all", counter.event());
//!     }
//! }
//! # Ok::<(), perfmark_rdpmc::Error>(())
//! ```
//!
//! # Cache events, tracepoints, and all the others
//!
//! ```no_run
//! use perfmark_rdpmc::{Attr, Counter, Event};
//!
//! let misses: Event = "L1-dcache-load-misses".parse()?;
//! let reads: Event = "syscalls:sys_enter_read".parse()?; // a tracepoint: wants tracefs, so usually root
//! let raw: Event = "cpu/event=0xc4,umask=0x20/u".parse()?; // the PMU's own terms, as in /sys/bus/event_source/devices/cpu/format
//! for event in [misses, reads, raw] {
//!     println!("{}", Counter::open(&Attr::new(event))?.read()?.value);
//! }
//! # Ok::<(), perfmark_rdpmc::Error>(())
//! ```
//!
//! # Why can't I?
//!
//! Every [`Error`] says what was tried, what the kernel answered, why here, and what to do. [`support()`] tells all there is to tell of this
//! machine and process at once:
//!
//! ```
//! println!("{}", perfmark_rdpmc::support());
//! ```
//!
//! # Known limits
//!
//! When *root revokes user access while a program reads* (writes 0 to `kernel.perf_user_access`, or to
//! `/sys/bus/event_source/devices/cpu/rdpmc`), the next read may be an instruction that the processor refuses, and the program dies of SIGILL
//! or SIGSEGV: the page does not tell until its next update. No check prevents this, in any reader.
//!
//! *A program may close a counter's descriptor* (`close_range(3, ~0)`, as daemons do) and get its number for a socket.
//! Before each `read(2)`, request and `close`, the counter therefore checks by `fcntl(F_GETFL)` that the number is
//! still its own; each `read(2)` returns the event's id as well. At the first doubt the counter gives its descriptor up
//! for good: it neither reads nor closes it, [`Counter::read_syscall`] is an error, and regions that need it are
//! [`Delta::Unmeasured`]. User-space reads go on, as they need no descriptor while the event is on the PMU. Two things
//! remain:
//!
//! - If *another* thread closes the descriptor and opens a file in the instructions between the check and what follows
//!   it, one `read(2)` takes at most 32 bytes of that file (1,048 of a counter that reads a group) or blocks in it, or one `close`
//!   closes it. The bytes are never taken for a value.
//! - A file that the program itself made read-write, appending and non-blocking, and did not open by a path, such as a
//!   socket with `O_APPEND`, passes the check before a `read(2)`. It does not pass the one before a request or a
//!   `close`.
//!
//! The check costs a system call for each `read(2)`, about a third of it; a [`Group`] is read by one for all of its
//! events. Where a filter forbids `fcntl`, counters are
//! read in user space only.
//!
//! A child made by `fork` has no counters: its parent's are closed there at once, and say so when they are read. A child made by a bare
//! `clone(2)` or `vfork` must not touch its parent's counters. Nor may a fork handler begin or end regions or call [`Counter::read_user`] in the
//! child, if a library that was loaded before this crate registered it (`pthread_atfork(3)`): it runs before this crate's own.

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
mod rights;
mod event;
mod attr;
mod open;
mod read;
mod reading;
mod region;
mod part;
mod kinds;
mod counter;
mod counter_set;
mod control;
mod group;
mod group_read;
pub mod clock;
mod cost;
pub mod support;

pub use arch::known_loop;
pub use attr::{Attr, Field};
pub use control::{disable_all_of_thread, enable_all_of_thread};
pub use counter::Counter;
#[doc(hidden)]
pub use counter_set::CounterSet;
pub use error::Error;
pub use event::{
    Access, Breakpoint, Cache, CacheEvent, CacheOp, CacheResult, Encoding, Event, Hardware, Kind, ListedEvent,
    ListedField, ListedPmu, Modifier, Modifiers, Software, Term, Value,
};
pub use group::{Group, GroupReading};
#[doc(hidden)]
pub use group_read::GroupRead;
pub use machine::Machine;
pub use reading::{Delta, Reading};
pub use region::Region;
pub use support::{Support, support};
