//! Reads the calling thread's Linux performance counters in user space, and those of other threads, of CPUs and of
//! cgroups by `read(2)`.
//!
//! `perf_event_open(2)` returns a descriptor. The first page mapped from it names the hardware counter that the event
//! uses, and the value to add to that counter. A thread can therefore read its own counters with one instruction
//! instead of a system call: `rdpmc` on x86-64, `mrs` on arm64, `csrr` on riscv64. Software events, such as
//! `page-faults`, are read by `read(2)`.
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
//!             Delta::Unmeasured => println!("other events used the counters the whole time"),
//!         }
//!     }
//!     // Without a PMU, or without permission to use it: the system call, its errno, the likely cause, the remedy.
//!     Err(why) => eprintln!("{why}"),
//! }
//! # Ok::<(), perfmark_rdpmc::Error>(())
//! ```
//!
//! [`Event`]s use perf's syntax. An [`Attr`] specifies how an event is counted. A [`Counter`] or a [`Group`] counts on
//! the thread that opened it. A [`Reading`] is its value at one moment. A [`Delta`] is the difference of two readings:
//! exact; scaled, because other events used the counter for part of the time; or unmeasured, which is not zero.
//!
//! Counts cover user mode only, unless kernel mode is requested as well. Supported platforms are Linux on x86-64, arm64
//! and riscv64. On other platforms the crate compiles, opening a counter fails with an error that says so, and
//! [`clock`] still works.
//!
//! # Many short regions
//!
//! [`Counter::begin`] and [`Counter::end`] cost a fraction of two readings while the kernel leaves the counter alone.
//!
//! # Ratios
//!
//! Only events of one [`Group`] are counted during exactly the same time. Divide only their values by one another.
//!
//! # More events than counters
//!
//! The kernel multiplexes the events. A difference is then scaled over its own region, never over the counter's
//! lifetime, and is marked as scaled:
//!
//! ```
//! use perfmark_rdpmc::{Attr, Counter, Delta, Hardware};
//!
//! let open = |&event| Counter::open(&Attr::new(event)).ok();
//! let counters: Vec<Counter> = Hardware::ALL.iter().filter_map(open).collect();
//! for counter in &counters {
//!     let before = counter.read()?;
//!     std::hint::black_box(6 * 7);
//!     if let Delta::Scaled { estimate, counted } = counter.read()?.since(&before) {
//!         println!("{}: {counted} counted, about {estimate} in total", counter.event());
//!     }
//! }
//! # Ok::<(), perfmark_rdpmc::Error>(())
//! ```
//!
//! # Cache events, tracepoints, and others
//!
//! ```no_run
//! use perfmark_rdpmc::{Attr, Counter, Event};
//!
//! let misses: Event = "L1-dcache-load-misses".parse()?;
//! // A tracepoint: requires access to tracefs, which usually only root has.
//! let reads: Event = "syscalls:sys_enter_read".parse()?;
//! // The PMU's own terms, as in /sys/bus/event_source/devices/cpu/format.
//! let raw: Event = "cpu/event=0xc4,umask=0x20/u".parse()?;
//! for event in [misses, reads, raw] {
//!     println!("{}", Counter::open(&Attr::new(event))?.read()?.value);
//! }
//! # Ok::<(), perfmark_rdpmc::Error>(())
//! ```
//!
//! # Other threads, CPUs and cgroups
//!
//! A [`TargetCounter`] or a [`TargetGroup`] counts what a [`Target`] does: another thread or process, an entire CPU, or
//! a cgroup. Each reading is a `read(2)`, by any thread.
//!
//! # Samples
//!
//! Module [`sample`] takes samples of any of these events: where the program was, how it got there, which address it
//! accessed. The kernel writes them to a ring in memory, which any thread of the process reads without a system call.
//! The ring also has other records, for example when the thread left its CPU and when it came back. The module's
//! documentation has examples of samples and of context switches.
//!
//! # Signals, and starting and stopping
//!
//! A sampled thread can get a signal for each sample. [`disable_all_of_thread`] stops everything that a thread opened:
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use std::sync::atomic::AtomicU32;
//! use std::sync::atomic::Ordering::Relaxed;
//!
//! use perfmark_rdpmc::sample::Sampler;
//! use perfmark_rdpmc::{Attr, Software, disable_all_of_thread, enable_all_of_thread};
//!
//! static OVERFLOWS: AtomicU32 = AtomicU32::new(0);
//!
//! extern "C" fn overflow(_: libc::c_int) {
//!     OVERFLOWS.fetch_add(1, Relaxed);
//! }
//!
//! // SAFETY: the handler only adds to a number.
//! unsafe { libc::signal(libc::SIGUSR1, overflow as extern "C" fn(libc::c_int) as libc::sighandler_t) };
//! let clock = Attr::new(Software::TaskClock);
//! if let Ok(ring) = Sampler::new(clock).period(100_000).wakeup_events(1).signal(libc::SIGUSR1).open() {
//!     std::hint::black_box((0..1_000_000_u64).filter(|n| n.is_power_of_two()).count());
//!     disable_all_of_thread()?;
//!     println!("{} signals in {} ns", OVERFLOWS.load(Relaxed), ring.count()?.value);
//!     enable_all_of_thread()?;
//! }
//! # }
//! # Ok::<(), perfmark_rdpmc::Error>(())
//! ```
//!
//! # The parts of `perf_event_open(2)`
//!
//! | in the manual | here |
//! |---|---|
//! | `pid`, `cpu`, `PERF_FLAG_PID_CGROUP` | [`Target`] |
//! | `struct perf_event_attr` | [`Attr`], [`Field`], [`sample::Sampler`] |
//! | `group_fd`, `PERF_FORMAT_*` | [`Group`], [`TargetGroup`], [`sample::ReadFormat`] |
//! | the first page, `rdpmc` | [`Counter::read_user`], [`Page`], [`clock::KernelClock`] |
//! | records, `PERF_SAMPLE_*`, AUX | [`sample::Record`], [`sample::Content`], [`sample::Reader::aux`] |
//! | overflow, `poll(2)`, signals | [`sample::wait`], [`sample::Sampler::signal`], `AsFd` of counters and rings |
//! | `ioctl(2)` requests, `prctl(2)` | methods of [`Counter`], [`TargetCounter`], [`TargetGroup`] and [`sample::Ring`], [`disable_all_of_thread`] |
//! | files in `/proc` and `/sys`, errors | [`Support`], [`Machine`], [`Error`] |
//!
//! `tests/manual.txt` lists these parts in detail, each with its test. `cargo run --release -p perfmark-rdpmc --example
//! manual` does what the manual's own programs do: counters, a group, a ring, signals, `prctl`. The example `page`
//! reads a counter in user space.
//!
//! # When an event cannot be counted
//!
//! Every [`Error`] names the event, the likely cause on this machine, and the remedy; where the kernel refused, also
//! the system call and its errno. [`support()`] checks everything at once: what this process can count on this machine,
//! what prevents the rest, and how to allow it:
//!
//! ```
//! println!("{}", perfmark_rdpmc::support());
//! ```
//!
//! # Stability
//!
//! Items that this documentation does not show (`#[doc(hidden)]`) are for perfmark only, and not covered by this
//! crate's stability promise.
//!
//! # Known limits
//!
//! *Root revokes user access while a program reads*, by writing 0 to `kernel.perf_user_access` or to
//! `/sys/bus/event_source/devices/cpu/rdpmc`. The page does not show this until its next update. Until then the
//! processor may refuse the read instruction, and the program is killed by SIGILL or SIGSEGV. No check in any reader
//! can prevent this.
//!
//! *A program closes a counter's descriptor* (daemons call `close_range(3, ~0)`), and later gets the same number for a
//! socket. Before each `read(2)`, request and `close`, the counter therefore checks with `fcntl(F_GETFL)` that the
//! number is still its own. Each `read(2)` also returns the event's id. If a check fails, the counter gives up its
//! descriptor permanently: it neither reads nor closes it, [`Counter::read_syscall`] returns an error, and regions that
//! need it are [`Delta::Unmeasured`]. User-space reads continue, because they need no descriptor while the event is on
//! the PMU. Two risks remain:
//!
//! - *Another* thread closes the descriptor and opens a file in the few instructions between the check and the
//!   operation. Then one `read(2)` takes at most 32 bytes of that file (1,560 for what reads a group) or blocks in it,
//!   or one `close` closes it. These bytes are never used as a value.
//! - The program has a file that is read-write, appending and non-blocking, and was not opened by a path, for example a
//!   socket with `O_APPEND`. It passes the check before a `read(2)`. It does not pass the check before a request or a
//!   `close`.
//!
//! The check is one more system call for each `read(2)`, and adds about a third to its cost. A [`Group`] needs one
//! check for all its events. Where a filter forbids `fcntl`, counters are read in user space only.
//!
//! A child made by `fork` has no counters and no rings: the parent's are closed there immediately, and reading them
//! returns an error. A child made by a bare `clone(2)` must not use its parent's counters; rings return an error there
//! as well. A child that shares its parent's memory (`vfork`, or `CLONE_VM`) must use neither: its parent's rings are
//! mapped there, and what it reads is missing in the parent.
//!
//! Fork handlers (`pthread_atfork(3)`) of a library that was loaded before this crate run in the child before this
//! crate's own handler. They must not begin or end regions or call [`Counter::read_user`].

#![deny(unsafe_code)]

// On this target, `libc::ENOENT` and other error numbers are this crate's own constants.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
extern crate self as libc;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) use sys::errno::*;

mod error;
mod target;
mod arch;
mod sys;
mod machine;
mod rights;
mod locked_memory;
mod event;
mod attr;
mod flags;
mod open;
mod read;
mod reading;
mod region;
mod source;
mod pmu_event;
mod kinds;
mod counter;
mod group;
mod page;
mod control;
pub mod sample;
mod off_cpu;
mod emulated_counter;
mod counter_set;
mod group_read;
mod target_counter;
mod target_group;
#[cfg(all(unix, not(perfmark_scripted)))]
mod descriptors;
#[cfg(all(unix, not(perfmark_scripted)))]
mod bpf;
pub mod clock;
mod cost;
pub mod support;

pub use arch::known_loop;
pub use attr::{Attr, Field};
pub use control::{disable_all_of_thread, enable_all_of_thread};
pub use counter::Counter;
#[doc(hidden)]
pub use counter_set::CounterSet;
pub use emulated_counter::EmulatedCounter;
#[doc(hidden)]
pub use emulated_counter::EmulatedCounts;
pub use error::Error;
pub use event::{
    Access, Breakpoint, Cache, CacheEvent, CacheOp, CacheResult, Encoding, Event, Hardware, Kind, ListedEvent,
    ListedField, ListedPmu, Modifier, Modifiers, Software, Term, Value,
};
// For the messages of perfmark's attribute.
#[doc(hidden)]
pub use event::{difference, nearest};
pub use group::{Group, GroupReading};
#[doc(hidden)]
pub use group_read::GroupRead;
pub use machine::Machine;
pub use off_cpu::{OffCpu, OffCpuReading, OffCpuTime};
pub use page::Page;
pub use reading::{Delta, Reading};
pub use region::Region;
pub use support::{Support, support};
#[cfg(perfmark_scripted)]
pub use sys::script;
pub use target::Target;
pub use target_counter::TargetCounter;
pub use target_group::TargetGroup;
