//! Samples: where the program was at regular moments.

#[cfg(feature = "serde")]
use super::limits::{self, DEEPEST};
use crate::compact::sort_by;

/// Where the program was at regular moments, and in which calls of marks.
///
/// `Sampling` takes them, which requires the feature `sampling`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Samples {
    /// The event, as perf writes it. There is a sample whenever it has occurred a number of times.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::text"))]
    pub event: String,
    /// The number of its occurrences between two samples; `None` if a frequency was set.
    pub period: Option<u64>,
    /// The number of samples a second of each thread's CPU time; `None` if a period was set.
    pub frequency: Option<u64>,
    /// The number of samples that the kernel could not write, because nobody had read the ring. Those that were written
    /// are then no fair selection.
    pub lost: u64,
    /// How often the kernel took no samples for a while, because there were too many.
    pub throttled: u64,
    /// The number of samples that belong to no mark: in calls that were still open, that were too deep, or that are
    /// unknown, because they began before sampling or perfmark had no room to note them.
    pub unattributed: u64,
    /// How many of these were in calls that were still open.
    #[cfg_attr(feature = "serde", serde(default))]
    pub in_open_calls: u64,
    /// How many of these were in calls that perfmark could not record, because the thread had about 1,170 open calls,
    /// or in the call around them.
    #[cfg_attr(feature = "serde", serde(default))]
    pub too_deep: u64,
    /// The number of threads that could not be sampled.
    pub threads_without: u64,
    /// Why the first of these could not be sampled.
    #[cfg_attr(feature = "serde", serde(default, deserialize_with = "limits::optional_text"))]
    pub why_without: Option<String>,
    /// The number of threads that ended before perfmark could sample them.
    pub threads_too_short: u64,
    /// The number of samples that [`retain`](crate::Snapshot::retain) removed with their marks; `None` if it removed no
    /// mark. The other counts here are those before.
    #[cfg_attr(feature = "serde", serde(default))]
    pub removed: Option<u64>,
    /// The CPU time of all threads in user mode while the program was sampled, in nanoseconds, as the kernel estimates
    /// it, without perfmark's own threads. 0 if it is unknown.
    #[cfg_attr(feature = "serde", serde(default))]
    pub user_ns: u64,
    /// The bytes of each thread's stack from which callers are known. If it is 0, callers are known by frame pointers,
    /// or only the executed instruction is known.
    pub stack_bytes: u64,
    /// Whether the first 131,072 samples have [times](SampledStack::times).
    #[cfg_attr(feature = "serde", serde(default))]
    pub timestamps: bool,
    /// The samples, by paths of marks; those outside of all marks first.
    pub paths: Vec<SampledPath>,
    /// The instructions in stacks, in the order of their modules and addresses.
    pub locations: Vec<Location>,
    /// The files that the code was in.
    pub modules: Vec<Module>,
    /// The functions and lines of the locations; empty if nobody has named them. The feature `symbols` and
    /// `perfmark report --symbols` do.
    pub frames: Vec<Frame>,
    /// The threads to which [times](SampledStack::times) refer.
    #[cfg_attr(feature = "serde", serde(default))]
    pub threads: Vec<TimedThread>,
}

/// A thread that has samples with times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TimedThread {
    /// The kernel's number of the thread (gettid(2)).
    pub id: u32,
    /// Its name in the kernel, of 15 bytes at most. `None` if it is unknown.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::optional_text"))]
    pub name: Option<String>,
}

/// The samples directly in the calls of a mark, reached by one path of marks. Those in marked callees are in paths of
/// their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SampledPath {
    /// The marks from the outermost to the innermost, as indices in [`Snapshot::marks`](crate::Snapshot::marks). A mark
    /// that called itself is there once. Empty outside of all marks. Beyond 8,192 paths of a thread, or 16,384 of an
    /// event, other paths have their innermost mark only; a note of the snapshot says how many samples that are. With
    /// `PERFMARK_CALL_GRAPH=on`, skipped calls are in a path only as the innermost mark.
    pub marks: Vec<usize>,
    /// Outside of all marks, the name of the threads, as the kernel has it: at most 15 bytes. Each number in it is `*`,
    /// so `worker-*` are all workers. `None` inside of marks, if the name is unknown, and beyond 64 names.
    #[cfg_attr(feature = "serde", serde(default, deserialize_with = "limits::optional_text"))]
    pub thread: Option<String>,
    /// The number of samples.
    pub samples: u64,
    /// Where they were, the stack with the most samples first.
    pub stacks: Vec<SampledStack>,
}

/// The samples at one instruction with the same callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SampledStack {
    /// The executed instruction, then the calls through which the thread got there, the innermost first. They are
    /// indices in [`Samples::locations`]. The outermost known call is usually in the marked function or in one of its
    /// callers.
    pub locations: Vec<usize>,
    /// The number of samples.
    pub samples: u64,
    /// When they were taken, if that was [asked for](Samples::timestamps).
    #[cfg_attr(feature = "serde", serde(default))]
    pub times: Vec<SampleTime>,
}

/// When a sample was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "(u64, usize)", into = "(u64, usize)")
)]
#[non_exhaustive]
pub struct SampleTime {
    /// Nanoseconds since the process started, by `CLOCK_MONOTONIC`.
    pub ns: u64,
    /// The thread, as an index in [`Samples::threads`].
    pub thread: usize,
}

/// From the time and the thread, as in JSON.
impl From<(u64, usize)> for SampleTime {
    fn from((ns, thread): (u64, usize)) -> Self {
        Self { ns, thread }
    }
}

/// The time and the thread, as in JSON.
impl From<SampleTime> for (u64, usize) {
    fn from(SampleTime { ns, thread }: SampleTime) -> Self {
        (ns, thread)
    }
}

/// Samples with one stack: how many, and as in [`SampledStack::times`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) samples: u64,
    pub(crate) times: Vec<SampleTime>,
}

impl From<u64> for Counted {
    fn from(samples: u64) -> Self {
        Self { samples, times: Vec::new() }
    }
}

/// An instruction in a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Location {
    /// The file, as an index in [`Samples::modules`].
    pub module: usize,
    /// The address as the file has it: without the address at which the file is mapped. For a call, an address in the
    /// call instruction.
    pub address: u64,
    /// The functions there, as indices in [`Samples::frames`]; empty if nobody has named them. The function whose code
    /// it is comes last. Those before it are inlined there, the innermost first.
    #[cfg_attr(feature = "serde", serde(default))]
    pub frames: Vec<usize>,
}

/// A file with code: the program, or a shared library.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Module {
    /// Its path. Empty for code that is in no file, whose addresses are those in memory.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::text"))]
    pub path: String,
    /// Its build id in hexadecimal, which the linker writes.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::optional_text"))]
    pub build_id: Option<String>,
}

/// A function, and a line of its source.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Frame {
    /// The function's path.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::text"))]
    pub function: String,
    /// The source file, as it was passed to the compiler, with the compiler's directory before it.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "limits::optional_text"))]
    pub file: Option<String>,
    /// The line that was executed, or from which the inlined function before it was called.
    pub line: Option<u32>,
}

/// The most functions at one location, inlined in one another: bounds what a damaged file can claim.
#[cfg(any(feature = "serde", feature = "symbols"))]
pub(crate) const MAX_INLINED: usize = 256;
/// The most locations of a stack in a report. The kernel's call chains have 127 by default.
#[cfg(feature = "serde")]
const MAX_CALLERS: usize = 1_024;
/// The most modules of a report.
#[cfg(feature = "serde")]
const MAX_MODULES: usize = 4_096;

/// These samples, or parts of them; none in a program that can neither take nor read samples: it has no code for them.
#[inline]
pub(crate) fn possible<T>(samples: &[T]) -> &[T] {
    if cfg!(any(test, feature = "sampling", feature = "serde")) { samples } else { &[] }
}

impl Samples {
    /// The number of all samples, without those that were [removed](Self::removed).
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.paths.iter().map(|path| path.samples).fold(self.unattributed, u64::saturating_add)
    }

    /// The number of all samples, with those that were removed.
    pub(crate) fn taken_in_all(&self) -> u64 {
        self.taken().saturating_add(self.removed.unwrap_or(0))
    }

    /// Whether locations have functions and lines.
    #[must_use]
    pub fn has_names(&self) -> bool {
        self.locations.iter().any(|location| !location.frames.is_empty())
    }

    /// Checks that every index is the index of something, and that nothing has very many parts: each stack consists of
    /// the marks of its path and the functions of its locations.
    #[cfg(feature = "serde")]
    pub(super) fn check(&self) -> Result<(), String> {
        fn check(what: &str, indices: impl Iterator<Item = usize>, count: usize) -> Result<(), String> {
            match indices.max() {
                Some(most) if most >= count => Err(format!("samples: there is no {what} {most}")),
                _ => Ok(()),
            }
        }
        let stacks = || self.paths.iter().flat_map(|path| &path.stacks);
        check("location", stacks().flat_map(|stack| &stack.locations).copied(), self.locations.len())?;
        check("module", self.locations.iter().map(|location| location.module), self.modules.len())?;
        check("thread", stacks().flat_map(|stack| &stack.times).map(|time| time.thread), self.threads.len())?;
        check("frame", self.locations.iter().flat_map(|location| &location.frames).copied(), self.frames.len())?;
        if let Some(at) = self.locations.iter().position(|location| location.frames.len() > MAX_INLINED) {
            return Err(format!("samples: location {at} has more than {MAX_INLINED} functions"));
        }
        if stacks().any(|stack| stack.locations.len() > MAX_CALLERS) {
            return Err(format!("samples: a stack has more than {MAX_CALLERS} locations"));
        }
        if self.paths.iter().any(|path| path.marks.len() > DEEPEST) {
            return Err(format!("samples: a path has more than {DEEPEST} marks"));
        }
        if self.modules.len() > MAX_MODULES {
            return Err(format!("samples: there are more than {MAX_MODULES} modules"));
        }
        if stacks().any(|stack| stack.locations.is_empty()) {
            return Err("samples: a stack has no location".into());
        }
        Ok(())
    }
}

/// What distinguishes paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathKey {
    pub(crate) marks: Vec<usize>,
    pub(crate) thread: Option<String>,
}

impl PathKey {
    /// Outside of all marks.
    #[cfg(feature = "sampling")]
    pub(crate) fn outside(thread: Option<String>) -> Self {
        Self { marks: Vec::new(), thread }
    }
}

impl From<Vec<usize>> for PathKey {
    fn from(marks: Vec<usize>) -> Self {
        Self { marks, thread: None }
    }
}

impl SampledPath {
    /// `None` if there are no samples.
    pub(crate) fn new(
        PathKey { marks, thread }: PathKey,
        stacks: impl IntoIterator<Item = (Vec<usize>, Counted)>,
    ) -> Option<Self> {
        let stack = |(locations, Counted { samples, times })| SampledStack { locations, samples, times };
        let stacks = stacks.into_iter().map(stack);
        let mut stacks: Vec<_> = stacks.filter(|stack| stack.samples > 0).collect();
        sort_by(&mut stacks, |one, other| (other.samples, &one.locations).cmp(&(one.samples, &other.locations)));
        let samples = stacks.iter().map(|stack| stack.samples).fold(0, u64::saturating_add);
        (samples > 0).then_some(Self { marks, thread, samples, stacks })
    }
}
