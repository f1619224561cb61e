//! Put `#[perfmark]` on a function and learn what each of its calls costs, in the machine's own counters, inside the running program.
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
//! Nothing is started, held or sent: a mark registers before `main`, each call reads the thread's counters at entry and exit (in user
//! space where the kernel allows it) and adds the differences to histograms of that thread, and the report is written when the process
//! ends by return from `main`, a panic that unwinds it, or `process::exit`. [`snapshot()`] gives the same figures at any time.
//!
//! On Linux, x86-64, arm64 and riscv64, it counts what [`perfmark_rdpmc`] can open; elsewhere, and where a machine has no counters, it records time
//! and the report says why.
//!
//! The [`guide`] tells how to read the table, choose events, compare runs, serve for months, be allowed to count, and how far to believe the figures.
//!
//! # Environment variables
//!
//! They are read once before `main`. A wrong value is reported on stderr with the valid ones, and perfmark uses the
//! default.
//!
//! | variable | values | default |
//! |---|---|---|
//! | `PERFMARK` | `on`, `off`: records nothing, for a load and a branch a call | `on` |
//! | `PERFMARK_EVENTS` | events of a bare `#[perfmark]`, by comma; `time` alone: all marks record time only, and no counter is opened, whatever they name ([`open_no_counters`]) | `time,cycles,instructions` |
//! | `PERFMARK_FILTER` | which marks record, what, and one call in how many: `app::parser,app::parser::token=every:64` (its language: [`Filter`]) | all, as they are written |
//! | `PERFMARK_OUTPUT` | a file, which is replaced as a whole; `%p` in its name is the process's number, `%u` a token that no other process has; `-` for stdout | stderr |
//! | `PERFMARK_FORMAT` | `table`, `json`, `csv`, `markdown`, `html`, `folded`, `svg`, `openmetrics` ([`Format`]) | `table` |
//! | `PERFMARK_DUMP_INTERVAL` | seconds: the file of `PERFMARK_OUTPUT` is also replaced so often while the program runs, but not in a forked child, such as a daemon ([`Dumps`]) | none |
//! | `PERFMARK_DUMP_SIGNAL` | a signal, such as `USR1`: the same when the process gets it; takes the feature `signal` | none |
//! | `PERFMARK_CALL_GRAPH` | `on`: also records who was called under whom ([`Snapshot::call_graph`]), by the long way of a call's ends | `off` |
//! | `PERFMARK_READ` | `auto`: in the cheaper way; `user`: in user space wherever allowed; `syscall`: by read(2) | `auto` |
//!
//! A library that carries a perfmark of its own, and another version of it in the same program, record for themselves: each writes a report of its own, to
//! a file of the second copy in the process with `.copy-2` at its name's end. Such a library stays in memory when it is closed.
//!
//! # Features
//!
//! | feature | default | what it does |
//! |---|---|---|
//! | `record` | yes | records calls; without it a marked function is the function as written |
//! | `json` | yes | the JSON report |
//! | `html` | no | the report as a page for a browser: a table, distributions, the call graph |
//! | `serde` | no | `serde::Serialize` and `Deserialize` for [`Snapshot`], in the form of the JSON report |
//! | `csv` | no | the report as CSV |
//! | `flamegraph` | no | the report as a flame graph |
//! | `prometheus` | no | `Metrics` for a `prometheus-client` registry, and the report as `OpenMetrics` |
//! | `exporter` | no | `Exporter`: a tiny server of these metrics, on this machine only unless told otherwise |
//! | `signal` | no | [dumps](Dumps) when the process gets a signal |
//! | `criterion` | no | `Measure`: any event as what `criterion` measures |
//! | `cli` | no | the command line `perfmark`, for `cargo install perfmark --features cli`: shows, merges and compares reports; a program has no use for it |
//!
//! A library depends on perfmark with `default-features = false`, and its marked functions are the functions as written. The program that links it
//! decides, by enabling the default features; or builds with `RUSTFLAGS="--cfg perfmark_off"` to silence everybody. A mark in a crate of the program
//! that nothing else refers to is not linked before it is called: it is listed from its first call on. So is one outside the shared library that
//! perfmark is linked into, where Rust libraries are linked dynamically (`-C prefer-dynamic`).
//!
//! # In production
//!
//! What a program recorded is written when it ends by itself. One that is killed, aborts, calls `_exit` or another program by `exec` leaves its last
//! [dump](Dumps). A forked child closes what it inherited, starts empty, and leaves a report of its own. Threads that end leave their figures, and nothing
//! else. Where counters cannot be had for some threads (descriptors, locked memory, rights), these threads' calls are unmeasured, and a note says why. While
//! perfmark does its rare work (a thread's first call of a mark, its end, a snapshot) signal handlers of that thread wait.
//!
//! # What the figures mean
//!
//! Counts are of user mode. A call is the function's body and its locals, with the marked calls inside it; `self` is
//! without them. Totals of a recursive function are of its outermost calls. If other events held a call's counter for a
//! part of the time, its value is scaled, and the report counts it as scaled. If the counter did not run at all, the
//! call is unmeasured. A call that a panic ended is in no distribution; its cost is in a row of its own. The probe
//! overhead is measured once for each set of events, and subtracted from the call and from the marked calls around it.
//! If it could not be measured, a note says so. Totals and self with calls that were not measured are estimates, and
//! have a `≈` before them.

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
/// What a crate's marks record where they do not say; once in a crate, in any of its modules.
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
/// It takes what [`perfmark`](macro@perfmark) takes, but for `name` and `generic`. Events of `PERFMARK_EVENTS` go before its own. It is for
/// the crate whose name the module's path begins with, so that a package's library and its program of the same name have theirs together.
/// Given twice, the first in the source holds, and the report says so.
pub use perfmark_macros::defaults;
/// Measures each call of a function or method: generic, `unsafe`, `extern`, in a trait or an `impl`, of any signature; or of all functions in an
/// `impl`, a `trait` or an inline `mod`.
///
/// ```
/// use perfmark::perfmark;
///
/// /// The default events: time, cycles, instructions. What this machine cannot count is left out, and the report says why.
/// #[perfmark]
/// fn parse(text: &str) -> Option<u64> {
///     text.trim().parse().ok()
/// }
///
/// struct Table(Vec<u64>);
///
/// impl Table {
///     /// Exactly these, under a name of its own; time, if none of them can be had.
///     #[perfmark(branch_misses, page_faults, name = "table lookup")]
///     fn find(&self, key: u64) -> Option<usize> {
///         self.0.iter().position(|&entry| entry == key)
///     }
/// }
///
/// assert_eq!(parse(" 7 ").and_then(|key| Table(vec![5, 7]).find(key)), Some(1));
/// ```
///
/// Events are `time`, and perf's names with underscores for hyphens (`cache_misses`, `task_clock`, raw ones as
/// `r01c2`). In quotes they have perf's whole grammar (`"cpu/event=0xc2,umask=1/"`, `"mem:0x1000/8:w"`, `"cycles:k"`):
/// see [`perfmark_rdpmc::Event`]. The compiler checks the grammar; the report says which events the machine has. A call
/// of a mark costs some 90 instructions with `time` alone, 140 with two events that hardware counts, and some 35 more
/// for each further one. Events that only the kernel counts (`page_faults`) cost an `fcntl(2)` and a `read(2)` at entry
/// and at exit, whatever their number.
///
/// # Options
///
/// | option | what it does | what it costs |
/// |---|---|---|
/// | `name = "…"` | the report shows this name | nothing |
/// | `kernel` | counts the kernel's part of each event, too, where the machine allows it | nothing |
/// | `generic` | each of a generic function's types has a row of its own, and so has each implementor of a trait's default method | a look-up at each call, of some 20 instructions however many types there are |
/// | `crate = path` | where this crate is, if it is renamed or exported again by another | nothing |
/// | `every = N` | measures one call in `N`, drawn at random; counts all | a call that is not measured some 40 instructions instead of 140 (of two events), and the marks of that thread some 20 more each |
/// | `fence` | lets the processor finish what stands before each reading (`lfence`, `isb`), so that no work of the neighbours is in a call's figures, and none of its own is missing | three times what the processor needs for that: a `time` mark costs 3.0 pairs of tick reads instead of 1.5 |
///
/// `every` is for functions so short and so often called that even a mark's cost is too much. Of each `N` calls in a
/// row on a thread, one is measured, drawn at random, and counts as `N`. Totals, and self of the calls around it, are
/// then unbiased estimates, and flagged. Do not use it on recursive functions: a skipped call is not seen around the
/// calls inside it, so totals count these again.
///
/// `fence` is for regions of some hundred cycles, of which a processor that works out of order does parts before or after the readings. It makes
/// the marked function slower by what it could have done at the same time as its neighbours: that is not taken off, as it is not the probe's.
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
/// Each gets the attribute, as do the `impl`s and modules in a module; but for what cannot be marked. A function's own attribute goes before, and
/// `#[perfmark(skip)]` leaves one out.
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
/// A call of an `async fn`, and of a function whose last expression is an async block or `Box::pin(async …)`, is the sum of its polls, on whichever
/// threads they run. Between polls nothing is counted; [polls](snapshot::Mark::polls) are. A future that is dropped before it is ready is a
/// [cancelled](snapshot::Mark::cancelled) call, in no distribution; one that was never polled is none. A call of one poll costs some 200 instructions (with
/// two events), and a marked future has up to 64 bytes more than an unmarked one, whatever runs it.
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
/// The arguments are dropped in the last poll, and so are in the call. What a function does before it makes its future, in a body that ends in an async
/// block, is not. `.boxed()`, `.boxed_local()`, `.instrument(…)` and `.in_current_span()` may follow that; a function that makes its future in another
/// way is measured as what it is: one that returns at once. A closure that an async function returns as `impl Fn…` needs the types of its arguments,
/// with `#[must_use]` the future must be used, and what it gives may be dropped; and a future type of your own as a result draws
/// `clippy::async_yields_async`.
///
/// Where another macro's attribute follows (`#[perfmark] #[tokio::main]`) the function stays as it is, around an async block with its body: its
/// arguments are dropped in the order in which the body mentions them, and are in the future twice if they live across an `.await`. Where such an
/// attribute comes first, the mark sees what it made of the function: still a future under `#[async_trait]` or `#[tracing::instrument]`, but a function
/// that blocks under `#[tokio::main]` and `#[tokio::test]`, whose call is all that it waits for. So put `#[perfmark]` above these two.
///
/// The body becomes a block of the same function: no closure, so `return`, `?` and labels mean what they did. Its value
/// is stored in a variable until the call has ended. A large one that the body puts together in a variable of its own is
/// copied for that.
///
/// # Refused
///
/// A `const fn`, which may run in the compiler:
///
/// ```compile_fail
/// #[perfmark::perfmark]
/// const fn twice(n: u32) -> u32 {
///     2 * n
/// }
/// ```
///
/// A method without a body, anything that is no function, and options that there are not:
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
/// Measures a block, as a mark of its own, and gives its value.
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
/// What follows the name is what [`perfmark`](macro@perfmark) takes. `return`, `?` and `break` leave the region as they leave the block.
///
/// Without a block it gives a guard, and the region lasts until that is dropped, at the end of its scope at the latest:
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
/// An async block gives a future, whose polls are measured, as those of an async function:
///
/// ```
/// # use std::pin::pin;
/// # use std::task::{Context, Waker};
/// let reply = perfmark::region!("reply", time, async { std::future::ready(7).await });
/// # assert!(pin!(reply).poll(&mut Context::from_waker(Waker::noop())).is_ready());
/// ```
///
/// and a closure is measured by a region in it:
///
/// ```
/// let twice = |n: u64| perfmark::region!("twice", time, { 2 * n });
/// assert_eq!(twice(21), 42);
/// ```
///
/// Any other region lies on one thread: the guard is not `Send`, and an `.await` in the block is refused, as far as it is seen: one that a macro in the
/// block makes is not, and what runs meanwhile on the thread is then in the region.
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

/// Everything recorded until now, of all threads: those that ended and those that run.
///
/// Merges every thread's cells, which go on being written meanwhile: figures of a running thread may be a call apart from one another.
/// Costs microseconds for each mark and thread that called it, and takes a lock that only threads on their first call of a mark, or at
/// their end, wait for.
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

/// What each thread recorded until now: those that run, and together those that ended.
///
/// Calls that were counted in signal handlers and at a thread's end only are in no thread's figures.
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

/// Begins anew: snapshots, threads' figures and the report at exit are of what is recorded from now on.
///
/// It does not disturb recording: what was recorded until now is kept, and subtracted as [`Snapshot::since`] does it. A
/// call in flight is counted when it ends.
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
/// It writes the report that would be written at exit, and there is no other. Afterwards a call of a mark costs a load
/// and a branch, as with `PERFMARK=off`, and perfmark makes no system call: not at a mark, at the end of a thread, or
/// at exit. [`snapshot()`] still returns what was recorded. The `permissions` chapter of the guide lists all system
/// calls that perfmark makes.
///
/// It closes the counters of the calling thread. Other threads keep their counters and up to 0.8 MiB of memory until
/// the process ends. Calls in flight end unmeasured, and the report shows them as in flight. A call that another thread
/// begins or ends at this moment may still make a system call: before a sandbox that kills, let the other threads make
/// no marked calls. [`Dumps`], `Exporter` and [`Session`] values of the program work on until they are dropped. Forked
/// children of a program that has finished record nothing.
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
/// Calls in flight finish under their old settings. Calls of a mark that is off are not counted, and cost what they do
/// with `PERFMARK=off`. A thread's first call of a mark that has new settings costs some microseconds. What was
/// recorded before stays. Filters are kept, so that setting one again takes no memory.
///
/// # Errors
///
/// Some marks keep their old settings, because there is no slot for the new ones; all others follow the filter. A mark
/// with other events or another `every` takes one slot for each kind of settings, of 8,192 that all marks share. Or
/// nothing was set: in a signal handler that interrupted perfmark's own work, or if the kernel gives no memory that a
/// fork wipes.
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
