//! The functions that a program calls.

#[cfg(feature = "record")]
mod with_record {
    pub(super) use crate::process::exit::{disable_report, finish};
    pub(super) use crate::recording::collect::{reset, snapshot, threads};
    pub(super) use crate::recording::start::note_api_use;
    pub(super) use crate::recording::{budget, filter, set_budget, set_filter};
    pub(super) use crate::settings::counter_access::disable_counters;
}

/// What the functions do in a build that records nothing.
#[cfg(not(feature = "record"))]
mod without_record {
    use crate::settings::{Budget, Filter, SettingsError};
    use crate::snapshot::{Snapshot, Thread};

    pub(super) fn note_api_use() {}

    pub(super) fn snapshot() -> Snapshot {
        Snapshot::default()
    }

    pub(super) fn threads() -> Vec<Thread> {
        Vec::new()
    }

    pub(super) fn reset() {}

    pub(super) fn finish() {}

    pub(super) fn disable_report() {}

    pub(super) fn disable_counters() -> bool {
        true
    }

    #[allow(clippy::unnecessary_wraps, reason = "as in a build that records")]
    pub(super) fn set_filter(_: &Filter) -> Result<(), SettingsError> {
        Ok(())
    }

    pub(super) fn filter() -> Filter {
        Filter::default()
    }

    #[allow(clippy::unnecessary_wraps, reason = "as in a build that records")]
    pub(super) fn set_budget(_: Option<Budget>) -> Result<(), SettingsError> {
        Ok(())
    }

    pub(super) fn budget() -> Option<Budget> {
        None
    }
}

#[cfg(feature = "record")]
use self::with_record as recording;
#[cfg(not(feature = "record"))]
use self::without_record as recording;
use crate::settings::{Budget, Filter, SettingsError};
use crate::snapshot::{Snapshot, Thread};

/// Everything recorded until now, on all threads, including those that ended.
///
/// It merges every thread's cells while threads keep writing them, so two values of a running thread may differ by one
/// call. It costs microseconds for each mark and thread that called it. It takes a lock that other threads wait for
/// only at their first call of a mark, or at their end.
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
    recording::note_api_use();
    recording::snapshot()
}

/// What each thread recorded until now: each running thread by itself, and all threads that ended together.
///
/// Calls that were only counted, in signal handlers and at a thread's end, are not part of any thread's values. A
/// suspended async call is in flight on no thread.
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
    recording::note_api_use();
    recording::threads()
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
    recording::note_api_use();
    recording::reset();
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
/// begins or ends at this moment may still make a system call: before you enter a sandbox that kills, stop marked calls
/// on other threads. [`Dumps`](crate::Dumps), `Exporter` and [`Session`](crate::Session) values of the program keep
/// working until they are dropped. Forked children of a program that has finished record nothing.
///
/// It takes as long as writing the report. Before that it waits, for one second at most, until other threads' first
/// calls of a mark have set up what they need. A second call does nothing. Nothing happens either with `PERFMARK=off`,
/// without the feature `record`, or in a signal handler that interrupted perfmark's own work.
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
    recording::note_api_use();
    recording::finish();
}

/// From now on perfmark writes no report at exit, and no dumps that the environment sets.
///
/// This is for programs that export what they record in another way, and for programs that only start other marked
/// programs: `PERFMARK_OUTPUT` and `PERFMARK_DUMP_INTERVAL` then apply to those, which inherit the environment.
///
/// Calls are still recorded, and [`snapshot()`], [`Session`](crate::Session) and the [`Dumps`](crate::Dumps) of the
/// program work as before. [`finish()`] then only ends recording. It cannot be undone, and holds for forked children.
/// Call it at the start of `main`: a dump that was written before stays.
///
/// If the environment sets dumps, it ends their thread, which takes some microseconds, or the time of a dump if one is
/// being written. It does nothing without the feature `record`.
///
/// ```standalone_crate
/// use perfmark::perfmark;
///
/// #[perfmark(time)]
/// fn load() {}
///
/// # fn main() {
/// perfmark::disable_report();
/// load();
/// for mark in &perfmark::snapshot().marks {
///     println!("{}: {}", mark.name, mark.calls);
/// }
/// # }
/// ```
pub fn disable_report() {
    recording::note_api_use();
    recording::disable_report();
}

/// From now on perfmark opens no performance counter, on any thread: marks record time, and no thread begins to be
/// sampled. This is for sandboxes that kill a program at `perf_event_open(2)`.
///
/// It does what `PERFMARK_EVENTS=time` does, cannot be undone, and holds for forked children. Marks, filters and
/// [`measure()`](crate::measure()) that name other events open no counter either; the report gives the reason. Call it
/// before the first mark is called: counters that are open stay open, and are read, until their threads end.
///
/// Returns `true` if perfmark has not tried to open a counter before, on any thread, and always without the feature
/// `record`.
///
/// ```standalone_crate
/// use perfmark::perfmark;
///
/// #[perfmark(cycles)]
/// fn parse() {}
///
/// # fn main() {
/// assert!(perfmark::disable_counters());
/// parse(); // records time
/// # }
/// ```
#[allow(clippy::must_use_candidate, reason = "the first caller need not check the result")]
pub fn disable_counters() -> bool {
    recording::note_api_use();
    recording::disable_counters()
}

/// Sets which marks record from now on, which events they record, and how often (one call in N). The [`Filter`]
/// replaces the one before, which at first is that of `PERFMARK_FILTER`.
///
/// Calls in flight finish under their old settings; none are lost. A suspended async call has the new ones from its
/// next poll on: it is counted, and unmeasured in events that its mark does not record all the time. Calls of a mark
/// that is off are not counted, and cost as much as with `PERFMARK=off`. A thread's first call of a mark that has new
/// settings costs some microseconds. What was recorded before is kept. Filters are kept in memory, so setting the same
/// one again takes no more memory.
///
/// # Errors
///
/// Returns an error if there is no free slot for the settings of some marks; these keep their old settings. A mark with
/// other events or another `every` takes one slot for each combination of settings, of 8,192 that all marks share.
/// Nothing changes if a signal handler that interrupted perfmark's own work called this function, or if the kernel
/// cannot provide memory that a fork wipes.
///
/// ```standalone_crate
/// use perfmark::{Filter, perfmark, set_filter, snapshot};
///
/// #[perfmark(time)]
/// fn poll() {}
///
/// # fn main() -> Result<(), perfmark::SettingsError> {
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
pub fn set_filter(filter: &Filter) -> Result<(), SettingsError> {
    recording::note_api_use();
    recording::set_filter(filter)
}

/// Sets the share of each thread's CPU time that measuring may take; with `None`, only the budgets that crates set by
/// [`defaults!`](crate::defaults) limit it. It replaces the one before, which at first is that of `PERFMARK_BUDGET`.
///
/// Within a budget, perfmark measures one call in N of marks that are called so often that measuring them would take
/// more than their part of the budget. It chooses N for each thread, and changes it with the load. Marks that are
/// called rarely are measured completely. Counts of calls stay exact; totals are estimates as with `every`, and flagged
/// as such. A mark's own `every` and the filter's `every:N` take precedence. Async functions have
/// no budget, because their calls may move between threads. The guide's chapter on production explains what a budget
/// can and cannot do.
///
/// A call that is not measured still costs a few nanoseconds. From time to time, each thread reads its CPU time, by one
/// system call.
///
/// # Errors
///
/// The same as [`set_filter`]: a budget takes one slot for each mark.
///
/// ```standalone_crate
/// use perfmark::{Budget, perfmark, set_budget, snapshot};
///
/// #[perfmark(time)]
/// fn step(n: u64) -> u64 {
///     n.rotate_left(7) ^ n
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// set_budget(Some(Budget::percent(2.0)?))?;
/// let end = (0..1_000_000).fold(1, |n, _| step(n));
/// set_budget(None)?;
/// # assert_ne!(end, 1);
/// # if cfg!(feature = "record") {
/// assert_eq!(snapshot().marks.iter().find(|mark| mark.name == "step").map(|mark| mark.calls), Some(1_000_000));
/// # }
/// # Ok(())
/// # }
/// ```
pub fn set_budget(budget: Option<Budget>) -> Result<(), SettingsError> {
    recording::note_api_use();
    recording::set_budget(budget)
}

/// The budget in force for the process: that of [`set_budget`] or `PERFMARK_BUDGET`.
#[must_use]
pub fn budget() -> Option<Budget> {
    recording::note_api_use();
    recording::budget()
}

/// The filter in force.
#[must_use]
pub fn filter() -> Filter {
    recording::note_api_use();
    recording::filter()
}
