//! Samples: where the program was at regular moments.

/// Where the program was at regular moments, and in which calls of marks.
///
/// `Sampling` takes them, which requires the feature `sampling`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Samples {
    /// The event, as perf writes it. There is a sample whenever it has occurred a number of times.
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
    /// The number of samples in calls that were still open, or whose call is unknown.
    pub unattributed: u64,
    /// The number of threads that called marks and could not be sampled.
    pub threads_without: u64,
    /// The samples, by paths of marks; those outside of all marks first.
    pub paths: Vec<SampledPath>,
    /// The files that the code was in.
    pub modules: Vec<Module>,
}

/// The samples directly in the calls of a mark, reached by one path of marks. Those in marked callees are in paths of
/// their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SampledPath {
    /// The marks from the outermost to the innermost, as indices in [`Snapshot::marks`](crate::Snapshot::marks). A mark
    /// that called itself is there once. Empty outside of all marks.
    pub marks: Vec<usize>,
    /// The number of samples.
    pub samples: u64,
    /// Where they were, the address with the most samples first.
    pub addresses: Vec<SampledAddress>,
}

/// The samples at one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SampledAddress {
    /// The file, as an index in [`Samples::modules`].
    pub module: usize,
    /// The address as the file has it: without the address at which the file is mapped.
    pub address: u64,
    /// The number of samples.
    pub samples: u64,
}

/// A file with code: the program, or a shared library.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Module {
    /// Its path. Empty for code that is in no file, whose addresses are those in memory.
    pub path: String,
    /// Its build id in hexadecimal, which the linker writes.
    pub build_id: Option<String>,
}

impl Samples {
    /// The number of all samples.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.paths.iter().map(|path| path.samples).fold(self.unattributed, u64::saturating_add)
    }
}

impl SampledPath {
    /// `None` if there are no samples.
    pub(crate) fn new(marks: Vec<usize>, addresses: impl IntoIterator<Item = ((usize, u64), u64)>) -> Option<Self> {
        let one = |((module, address), samples)| SampledAddress { module, address, samples };
        let mut addresses: Vec<_> = addresses.into_iter().map(one).filter(|one| one.samples > 0).collect();
        addresses.sort_by_key(|one| (std::cmp::Reverse(one.samples), one.module, one.address));
        let samples = addresses.iter().map(|one| one.samples).sum();
        (samples > 0).then_some(Self { marks, samples, addresses })
    }
}
