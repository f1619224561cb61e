//! Put `#[perfmark]` on a function and learn what each of its calls costs, in the machine's own counters, inside the
//! running program.
//!
//! ```
//! use perfmark::perfmark;
//!
//! #[perfmark(cycles, instructions)]
//! fn checksum(bytes: &[u8]) -> u32 {
//!     bytes.iter().fold(0, |sum, &byte| sum.rotate_left(5) ^ u32::from(byte))
//! }
//!
//! # fn main() {
//! println!("{}", checksum(b"some bytes"));
//! // That is all: when the program ends, a table of its calls goes to stderr.
//! # }
//! ```
//!
//! There is nothing to start, hold or send. A mark registers before `main`. Each call reads the thread's counters at
//! entry and exit, in user space where the kernel allows it, and adds the differences to that thread's histograms. The
//! report is written when `main` returns, when a panic unwinds it, or at `process::exit`. [`snapshot()`] returns the
//! same values at any time.
//!
//! On Linux on x86-64, arm64 and riscv64 it counts the events that [`perfmark_rdpmc`] can open. On other systems, and
//! on machines without counters, it records time, and the report says why.
//!
//! The [`guide`] explains how to read the table, choose events, compare runs, run a service for months, get the rights
//! to count, and how accurate the values are.
//!
//! # Environment variables
//!
//! perfmark reads them once before `main`. It reports a wrong value on stderr with the valid ones, and uses the
//! default.
//!
//! - `PERFMARK`: `on` or `off`. `off` records nothing; a call of a mark then costs a load and a branch. The default is
//!   `on`.
//! - `PERFMARK_EVENTS`: the events of a bare `#[perfmark]`, separated by commas. The default is
//!   `time,cycles,instructions`. With `time` alone, all marks record time only, and no counter is opened, whatever
//!   events marks name ([`open_no_counters`]).
//! - `PERFMARK_FILTER`: which marks record, which events, and one call in how many, such as
//!   `app::parser,app::parser::token=every:64` (see [`Filter`]). By default all marks record as they are written.
//! - `PERFMARK_OUTPUT`: a file, which is replaced atomically. In its name, `%p` is the process number and `%u` is a
//!   token that no other process has. `-` is stdout. The default is stderr.
//! - `PERFMARK_FORMAT`: `table`, `json`, `csv`, `markdown`, `html`, `folded`, `svg` or `openmetrics` ([`Format`]). The
//!   default is `table`.
//! - `PERFMARK_DUMP_INTERVAL`: an interval in seconds, at which the file of `PERFMARK_OUTPUT` is also replaced while
//!   the program runs ([`Dumps`]). A forked child, such as a daemon, writes no dumps. By default there are none.
//! - `PERFMARK_DUMP_SIGNAL`: a signal, such as `USR1`, at which the file is also replaced. It requires the feature
//!   `signal`. By default there is none.
//! - `PERFMARK_CALL_GRAPH`: `on` also records the call graph ([`Snapshot::call_graph`]); calls then take the slow path.
//!   The default is `off`.
//! - `PERFMARK_READ`: how hardware counters are read. `auto` takes the cheaper way, `user` reads in user space wherever
//!   it is allowed, `syscall` uses read(2). The default is `auto`.
//!
//! A library that contains its own copy of perfmark, or another version of perfmark in the same program, records
//! separately and writes its own report. The file of the second copy in the process has `.copy-2` appended to its name.
//! A library that contains perfmark stays in memory when it is closed.
//!
//! # Features
//!
//! - `record` (default): records calls. Without it, a marked function is the function as written.
//! - `json` (default): the JSON report.
//! - `html`: the report as a page for a browser, with a table, distributions and the call graph.
//! - `serde`: `serde::Serialize` and `Deserialize` for [`Snapshot`], in the form of the JSON report.
//! - `csv`: the report as CSV.
//! - `flamegraph`: the report as a flame graph.
//! - `prometheus`: `Metrics` for a `prometheus-client` registry, and the report as `OpenMetrics`.
//! - `exporter`: `Exporter`, a small server of these metrics. By default it listens on this machine only.
//! - `signal`: [dumps](Dumps) when the process receives a signal.
//! - `criterion`: `Measure`, which lets `criterion` measure any event.
//! - `cli`: the command line `perfmark`, for `cargo install perfmark --features cli`. It shows, merges and compares
//!   reports. A program does not need it.
//!
//! A library should depend on perfmark with `default-features = false`: its marked functions are then the functions as
//! written. The program that links the library enables the default features to record them. `RUSTFLAGS="--cfg
//! perfmark_off"` turns recording off for the whole build.
//!
//! A mark in a crate to which nothing else in the program refers is not known before `main`; it is listed from its
//! first call on. So is a mark outside the shared library that contains perfmark, where Rust libraries are linked
//! dynamically (`-C prefer-dynamic`).
//!
//! # In production
//!
//! A program writes its report when it ends by itself. A program that is killed, aborts, calls `_exit` or executes
//! another program by `exec` leaves its last [dump](Dumps). A forked child closes the counters that it inherited,
//! starts empty, and writes its own report. The values of threads that end are kept; their other resources are
//! released.
//!
//! If counters cannot be opened on some threads, because descriptors, locked memory or rights are missing, the calls on
//! these threads are unmeasured, and a note gives the reason. Signals of a thread are blocked while perfmark does its
//! rare work: a thread's first call of a mark, the thread's end, a snapshot.
//!
//! # What the values mean
//!
//! Counts are of user mode. A call is the function's body and its locals, with the marked calls inside it; `self`
//! excludes those. Totals of a recursive function cover its outermost calls. If other events used a call's counter for
//! part of the time, its value is scaled, and the report counts it as scaled. If the counter did not run at all, the
//! call is unmeasured. A call that a panic ended is in no distribution; its cost is in a separate row. The probe
//! overhead is measured once for each set of events, and subtracted from the call and from the marked calls around it.
//! If it could not be measured, a note says so. Totals and self that include unmeasured calls are estimates, and have a
//! `≈` before them.

#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod path;
mod tree;
mod snapshot;
#[cfg(feature = "record")]
mod per_process;
#[cfg(feature = "record")]
mod events;
mod filter;
#[cfg(feature = "criterion")]
pub use self::criterion::Measure;
#[cfg(feature = "record")]
pub use dumps::{Dumping, Dumps};
#[cfg(feature = "exporter")]
pub use exporter::{Exporter, Exporting};
pub use filter::{Filter, FilterError, SetFilterError};
#[cfg(feature = "record")]
pub use measure::{Count, MeasureError, Measured, measure};
/// Sets the events and options of a crate's marks that do not specify their own. Write it once in a crate, in any
/// module.
///
/// ```standalone_crate
/// perfmark::defaults!(cycles, instructions, every = 61);
///
/// /// Cycles and instructions, of one call in 61.
/// #[perfmark::perfmark]
/// fn hash(key: u64) -> u64 {
///     key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
/// }
///
/// /// The time of one call in 61.
/// #[perfmark::perfmark(time)]
/// fn parse(text: &str) -> Option<u64> {
///     text.trim().parse().ok()
/// }
/// # fn main() {
/// # assert_eq!(parse(" 7 ").map(|key| hash(key) != 7), Some(true));
/// # }
/// ```
///
/// It takes what [`perfmark`](macro@perfmark) takes, except `name` and `generic`. The events of `PERFMARK_EVENTS` take
/// precedence over its events. It applies to the crate that the module's path begins with, so a package's library and
/// its program of the same name share their defaults. If it is given twice, perfmark uses the first in the source, and
/// the report says so.
pub use perfmark_macros::defaults;
/// Measures each call of a function or method, or of all functions in an `impl`, a `trait` or an inline `mod`.
///
/// Functions may be generic, `unsafe`, `extern`, in a trait or an `impl`, and have any signature.
///
/// ```
/// use perfmark::perfmark;
///
/// /// The default events: time, cycles, instructions. The report says which of them this machine cannot count.
/// #[perfmark]
/// fn parse(text: &str) -> Option<u64> {
///     text.trim().parse().ok()
/// }
///
/// struct Table(Vec<u64>);
///
/// impl Table {
///     /// Exactly these events, under its own name; time, if none of them is available.
///     #[perfmark(branch_misses, page_faults, name = "table lookup")]
///     fn find(&self, key: u64) -> Option<usize> {
///         self.0.iter().position(|&entry| entry == key)
///     }
/// }
///
/// assert_eq!(parse(" 7 ").and_then(|key| Table(vec![5, 7]).find(key)), Some(1));
/// ```
///
/// Events are `time`, and perf's names with underscores for hyphens: `cache_misses`, `task_clock`, raw events as
/// `r01c2`. In quotes they have perf's complete grammar (`"cpu/event=0xc2,umask=1/"`, `"mem:0x1000/8:w"`,
/// `"cycles:k"`): see [`perfmark_rdpmc::Event`]. The compiler checks the grammar; the report says which events the
/// machine has. A call of a mark costs some 90 instructions with `time` alone, 140 with two events that hardware
/// counts, and some 35 more for each further event. Events that only the kernel counts (`page_faults`) cost an
/// `fcntl(2)` and a `read(2)` at entry and at exit, whatever their number.
///
/// # Options
///
/// - `name = "…"`: the report shows this name. It costs nothing.
/// - `kernel`: also counts the kernel's part of each event, where the machine allows it. It costs nothing.
/// - `generic`: each set of a generic function's types has its own row, and so has each implementor of a trait's
///   default method. It costs a look-up at each call, of some 20 instructions however many types there are.
/// - `crate = path`: the path of this crate, if it is renamed or re-exported by another. It costs nothing.
/// - `every = N`: measures one call in `N`, drawn at random, and counts all calls. A call that is not measured costs
///   some 40 instructions instead of 140 (with two events), and the other marks of that thread some 20 more each.
/// - `fence`: lets the processor finish the instructions before each reading (`lfence`, `isb`). A call's values then
///   include no work of its neighbours and all of its own. It costs three times what the processor needs for that: a
///   `time` mark costs 3.0 pairs of tick reads instead of 1.5.
///
/// `every` is for functions that are so short, and called so often, that even the probe overhead is too much. Of each
/// `N` calls in a row on a thread, one is drawn at random and measured, and counts as `N`. Totals, and self of the
/// calls around it, are then unbiased estimates, and flagged. Do not use it on recursive functions: a skipped call is
/// not visible to the calls inside it, so totals count these again.
///
/// `fence` is for regions of some hundred cycles. A processor that executes out of order does parts of such a region
/// before or after the readings. The fence also keeps the marked function from overlapping with its neighbours, which
/// makes it slower. That cost is not probe overhead, and perfmark does not subtract it.
///
/// ```
/// use perfmark::perfmark;
///
/// #[perfmark(time, every = 61)]
/// fn hash(key: u64) -> u64 {
///     key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
/// }
///
/// let hashes: u64 = (0..610).map(hash).fold(0, u64::wrapping_add);
/// # assert_ne!(hashes, 0);
/// # #[cfg(feature = "record")]
/// # {
/// let snapshot = perfmark::snapshot();
/// let hash = snapshot.marks.iter().find(|mark| mark.name == "hash").expect("it was called");
/// assert_eq!((hash.calls, hash.values[0].measured), (610, 10));
/// # }
/// ```
///
/// # All functions in an `impl`, a `trait` or a `mod`
///
/// Each function gets the attribute, and so do the `impl`s and modules inside a module, except functions that cannot be
/// marked. A function's own attribute takes precedence, and `#[perfmark(skip)]` leaves a function out.
///
/// ```
/// use perfmark::perfmark;
///
/// struct Cache(Vec<(u64, u64)>);
///
/// #[perfmark(instructions, cache_misses)]
/// impl Cache {
///     const fn new() -> Self {
///         Self(Vec::new())
///     }
///
///     fn find(&self, key: u64) -> Option<u64> {
///         self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
///     }
///
///     #[perfmark(skip)]
///     fn insert(&mut self, key: u64, value: u64) {
///         self.0.push((key, value));
///     }
/// }
///
/// let mut cache = Cache::new();
/// cache.insert(1, 2);
/// assert_eq!((cache.find(1), cache.find(2)), (Some(2), None));
/// ```
///
/// # Async functions
///
/// A call of an `async fn`, or of a function whose last expression is an async block or `Box::pin(async …)`, is the sum
/// of its polls, on whichever threads they run. Nothing is counted between polls. The report shows the number of
/// [polls](snapshot::Mark::polls). A future that is dropped before it is ready is a
/// [cancelled](snapshot::Mark::cancelled) call, in no distribution. A future that was never polled is not a call. A
/// call of one poll costs some 200 instructions with two events. A marked future has up to 64 bytes more than an
/// unmarked one, on every executor.
///
/// ```
/// use perfmark::perfmark;
///
/// #[perfmark(time, instructions)]
/// async fn answer(question: String) -> usize {
///     std::future::ready(question.len()).await
/// }
///
/// # use std::pin::pin;
/// # use std::task::{Context, Poll, Waker};
/// let mut call = pin!(answer("why".into()));
/// assert_eq!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(3));
/// ```
///
/// The arguments are dropped in the last poll, so the call includes that. In a function that ends in an async block,
/// the code before the block is not part of the call. `.boxed()`, `.boxed_local()`, `.instrument(…)` and
/// `.in_current_span()` may follow the block. A function that creates its future in another way is measured as an
/// ordinary function that returns at once.
///
/// A closure that an async function returns as `impl Fn…` needs the types of its arguments. `#[must_use]` on an async
/// function applies to the future, and its result may be dropped. If the result is a future type of your own, Clippy
/// reports `clippy::async_yields_async`.
///
/// If another macro's attribute follows (`#[perfmark] #[tokio::main]`), the function keeps its signature, and its body
/// moves into an async block. Its arguments are then dropped in the order in which the body mentions them, and are in
/// the future twice if they live across an `.await`. If another attribute comes first, the mark sees the function that
/// this attribute creates. Under `#[async_trait]` or `#[tracing::instrument]` that is still a future. Under
/// `#[tokio::main]` and `#[tokio::test]` it is a function that blocks, whose call includes all its waiting. So put
/// `#[perfmark]` above these two.
///
/// The body becomes a block of the same function and not a closure, so `return`, `?` and labels keep their meaning. Its
/// value is stored in a variable until the call has ended. A large value that the body builds in a variable of its own
/// is copied for that.
///
/// # Refused
///
/// A `const fn`, because it may run in the compiler:
///
/// ```compile_fail
/// #[perfmark::perfmark]
/// const fn twice(n: u32) -> u32 {
///     2 * n
/// }
/// ```
///
/// A method without a body, an item that is not a function, and unknown options:
///
/// ```compile_fail
/// trait Shape {
///     #[perfmark::perfmark]
///     fn area(&self) -> u32;
/// }
/// ```
///
/// ```compile_fail
/// #[perfmark::perfmark]
/// struct NotAFunction;
/// ```
///
/// ```compile_fail
/// #[perfmark::perfmark(title = "f")]
/// fn f() {}
/// ```
pub use perfmark_macros::perfmark;
/// Measures a block as a mark of its own, and returns the block's value.
///
/// ```
/// use perfmark::region;
///
/// fn digest(blocks: &[&[u8]]) -> u32 {
///     let sorted = region!("sort", time, {
///         let mut sorted = blocks.to_vec();
///         sorted.sort_unstable();
///         sorted
///     });
///     region!("fold", cycles, instructions, {
///         sorted.iter().flat_map(|block| block.iter()).fold(0, |sum, &byte| sum.rotate_left(5) ^ u32::from(byte))
///     })
/// }
///
/// assert_ne!(digest(&[b"some", b"bytes"]), 0);
/// ```
///
/// The name is followed by the events and options that [`perfmark`](macro@perfmark) takes. `return`, `?` and `break`
/// leave the region as they leave the block.
///
/// Without a block it returns a guard. The region lasts until the guard is dropped, at the end of its scope at the
/// latest:
///
/// ```
/// # #[cfg(feature = "record")]
/// # {
/// let parsing = perfmark::region!("parsing", time);
/// let number: i32 = "42".parse().unwrap_or(0);
/// drop(parsing);
/// # assert_eq!(number, 42);
/// # }
/// ```
///
/// An async block becomes a future whose polls are measured like those of an async function:
///
/// ```
/// # use std::pin::pin;
/// # use std::task::{Context, Waker};
/// let reply = perfmark::region!("reply", time, async { std::future::ready(7).await });
/// # assert!(pin!(reply).poll(&mut Context::from_waker(Waker::noop())).is_ready());
/// ```
///
/// To measure a closure, put a region inside it:
///
/// ```
/// let twice = |n: u64| perfmark::region!("twice", time, { 2 * n });
/// assert_eq!(twice(21), 42);
/// ```
///
/// Any other region stays on one thread: the guard is not `Send`, and an `.await` in the block is refused. The macro
/// does not see an `.await` that another macro in the block expands to; whatever runs on the thread meanwhile is then
/// measured as part of the region.
///
/// ```compile_fail
/// async fn later() {
///     perfmark::region!("waits", time, { std::future::ready(()).await })
/// }
/// ```
pub use perfmark_macros::region;
#[cfg(feature = "prometheus")]
pub use prometheus::Metrics;
#[cfg(feature = "record")]
pub use report::{Format, FormatError, Report};
#[cfg(feature = "record")]
pub use session::Session;
pub use snapshot::*;

#[cfg(feature = "record")]
mod terminal;
#[cfg(feature = "record")]
mod token;
#[cfg(feature = "record")]
mod output;
#[cfg(feature = "record")]
mod report;
#[cfg(feature = "record")]
mod sync;
#[cfg(feature = "record")]
mod errno;
#[cfg(feature = "record")]
mod arena;
#[cfg(feature = "record")]
mod histogram;
#[cfg(feature = "record")]
mod by_address;
#[cfg(feature = "record")]
mod mark;
#[cfg(feature = "record")]
mod linked;
#[cfg(feature = "record")]
mod defaults;
#[cfg(feature = "record")]
mod signals;
#[cfg(feature = "record")]
mod config;
#[cfg(feature = "record")]
mod opening;
#[cfg(feature = "record")]
mod settings;
#[cfg(feature = "record")]
mod start;
#[cfg(feature = "record")]
mod graph;
#[cfg(feature = "record")]
mod measure;
#[cfg(feature = "criterion")]
mod criterion;
#[cfg(feature = "record")]
mod switched;
#[cfg(feature = "record")]
mod cells;
#[cfg(feature = "record")]
mod registry;
#[cfg(feature = "record")]
mod recorder;
#[cfg(feature = "record")]
mod future;
#[cfg(feature = "record")]
mod generic;
#[cfg(feature = "record")]
mod collect;
#[cfg(feature = "record")]
mod session;
#[cfg(feature = "record")]
mod copies;
#[cfg(feature = "record")]
mod dumps;
#[cfg(feature = "prometheus")]
mod prometheus;
#[cfg(feature = "exporter")]
mod exporter;
#[cfg(feature = "record")]
mod exit;
#[doc(hidden)]
pub mod private;
#[cfg(all(feature = "record", any(doc, doctest)))]
pub mod guide;

/// Everything recorded until now, on all threads, including those that ended.
///
/// It merges every thread's cells while threads keep writing them, so values of a running thread may be a call apart
/// from one another. It costs microseconds for each mark and thread that called it. It takes a lock that other threads
/// wait for only at their first call of a mark, or at their end.
///
/// Without the feature `record` nothing is recorded, and the snapshot has no marks.
///
/// ```
/// use perfmark::perfmark;
///
/// #[perfmark(time)]
/// fn double(n: u64) -> u64 {
///     2 * n
/// }
///
/// double(21);
/// let snapshot = perfmark::snapshot();
/// if let Some(double) = snapshot.marks.iter().find(|mark| mark.name == "double") {
///     assert_eq!(double.calls, 1);
///     assert_eq!(double.values[0].event, "time");
/// }
/// ```
#[must_use]
pub fn snapshot() -> Snapshot {
    #[cfg(feature = "record")]
    return collect::snapshot();
    #[cfg(not(feature = "record"))]
    Snapshot::default()
}

/// What each thread recorded until now: each running thread by itself, and all threads that ended together.
///
/// Calls that were only counted, in signal handlers and at a thread's end, are not part of any thread's values.
///
/// ```
/// # #[perfmark::perfmark(time)]
/// # fn work() {}
/// # work();
/// for thread in perfmark::threads() {
///     let calls: u64 = thread.marks.iter().map(|mark| mark.calls).sum();
///     println!("{:?} {}: {calls} calls", thread.id, thread.name.as_deref().unwrap_or("?"));
/// }
/// ```
#[must_use]
pub fn threads() -> Vec<Thread> {
    #[cfg(feature = "record")]
    return collect::threads();
    #[cfg(not(feature = "record"))]
    Vec::new()
}

/// Starts again from zero: later snapshots, threads' values and the report at exit contain only what is recorded from
/// now on.
///
/// It does not disturb recording: what was recorded until now is kept, and subtracted as by [`Snapshot::since`]. A call
/// in flight is counted when it ends.
///
/// ```standalone_crate
/// # #[perfmark::perfmark(time)]
/// # fn work() {}
/// work();
/// perfmark::reset();
/// assert!(perfmark::snapshot().marks.iter().all(|mark| mark.calls == 0));
/// ```
pub fn reset() {
    #[cfg(feature = "record")]
    collect::reset();
}

/// Writes the report now and ends recording for good, for programs that then enter a sandbox.
///
/// It writes the report that would be written at exit; no other report follows. Afterwards a call of a mark costs a
/// load and a branch, as with `PERFMARK=off`. perfmark makes no more system calls, whether at a mark, at the end of a
/// thread, or at exit. [`snapshot()`] still returns what was recorded. The `permissions` chapter of the guide lists all
/// system calls that perfmark makes.
///
/// It closes the counters of the calling thread. Other threads keep their counters and up to 0.8 MiB of memory until
/// the process ends. Calls in flight end unmeasured, and the report shows them as in flight. A call that another thread
/// begins or ends at this moment may still make a system call: before a sandbox that kills, let the other threads make
/// no marked calls. [`Dumps`], `Exporter` and [`Session`] values of the program keep working until they are dropped.
/// Forked children of a program that has finished record nothing.
///
/// It takes as long as writing the report. Before that it waits, for one second at most, until other threads' first
/// calls of a mark have set up what they need. A second call does nothing; nor does any with `PERFMARK=off`, without
/// the feature `record`, or in a signal handler that interrupted perfmark's own work.
///
/// ```standalone_crate
/// use perfmark::perfmark;
///
/// #[perfmark(time)]
/// fn load() {}
///
/// # fn main() {
/// load();
/// perfmark::finish();
/// // … close the sandbox …
/// load();
/// assert!(perfmark::snapshot().marks.iter().all(|mark| mark.calls <= 1));
/// # }
/// ```
pub fn finish() {
    #[cfg(feature = "record")]
    exit::finish();
}

/// From now on perfmark opens no performance counter, on any thread: marks record time. This is for sandboxes that kill
/// a program at `perf_event_open(2)`.
///
/// It does what `PERFMARK_EVENTS=time` does, cannot be undone, and holds for forked children. Marks, filters and
/// [`measure()`] that name other events open no counter either; the report gives the reason. Call it before the first
/// mark is called: counters that are open stay open, and are read, until their threads end.
///
/// Returns `true` if no counter was opened before and no other thread is opening one, and always without the feature
/// `record`.
///
/// ```standalone_crate
/// use perfmark::perfmark;
///
/// #[perfmark(cycles)]
/// fn parse() {}
///
/// # fn main() {
/// assert!(perfmark::open_no_counters());
/// parse(); // records time
/// # }
/// ```
#[allow(clippy::must_use_candidate, reason = "who calls it first knows the answer")]
pub fn open_no_counters() -> bool {
    #[cfg(feature = "record")]
    return opening::forbid();
    #[cfg(not(feature = "record"))]
    true
}

/// Sets which marks record from now on, which events, and one call in how many. The [`Filter`] replaces the one before,
/// which at first is that of `PERFMARK_FILTER`.
///
/// Calls in flight finish under their old settings; none are lost. Calls of a mark that is off are not counted, and
/// cost as much as with `PERFMARK=off`. A thread's first call of a mark that has new settings costs some microseconds.
/// What was recorded before is kept. Filters are kept in memory, so setting the same one again takes no more memory.
///
/// # Errors
///
/// Some marks keep their old settings, because there is no slot for the new ones; all others follow the filter. A mark
/// with other events or another `every` takes one slot for each combination of settings, of 8,192 that all marks share.
/// Nothing was set at all if a signal handler that interrupted perfmark's own work called this function, or if the
/// kernel cannot provide memory that a fork wipes.
///
/// ```standalone_crate
/// use perfmark::{Filter, perfmark, set_filter, snapshot};
///
/// #[perfmark(time)]
/// fn poll() {}
///
/// # fn main() -> Result<(), perfmark::SetFilterError> {
/// set_filter(&Filter::default().off("*::poll"))?;
/// poll();
/// set_filter(&Filter::default())?;
/// poll();
/// # if cfg!(feature = "record") {
/// assert_eq!(snapshot().marks.iter().find(|mark| mark.name == "poll").map(|mark| mark.calls), Some(1));
/// # }
/// # Ok(())
/// # }
/// ```
pub fn set_filter(filter: &Filter) -> Result<(), SetFilterError> {
    #[cfg(feature = "record")]
    return session::set_filter(filter);
    #[cfg(not(feature = "record"))]
    {
        let _ = filter;
        Ok(())
    }
}

/// The filter in force.
#[must_use]
pub fn filter() -> Filter {
    #[cfg(feature = "record")]
    return settings::filter().cloned().unwrap_or_default();
    #[cfg(not(feature = "record"))]
    Filter::default()
}
