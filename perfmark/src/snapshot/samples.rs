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
    /// The functions and source lines at these addresses; empty if nobody has named them. The feature `symbols` and
    /// `perfmark report --symbols` do.
    #[cfg_attr(feature = "serde", serde(default))]
    pub named: Vec<NamedAddress>,
    /// The frames of [`named`](Self::named).
    #[cfg_attr(feature = "serde", serde(default))]
    pub frames: Vec<Frame>,
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

/// What is at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct NamedAddress {
    /// The file, as an index in [`Samples::modules`].
    pub module: usize,
    /// The address, as in [`SampledAddress::address`].
    pub address: u64,
    /// The function whose code it is comes last. Those before it are inlined there, the innermost first. At least one,
    /// as indices in [`Samples::frames`].
    pub frames: Vec<usize>,
}

/// A function, and a line of its source.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Frame {
    /// The function's path.
    pub function: String,
    /// The source file, as it was passed to the compiler, with the compiler's directory before it.
    pub file: Option<String>,
    /// The line that was executed, or from which the inlined function before it was called.
    pub line: Option<u32>,
}

impl Samples {
    /// The number of all samples.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.paths.iter().map(|path| path.samples).fold(self.unattributed, u64::saturating_add)
    }

    /// Checks that every index is the index of something.
    #[cfg(feature = "serde")]
    pub(super) fn check(&self) -> Result<(), String> {
        let modules = self.paths.iter().flat_map(|path| &path.addresses).map(|one| one.module);
        if let Some(module) = modules.chain(self.named.iter().map(|one| one.module)).max()
            && module >= self.modules.len()
        {
            return Err(format!("samples: there is no module {module}"));
        }
        if let Some(&frame) = self.named.iter().flat_map(|one| &one.frames).max()
            && frame >= self.frames.len()
        {
            return Err(format!("samples: there is no frame {frame}"));
        }
        if self.named.iter().any(|one| one.frames.is_empty()) {
            return Err("samples: a named address has no frame".into());
        }
        Ok(())
    }
}

impl SampledPath {
    /// `None` if there are no samples.
    pub(crate) fn new(marks: Vec<usize>, addresses: impl IntoIterator<Item = ((usize, u64), u64)>) -> Option<Self> {
        let one = |((module, address), samples)| SampledAddress { module, address, samples };
        let mut addresses: Vec<_> = addresses.into_iter().map(one).filter(|one| one.samples > 0).collect();
        addresses.sort_by_key(|one| (std::cmp::Reverse(one.samples), one.module, one.address));
        let samples = addresses.iter().map(|one| one.samples).fold(0, u64::saturating_add);
        (samples > 0).then_some(Self { marks, samples, addresses })
    }
}
