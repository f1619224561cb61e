//! An event as one machine's kernel wants it.

use std::ffi::CString;

use super::format::Words;
use crate::sys::{TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_RAW, TYPE_SOFTWARE, TYPE_TRACEPOINT};

/// An event's numbers on one machine, for one of its PMUs: what `struct perf_event_attr` is filled with.
///
/// ```
/// use perfmark_rdpmc::{Hardware, Event, Machine};
///
/// // One a core PMU: two on a machine with performance and efficiency cores.
/// for encoding in Event::from(Hardware::Instructions).resolve(&Machine::here())? {
///     println!("type {} config {:#x}", encoding.kind, encoding.config);
/// }
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Encoding {
    /// The PMU's name in sysfs, where it is one that sysfs has.
    pub pmu: Option<String>,
    /// The kernel's number for the kind of event, or the PMU's `type` in sysfs.
    pub kind: u32,
    /// The event among its kind.
    pub config: u64,
    /// An extension of `config`; a breakpoint's address.
    pub config1: u64,
    /// An extension of `config`; a breakpoint's length, a probe's offset.
    pub config2: u64,
    /// An extension of `config` (since linux 6.3).
    pub config3: u64,
    /// Which accesses a breakpoint watches (`HW_BREAKPOINT_*`).
    pub bp_type: u32,
    /// What a count is to be multiplied by, where the PMU lists a factor.
    pub scale: Option<f64>,
    /// The unit of the scaled count, where the PMU lists one.
    pub unit: Option<String>,
    pub(crate) counted_by: CountedBy,
    /// Whether it happens in the kernel's part alone, so that counting user mode only gives nothing, ever.
    pub(crate) kernel_only: bool,
    /// Where a probe is: the kernel wants a pointer to it in `config1`.
    pub(crate) text: Option<CString>,
}

/// Who counts, and so who can tell the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedBy {
    /// A hardware counter, which a thread may read for itself where the kernel allows.
    Core,
    /// A hardware register that holds no count: Intel's slots and the topdown metrics in it, which read(2) alone tells rightly.
    Topdown,
    /// The kernel, or a PMU outside of the cores.
    Kernel,
}

/// Whether events of that type may be hardware's: all but the kernel's own types. PMUs beside the cores have types of their own, too, and
/// then the kernel gives no counter to read.
pub(super) fn may_be_hardware(kind: u32) -> bool {
    !matches!(kind, TYPE_SOFTWARE | TYPE_TRACEPOINT | crate::sys::TYPE_BREAKPOINT)
}

impl Encoding {
    pub(super) fn new(kind: u32, config: u64) -> Self {
        let is_core = matches!(kind, TYPE_HARDWARE | TYPE_HW_CACHE | TYPE_RAW);
        Self {
            pmu: None,
            kind,
            config,
            config1: 0,
            config2: 0,
            config3: 0,
            bp_type: 0,
            scale: None,
            unit: None,
            counted_by: if is_core { CountedBy::Core } else { CountedBy::Kernel },
            kernel_only: match kind {
                TYPE_SOFTWARE => super::Software::is_kernel_only(config),
                TYPE_TRACEPOINT => true,
                _ => false,
            },
            text: None,
        }
    }

    pub(super) fn with_words(kind: u32, words: Words) -> Self {
        let [config, config1, config2, config3] = words.config;
        Self { config1, config2, config3, ..Self::new(kind, config) }
    }

    /// The core PMU that it is aimed at, if it is at one.
    pub(crate) fn core_pmu(&self) -> Option<&str> {
        self.pmu.as_deref().filter(|_| self.counted_by != CountedBy::Kernel)
    }

    /// Whether the thread that opened it may read it without the kernel, where the kernel allows that at all.
    #[must_use]
    pub fn is_user_readable(&self) -> bool {
        self.counted_by == CountedBy::Core
    }

    /// Whether it is one of Intel's topdown pseudo events: slots, and parts of them. A part is opened in a group that slots lead, and the
    /// processor keeps it as a fraction that `read(2)` turns into slots; `rdpmc` gives packed fractions, no count
    /// (`tools/perf/Documentation/topdown.txt`, linux 6.12).
    #[must_use]
    pub fn is_topdown(&self) -> bool {
        self.counted_by == CountedBy::Topdown
    }
}
