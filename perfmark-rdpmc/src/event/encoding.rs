//! An event, encoded for the kernel of one machine.

use std::ffi::CString;

use super::format::Words;
use crate::sys::{TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_RAW, TYPE_SOFTWARE, TYPE_TRACEPOINT};

/// The encoding of an event for one PMU of one machine: the values for `struct perf_event_attr`.
///
/// ```
/// use perfmark_rdpmc::{Hardware, Event, Machine};
///
/// // One for each core PMU: two on a machine with performance and efficiency cores.
/// for encoding in Event::from(Hardware::Instructions).resolve(&Machine::here())? {
///     println!("type {} config {:#x}", encoding.kind, encoding.config);
/// }
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Encoding {
    /// The PMU's name in sysfs, if it is listed there.
    pub pmu: Option<String>,
    /// The kernel's number for the kind of event, or the PMU's `type` in sysfs.
    pub kind: u32,
    /// The event's number within its kind.
    pub config: u64,
    /// An extension of `config`; a breakpoint's address.
    pub config1: u64,
    /// An extension of `config`; a breakpoint's length, a probe's offset.
    pub config2: u64,
    /// An extension of `config` (since linux 6.3).
    pub config3: u64,
    /// The accesses that a breakpoint counts (`HW_BREAKPOINT_*`).
    pub bp_type: u32,
    /// The factor by which to multiply a count, if the PMU lists one.
    pub scale: Option<f64>,
    /// The unit of the scaled count, if the PMU lists one.
    pub unit: Option<String>,
    pub(crate) counted_by: CountedBy,
    /// Whether it happens in kernel mode only, so that a count of user mode is always 0.
    pub(crate) kernel_only: bool,
    /// A probe's location. `config1` must point to it.
    pub(crate) text: Option<CString>,
}

/// Who counts the event, which determines how it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedBy {
    /// A hardware counter, which a thread may read itself where the kernel allows it.
    Core,
    /// A hardware register that does not contain a count: Intel's slots and the topdown metrics derived from them. Only
    /// read(2) returns correct values.
    Topdown,
    /// The kernel, or a PMU outside the cores.
    Kernel,
}

/// Whether events of that type may be counted by hardware: all types except the kernel's own. PMUs outside the cores
/// have types of their own as well; the kernel then assigns no counter that user space can read.
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
            kernel_only: kind == TYPE_SOFTWARE && super::Software::is_kernel_only(config),
            text: None,
        }
    }

    pub(super) fn with_words(kind: u32, [config, config1, config2, config3]: Words) -> Self {
        Self { config1, config2, config3, ..Self::new(kind, config) }
    }

    /// The core PMU that the encoding names, if it names one.
    pub(crate) fn core_pmu(&self) -> Option<&str> {
        self.pmu.as_deref().filter(|_| self.counted_by != CountedBy::Kernel)
    }

    /// Whether the thread that opened it may read it without a system call, where the kernel allows that at all.
    #[must_use]
    pub fn is_user_readable(&self) -> bool {
        self.counted_by == CountedBy::Core
    }

    /// Whether it is one of Intel's topdown events: slots, and the metrics derived from them. A metric must be opened
    /// in a group whose leader is the slots event. The processor stores it as a fraction that `read(2)` converts to
    /// slots; `rdpmc` returns packed fractions, not a count (`tools/perf/Documentation/topdown.txt`, linux 6.12).
    #[must_use]
    pub fn is_topdown(&self) -> bool {
        self.counted_by == CountedBy::Topdown
    }
}
