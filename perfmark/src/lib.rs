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
//! You do not start anything, keep a guard in `main` or send data. A mark registers before `main`. Each call reads the
//! thread's counters at entry and exit, in user space where the kernel allows it, and adds the differences to that
//! thread's histograms. The report is written when `main` returns, when a panic unwinds it, or at `process::exit`.
//! [`snapshot()`] returns the same values at any time.
//!
//! On Linux on x86-64, arm64 and riscv64 it counts the events that [`perfmark_rdpmc`] can open. On other systems, and
//! on machines without counters, it records time, and the report says why. On `wasm32-unknown-unknown`, which has no
//! clock, it records nothing: marked functions are the functions as written.
//!
//! The [`guide`] explains how to read the table, choose events, compare runs, run a service for months and get
//! permission to count. It also states the accuracy.
//!
//! # Environment variables
//!
//! perfmark reads them once before `main`. It reports a wrong value on stderr with the valid ones, and uses the
//! default. If the variable is about the report, this is at the first call of a mark, or with the report. perfmark also
//! reports a variable whose name is a misspelled one of these.
//!
//! - `PERFMARK`: `on` or `off`. `off` records nothing; a call of a mark then costs a load and a branch. The default is
//!   `on`. By default, programs of `cargo test` and programs that called no mark print no report; `PERFMARK=on`, or
//!   any variable `PERFMARK_…`, brings it back.
//! - `PERFMARK_EVENTS`: the events of a bare `#[perfmark]`, separated by commas. The default is
//!   `time,cycles,instructions`. With `time` alone, all marks record time only, and no counter is opened, whatever
//!   events marks name ([`disable_counters`]).
//! - `PERFMARK_FILTER`: which marks record, which events they record, how often (one call in N), and with a fence or
//!   not, such as `app::parser,app::parser::token=every:64` (see [`Filter`]). By default all marks record, with the
//!   settings of their attributes.
//! - `PERFMARK_BUDGET`: the share of each thread's CPU time that measuring may take, such as `2%`. Of marks that would
//!   take more, one call in N is measured ([`set_budget`]). By default there is no limit.
//! - `PERFMARK_OUTPUT`: a file, which is replaced atomically. In its name, `%p` is the process number and `%u` is a
//!   token that no other process has. `-` is stdout. The default is stderr.
//! - `PERFMARK_FORMAT`: `table`, `json`, `csv`, `markdown`, `html`, `folded`, `svg` or `openmetrics` ([`Format`]). The
//!   default is `table`.
//! - `PERFMARK_TOP`: how many marks have a row in the table; `all` for all. The default is 20.
//! - `PERFMARK_LINES`: how many sampled lines of each mark are in the table; `all` for all. The default is 3.
//! - `PERFMARK_DETAILS`: `on` adds each event's quantiles, the calls that the values leave out, and the lines that hot
//!   lines execute in other functions, to the table; names of marks, separated by commas, do so for these
//!   ([`Report::details`]). The default is `off`.
//! - `COLUMNS`: the width of a table that does not go to a terminal. The default is 100. As the three above, it applies
//!   to dumps, too, and is the default of an option of `perfmark run` and `perfmark report`, which refuse a wrong
//!   value.
//! - `PERFMARK_DUMP_INTERVAL`: the file of `PERFMARK_OUTPUT` is also replaced at this interval, in seconds, from the
//!   first call of a mark on ([`Dumps`]). A forked child, such as a daemon, writes no dumps. By default there are none.
//! - `PERFMARK_DUMP_SIGNAL`: a signal, such as `USR1`, at which the file is also replaced; if it comes before the first
//!   call of a mark, at that call. It requires the feature `signal`. All threads but perfmark's block it, so send it to
//!   the process (`kill`); programs that inherit the signal mask block it, too. The signal does not end the program,
//!   even with `PERFMARK=off` or without a file for the dumps. By default there is none.
//! - `PERFMARK_ON_SIGINT`: `report` writes the report before SIGINT (Ctrl-C) ends the program, on Linux, once a mark
//!   was called, unless the program handles or ignores the signal by then. If another SIGINT comes more than a second
//!   later, the program ends at once. A forked child ends without a report. `perfmark run` sets it. The default is
//!   `end`: there is no report.
//! - `PERFMARK_CALL_GRAPH`: `on` also records the call graph ([`Snapshot::call_graph`]); a call then costs about 50
//!   instructions more. The default is `off`.
//! - `PERFMARK_SAMPLE`: samples all threads from the first call of a mark on: `99` takes 99 samples a second of each
//!   thread's CPU time, `cycles:1000003` one for each 1,000,003 cycles, and `99,page_faults:101` both kinds
//!   (`Sampling`). `99,stack=2048`, `stack=fp` and `stack=off` set how callers are found (`Stacks`). `99,timestamps`
//!   also records when samples are taken. It requires the feature `sampling`. The default is `off`.
//! - `PERFMARK_SOURCES`: `embed` writes the source text around hot lines into the JSON report, so that
//!   `perfmark report` shows it on a machine without the sources (`Report::embed_sources`). The default is `read`: only
//!   formats for people have the text, of sources that are on the machine that writes the report.
//! - `PERFMARK_READ`: how hardware counters are read. `auto` takes the cheaper way, `user` reads in user space wherever
//!   it is allowed, `syscall` uses read(2). `perfmark run --emulate` sets `emulated`: the emulator counts instructions,
//!   and no time is recorded. The default is `auto`.
//!
//! A library that contains its own copy of perfmark, or another version of perfmark in the same program, records
//! separately and writes its own report. The file of the second copy in the process has `.copy-2` appended to its name.
//! A library that contains perfmark is not unloaded by `dlclose`.
//!
//! # Features
//!
//! - `record` (default): records calls. Without it, a marked function is the function as written, and these items do
//!   not exist: `Report`, `Format`, `Session`, `Dumps`, `measure`, `check_events`, their types, and the [`guide`]; the
//!   types `HotFunction`, `HotLine`, `MarkedFunctions`, `SamplesByMark` and `StackFrame`; and the methods `names`,
//!   `hot_functions`, `hot_lines` and `samples_by_mark` of [`Snapshot`], `of_mark`, `is_biased` and `expected` of
//!   [`Samples`], `frames` of [`SampledStack`], and `has_mark` and `nearest` of [`Filter`]. The features `html`, `csv`,
//!   `flamegraph`, `prometheus`, `exporter`, `sampling`, `signal` and `criterion` enable it.
//! - `std` (enabled by `record`, `serde` and `symbols`): functions and types. Without `record`, the functions do
//!   nothing, a [`CountingAllocator`] does not count, and [`snapshot()`] is empty. Without `std`, perfmark has only
//!   [`perfmark`](macro@perfmark), [`region!`] and [`defaults!`], and is `no_std`: it requires no allocator either.
//! - `json` (default): the JSON report.
//! - `html`: the report as a page for a browser, with a table, distributions and the call graph.
//! - `serde`: `serde::Serialize` and `Deserialize` for [`Snapshot`], in the format of the JSON report.
//! - `csv`: the report as CSV.
//! - `flamegraph`: the report as a flame graph.
//! - `prometheus`: `Metrics` for a `prometheus-client` registry, and the report as `OpenMetrics`.
//! - `exporter`: `Exporter`, a small server of these metrics. By default it listens on this machine only.
//! - `sampling`: samples of the program, attributed to marks (`Sampling`).
//! - `symbols`: names the addresses of samples (the module `symbols`). The report at exit, dumps and reports of
//!   sessions then have functions and lines.
//! - `signal`: [dumps](Dumps) when the process receives a signal.
//! - `criterion`: `Measure`, which lets `criterion` measure any event.
//!
//! The command line `perfmark` shows, merges and compares reports. It is a crate of its own: `cargo install
//! perfmark-cli`.
//!
//! A library should depend on perfmark with `default-features = false`, also if it is `no_std`: its marked functions
//! are then the functions as written. The program that links the library enables the default features to record them.
//! `RUSTFLAGS="--cfg perfmark_off"` turns recording off for the whole build.
//!
//! If only downloaded crates contain marks, the program prints no report by itself. It does if a variable of perfmark's
//! is set, such as `PERFMARK=on`, or if it calls a function of perfmark, such as [`snapshot()`]. The [`guide`] explains
//! which crates count as downloaded.
//!
//! If the linker does not load a mark's crate before `main`, the report lists the mark from its first call on. This
//! concerns crates to which nothing else in the program refers. With `-C prefer-dynamic`, it also concerns marks
//! outside the shared library that contains perfmark.
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
//! Counts are of user mode. A call covers the function's body, its locals and the marked calls inside it. `self`
//! excludes these calls. Totals of a recursive function cover its outermost calls. If other events used a call's
//! counter for part of the time, its value is scaled, and the report counts it as scaled. If the counter did not run at
//! all, the call is unmeasured. A call that a panic ended is in no distribution, but its cost is in self and total. The
//! probe overhead is measured once for each set of events, and subtracted from the call and from the marked calls
//! around it. If it could not be measured, a note says so. If totals or self include unmeasured calls, they are
//! estimates and marked `≈`.

#![deny(unsafe_code)]
#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

/// Implements `Display` and `Error` for an error that is a message.
#[cfg(feature = "std")]
macro_rules! message_error {
    ($error:ident) => {
        impl std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::error::Error for $error {}
    };
}

#[cfg(feature = "std")]
mod compact;
#[cfg(feature = "std")]
mod snapshot;
#[cfg(feature = "record")]
mod platform;
#[cfg(feature = "std")]
mod settings;
#[cfg(feature = "record")]
mod recording;
#[cfg(feature = "record")]
mod report;
#[cfg(any(feature = "criterion", feature = "prometheus"))]
mod export;
#[cfg(feature = "record")]
mod process;
#[cfg(feature = "std")]
mod control;
#[cfg(feature = "std")]
mod allocator;
mod macros;
#[cfg(all(feature = "record", any(doc, doctest)))]
pub mod guide;

#[cfg(feature = "std")]
pub use allocator::CountingAllocator;
#[cfg(feature = "std")]
pub use control::{
    budget, disable_counters, disable_report, filter, finish, reset, set_budget, set_filter, snapshot, threads,
};
#[doc(hidden)]
pub use macros::private;
pub use macros::{defaults, perfmark, region};
#[cfg(feature = "std")]
pub use settings::{Budget, BudgetError, Filter, FilterError, SettingsError};
#[cfg(feature = "symbols")]
pub use snapshot::symbols;
#[cfg(feature = "std")]
pub use snapshot::{
    Bucket, Event, Frame, Location, Mark, Module, Node, NodeValues, Overhead, Read, SampleTime, SampledPath,
    SampledStack, Samples, Snapshot, SourceText, Thread, TimedThread, Unit, Values, text,
};

/// Items that only a build that records has. The documentation of the feature `record` above lists them.
#[cfg(feature = "record")]
mod with_record {
    #[cfg(feature = "criterion")]
    pub use crate::export::Measure;
    #[cfg(feature = "prometheus")]
    pub use crate::export::Metrics;
    #[cfg(feature = "exporter")]
    pub use crate::export::{Exporter, Exporting};
    pub use crate::process::{Dumping, Dumps, Session};
    pub use crate::recording::measure::{Count, MeasureError, Measured, measure};
    #[cfg(feature = "sampling")]
    pub use crate::recording::sample::{Sampling, SamplingError, SamplingGuard};
    pub use crate::report::{Format, FormatError, Report, Sort};
    pub use crate::settings::event_list::{EventsError, check_events};
    #[cfg(feature = "sampling")]
    pub use crate::settings::sampling::Stacks;
    pub use crate::snapshot::{HotFunction, HotLine, MarkedFunctions, SamplesByMark, StackFrame};
}
#[cfg(feature = "record")]
pub use with_record::*;
