//! The data of a snapshot.

#[cfg(feature = "serde")]
use serde::de::Deserializer;

#[cfg(any(all(feature = "record", feature = "json"), feature = "serde"))]
use super::of_event::OfEvent;
use super::samples::{Samples, possible};
#[cfg(feature = "serde")]
use super::{limits, serde_format};

/// All that was recorded in this process until now: every thread's values merged, with ticks converted to nanoseconds.
///
/// [`snapshot()`](crate::snapshot) returns it. With the feature `serde` it implements `Serialize` and `Deserialize`.
/// Its JSON format is the one that `PERFMARK_FORMAT=json` writes, so that reports can be read back and merged.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Snapshot {
    pub(crate) schema: Schema,
    /// The version of perfmark that recorded it, such as `0.1.0`; empty if it is not known. In a merged snapshot it is
    /// that of the first; if another one differs, a note says so.
    #[cfg_attr(feature = "serde", serde(default))]
    pub perfmark: String,
    /// The program's name, without its folder.
    pub program: String,
    /// The process's number; 0 if it is not known.
    pub pid: u32,
    /// How many threads made at least one call.
    pub threads: u64,
    /// The most threads that recorded at the same time, since the program started; `None` if it is not known. In a
    /// merged snapshot, of the process with the most.
    #[cfg_attr(feature = "serde", serde(default))]
    pub threads_at_once: Option<u64>,
    /// Nanoseconds since the program started, or since the last [`reset`](crate::reset). In a forked child, since the
    /// fork.
    pub wall_ns: u64,
    /// The CPU time of the process in nanoseconds, in user and kernel mode, of all threads; `None` if it is not known.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cpu_ns: Option<u64>,
    /// How often the kernel took the CPU from one of the process's threads, because other work was waiting for it
    /// (`ru_nivcsw` of getrusage(2)); `None` if it is not known.
    #[cfg_attr(feature = "serde", serde(default))]
    pub involuntary_switches: Option<u64>,
    /// What measuring took at least, in nanoseconds: the sum of [`Mark::overhead_ns`], and the time of threads' first
    /// calls and ends, in which they may have waited. The setup of the first thread that called a mark is not included.
    /// `None` if no mark has it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub overhead_ns: Option<u64>,
    /// The number of calls of [`reset`](crate::reset) before it.
    pub resets: u32,
    /// Every event that a mark requests, and how it was counted.
    pub events: Vec<Event>,
    /// Every mark of the program, including those never called, in the order of file and line.
    pub marks: Vec<Mark>,
    /// The call graph, callers first; empty without `PERFMARK_CALL_GRAPH=on`.
    #[cfg_attr(feature = "serde", serde(default, deserialize_with = "call_graph"))]
    pub call_graph: Vec<Node>,
    /// Measured calls that are in no node. Either there was no room for one (a thread has 8,192 nodes, all together
    /// have 16,384), or the call was deeper than the thread's stack of open calls. In a merged snapshot, also the calls
    /// of snapshots without a call graph.
    #[cfg_attr(feature = "serde", serde(default))]
    pub call_graph_lacks: u64,
    /// Where the program was at regular moments, by the event and rate of sampling; empty if it was not sampled.
    /// With neither `sampling` nor `serde`, a program gets no samples: arithmetic and reports ignore this then.
    #[cfg_attr(feature = "serde", serde(default, deserialize_with = "serde_format::samples"))]
    pub samples: Vec<Samples>,
    /// The source text around sampled lines; empty unless `PERFMARK_SOURCES=embed` or `Report::embed_sources` added it.
    /// They add at most 1 MiB. A merged snapshot has the text of all its parts.
    #[cfg_attr(feature = "serde", serde(default))]
    pub sources: Vec<SourceText>,
    /// Information that is necessary to read the values, a sentence each: refused settings, counters that some threads
    /// did not have.
    pub notes: Vec<String>,
}

impl Snapshot {
    /// The samples, for code that a program with neither `sampling` nor `serde` need not have.
    #[inline]
    pub(crate) fn sampled(&self) -> &[Samples] {
        possible(&self.samples)
    }

    /// The version of the format that this version of perfmark writes and reads, as the field `schema`. Reports of
    /// another version are refused.
    ///
    /// It rises when a field is removed or renamed, or changes its type, unit, meaning or set of values. New fields do
    /// not raise it; readers ignore fields that they do not know.
    pub const SCHEMA: u32 = 2;
}

#[cfg(feature = "serde")]
fn call_graph<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Node>, D::Error> {
    serde_format::call_graph(deserializer, |node: &Node| (node.parent, node.mark))
}

/// [`Snapshot::SCHEMA`] in the serialized form.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(into = "u32", try_from = "u32"))]
pub(crate) struct Schema;

#[cfg(any(all(feature = "record", feature = "json"), feature = "serde"))]
impl From<Schema> for u32 {
    fn from(_: Schema) -> Self {
        Snapshot::SCHEMA
    }
}

#[cfg(feature = "serde")]
impl TryFrom<u32> for Schema {
    type Error = String;

    /// Refuses other versions, because their fields have other meanings.
    fn try_from(schema: u32) -> Result<Self, String> {
        const KNOWN: u32 = Snapshot::SCHEMA;
        if schema == KNOWN {
            return Ok(Self);
        }
        Err(format!("this report has schema {schema}, but this version of perfmark reads schema {KNOWN}"))
    }
}

/// Successive lines of a source file, for readers that do not have the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SourceText {
    /// The file, as [`Frame::file`](crate::Frame::file) names it.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::text"))]
    pub file: String,
    /// The number of the first line.
    pub line: u32,
    /// The lines, each of at most 300 characters. Control characters other than tabs are replaced. In a merged
    /// snapshot, a line with different texts in the merged ones is empty.
    pub lines: Vec<String>,
}

/// What one thread recorded, or all threads that ended.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Thread {
    /// The kernel's number of the thread (gettid(2)), on other systems a unique number. `None` for threads that ended,
    /// and if it is unknown.
    pub id: Option<u32>,
    /// Its name in the kernel, of 15 bytes at most.
    pub name: Option<String>,
    /// The marks that it called, in the order of file and line.
    pub marks: Vec<Mark>,
}

/// An event that marks request, and how it was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Event {
    /// The event's name, as perf writes it: `instructions`, `page-faults`, `time`.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::text"))]
    pub name: String,
    /// The unit of its values.
    pub unit: Unit,
    /// How it was read.
    pub read: Read,
    /// Why it was not read in user space, or not at all. For [`Read::Emulated`], the emulator.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::optional_text"))]
    pub reason: Option<String>,
}

/// The unit of an event's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Unit {
    /// Occurrences.
    #[default]
    Count,
    /// Nanoseconds.
    Ns,
}

/// How an event was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Read {
    /// By the processor's instruction for it, in user space.
    User,
    /// By read(2).
    Syscall,
    /// From the processor's tick counter (`time`).
    Ticks,
    /// As an emulator counted it, under `perfmark run --emulate`. A time is that of the emulator; it is recorded only
    /// if no counter may be opened ([`disable_counters`](crate::disable_counters)).
    Emulated,
    /// Not at all; [`Event::reason`] says why.
    #[default]
    None,
}

/// The values of one mark.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Mark {
    /// The function's name, or the one given with `name = "…"`.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::text"))]
    pub name: String,
    /// The function's full path.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::text"))]
    pub path: String,
    /// The source file, as it was passed to the compiler.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::text"))]
    pub file: String,
    /// The line of the attribute.
    pub line: u32,
    /// For a mark with `generic`, a hash of its types, in which types of one name differ; 0 for other marks. It is the
    /// same in all processes of a build, and depends on the build. In a merged snapshot it is that of the first.
    #[cfg_attr(feature = "serde", serde(default))]
    pub type_hash: u32,
    /// Whether the [filter](crate::Filter) in force turns the mark on; in a merged snapshot, whether that of any run
    /// does.
    pub on: bool,
    /// Calls that ended, in any way.
    pub calls: u64,
    /// Calls that had begun and not ended when the snapshot was taken.
    pub in_flight: u64,
    /// Of `calls`, those that a panic ended: in no distribution. A skipped call is not among them, however it ended.
    pub unwound: u64,
    /// Of `calls` of an async function, those whose future was dropped in the middle: in no distribution.
    pub cancelled: u64,
    /// The number of polls of an async function's calls; 0 for other functions.
    pub polls: u64,
    /// Of `calls`, those in a signal handler that interrupted perfmark's entry or exit code on the thread. They are
    /// unmeasured.
    pub interrupted: u64,
    /// The mark's `every`: one call in so many is measured.
    pub every: u32,
    /// The [budget](crate::Budget) that the mark shares, in percent of each thread's CPU time: of how many calls one is
    /// measured is then chosen while the program runs. `None` if the mark has no budget.
    #[cfg_attr(feature = "serde", serde(default))]
    pub budget_percent: Option<f64>,
    /// Of `calls`, those that `every`, the budget or a filter skipped: counted, and not measured.
    pub skipped: u64,
    /// What the mark's calls took at least besides their own time, in nanoseconds: the
    /// [probe overhead](Overhead::total) of each measured call, and that of each skipped one. That of polls is not
    /// included. `None` if the mark recorded neither `time` nor `on_cpu`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub overhead_ns: Option<u64>,
    /// The values of each event recorded, in the order in which the mark names them.
    #[cfg_attr(feature = "serde", serde(with = "serde_format::by_event"))]
    pub values: Vec<Values>,
}

impl Mark {
    /// The text that filters are compared with.
    #[cfg(feature = "record")]
    pub(crate) fn target(&self) -> String {
        super::path::target(self.path.clone(), &self.name)
    }

    /// The order of marks in a snapshot: by location.
    pub(crate) fn by_location(&self, other: &Self) -> std::cmp::Ordering {
        let others = (&other.file, other.line, &other.path, other.type_hash);
        (&self.file, self.line, &self.path, self.type_hash).cmp(&others)
    }
}

/// One event's values over one mark's calls.
///
/// Counts are of calls. Sums, `min`, `max`, `mean` and quantiles are in the event's unit ([`Event::unit`]).
///
/// Each call of the mark is in one of five counts:
/// `measured + unmeasured + unwound + cancelled + skipped = calls`. The [mark](Mark) has all of them but the first two.
/// The equation holds if no thread records meanwhile, and no filter changed the mark's events.
///
/// The distribution, which is `min`, `max`, `mean`, the quantiles and `buckets`, is of the measured calls. Each counts
/// as many calls as it represents: one, or `N` of a mark with `every = N`. So the counts of all buckets add up to
/// `weight`, not to `measured`, and `mean` is `sum / weight`. Without `every`, `weight` equals `measured`.
///
/// `self_sum` is over `weight + imputed` calls, and so is `total`, without calls inside another call of the same mark.
/// If calls were skipped, `weight` is an estimate of `measured + skipped`; reports for people multiply the sums by
/// `(measured + skipped) / weight`.
///
/// Sums are signed, because the cost of the probes is subtracted from them. Counts and sums are additive: those of two
/// threads, two processes or two spans of time add up to those of both.
///
/// With the feature `serde`, serialize the [`Mark`] or the [`Snapshot`] and not the values alone: their serialized form
/// lacks `event`, which is their key in that of the mark.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Values {
    /// The event's name as perf writes it, or as perfmark does; in JSON the key. perf's generic events have hyphens:
    /// `#[perfmark(page_faults)]` records `page-faults`. `Mark::event` finds values by any name of their event.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub event: String,
    /// Calls that were measured, each counted once.
    pub measured: u64,
    /// Calls that the measured ones represent: the sum of the counts in `buckets`.
    pub weight: u64,
    /// Of `measured`, the calls counted in part and scaled by enabled / running time.
    pub scaled: u64,
    /// Calls that were to be measured, and could not be: all that are in none of the other four counts. They are in no
    /// distribution.
    pub unmeasured: u64,
    /// Calls that were not measured, and for which `total` and `self_sum` include an estimate: the mean of the calls
    /// that the same thread measured before (mean imputation). Each counts with its weight, as the measured calls do.
    pub imputed: u64,
    /// The sum over the calls in the distribution, each counted with its weight.
    pub sum: i64,
    /// The sum over the measured and the imputed calls that had no other call of the same mark around them: recursion
    /// counts once.
    pub total: i64,
    /// Of `unmeasured`, the outermost calls of a recursive function: `total` lacks them and all calls inside them.
    pub missing_outermost: u64,
    /// Whether `total` and `self_sum` are estimates, because calls were skipped or not measured.
    pub extrapolated: bool,
    /// Of `measured`, the calls whose self is an estimate because marked calls inside them were skipped.
    pub estimated: u64,
    /// The sum over the measured and the imputed calls, without what marked calls inside them cost. Unlike `total`,
    /// it includes calls inside another call of the same mark.
    #[cfg_attr(feature = "serde", serde(rename = "self"))]
    pub self_sum: Option<i64>,
    /// As `total`, of calls that a panic ended, and of async calls that were dropped. They are not in `total`.
    pub unwound_total: i64,
    /// As `self_sum`, of these.
    pub unwound_self: i64,
    /// As `total`, of calls in flight, until now: those of the thread that took the snapshot. Those of other threads
    /// are [counted](Mark::in_flight) only. Between two snapshots it is the difference of the two: what an earlier
    /// snapshot had of a call that ended since is subtracted.
    pub in_flight_total: i64,
    /// As `self_sum`, of these.
    pub in_flight_self: i64,
    /// The smallest measured call. An estimate if that call was `scaled`, as for all statistics of scaled calls.
    pub min: Option<u64>,
    /// The largest measured call; an estimate likewise.
    pub max: Option<u64>,
    /// `sum / weight`.
    pub mean: Option<f64>,
    /// Half the calls are at or below; within 1/64 of the value, as every quantile here.
    pub p50: Option<u64>,
    /// Nine in ten calls are at or below.
    pub p90: Option<u64>,
    /// 99 in a hundred calls are at or below.
    pub p99: Option<u64>,
    /// 999 in a thousand calls are at or below.
    pub p999: Option<u64>,
    /// The probe overhead, which is subtracted from all values here.
    pub overhead: Overhead,
    /// The histogram: every bucket that is not empty, in the order of values. The numbers of calls add up to `weight`.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "serde_format::buckets"))]
    pub buckets: Vec<Bucket>,
}

/// A bucket of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "(u64, u64, u64)", into = "(u64, u64, u64)")
)]
#[non_exhaustive]
pub struct Bucket {
    /// The lowest value.
    pub low: u64,
    /// The highest value, which the bucket includes.
    pub high: u64,
    /// The number of calls with these values.
    pub calls: u64,
}

/// From the lowest value, the highest value and the number of calls, as in JSON.
impl From<(u64, u64, u64)> for Bucket {
    fn from((low, high, calls): (u64, u64, u64)) -> Self {
        Self { low, high, calls }
    }
}

/// The lowest value, the highest value and the number of calls, as in JSON.
impl From<Bucket> for (u64, u64, u64) {
    fn from(Bucket { low, high, calls }: Bucket) -> Self {
        (low, high, calls)
    }
}

/// A mark's calls under one caller.
///
/// The same mark under another caller is another node: a path from a node to the one without a caller is a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Node {
    /// The caller's index in [`Snapshot::call_graph`], which is lower than this node's; `None` if no measured call was
    /// around these. A call that `every` skips is in no node: its callees are under its caller.
    pub parent: Option<usize>,
    /// The mark's index in [`Snapshot::marks`].
    pub mark: usize,
    /// Calls that ended.
    pub calls: u64,
    /// The values of each event recorded.
    #[cfg_attr(feature = "serde", serde(with = "serde_format::by_event"))]
    pub values: Vec<NodeValues>,
}

/// One event's values over a node's calls.
///
/// The sums of all nodes of a mark add up to the mark's, with these exceptions:
/// - Calls that a panic ended, calls in flight and [imputed](Values::imputed) calls are in no node's sums.
/// - Of an async function, each poll's cost is added when the poll ends: also if its call is not over, was dropped, or
///   was ended by a panic later.
///
/// With the feature `serde`, serialize the [`Node`] or the [`Snapshot`] and not the values alone: their serialized form
/// lacks `event`, which is their key in that of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct NodeValues {
    /// The event's name, as [`Values::event`](field@Values::event); in JSON the key.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub event: String,
    /// Calls that were measured.
    pub measured: u64,
    /// The sum over these, each counted with its weight.
    pub sum: i64,
    /// The sum without what marked calls inside these calls cost.
    #[cfg_attr(feature = "serde", serde(rename = "self"))]
    pub self_sum: Option<i64>,
}

#[cfg(any(all(feature = "record", feature = "json"), feature = "serde"))]
macro_rules! of_event {
    ($($values:ty)*) => {
        $(impl OfEvent for $values {
            fn event(&self) -> &str {
                &self.event
            }

            #[cfg(feature = "serde")]
            fn of(self, event: String) -> Self {
                Self { event, ..self }
            }
        })*
    };
}
#[cfg(any(all(feature = "record", feature = "json"), feature = "serde"))]
of_event! { Values NodeValues }

/// The probe overhead of a mark in one event, measured in this process for each set of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Overhead {
    /// The part that a call's own value includes.
    pub in_call: u64,
    /// All of it: the values of the marked calls around it include this.
    pub total: u64,
    /// The variation of `in_call`: in nine cases of ten, at most this much remains of an empty call. A value no larger
    /// than this is not significant.
    pub noise: u64,
}
