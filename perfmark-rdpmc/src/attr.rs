//! How an event is to be counted.

use std::fmt;

use crate::event::Event;
use crate::sys::{
    FLAG_EXCLUDE_HV, FLAG_EXCLUDE_KERNEL, FORMAT_TOTAL_TIME_ENABLED, FORMAT_TOTAL_TIME_RUNNING, PerfEventAttr,
};

/// An event and how it is to be counted: by default in user mode only, with the widest counters there are.
///
/// ```
/// use perfmark_rdpmc::{Attr, Hardware};
///
/// let whole = Attr::new(Hardware::Cycles).kernel(true);
/// assert_eq!(whole.event().to_string(), "cycles");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attr {
    event: Event,
    kernel: bool,
    wide: bool,
}

impl Attr {
    /// Counts `event` in user mode.
    #[must_use]
    pub fn new(event: impl Into<Event>) -> Self {
        Self { event: event.into(), kernel: false, wide: true }
    }

    /// Whether to count what the kernel and a hypervisor do for this thread, too. Needs rights where
    /// `kernel.perf_event_paranoid` is 2 or more.
    #[must_use]
    pub fn kernel(self, kernel: bool) -> Self {
        Self { kernel, ..self }
    }

    /// Whether to ask for 64-bit counters first (arm64, where each counter has 32 bits unless asked and able to do more). Totals are
    /// exact either way: the kernel takes an interrupt when a narrow counter overflows.
    #[must_use]
    pub fn wide(self, wide: bool) -> Self {
        Self { wide, ..self }
    }

    /// What is counted.
    #[must_use]
    pub fn event(&self) -> Event {
        self.event
    }

    pub(crate) fn counts_kernel(&self) -> bool {
        self.kernel
    }

    pub(crate) fn asks_wide(&self) -> bool {
        self.wide
    }

    pub(crate) fn encode(&self) -> PerfEventAttr {
        let (kind, config) = self.event.encoding();
        PerfEventAttr {
            kind,
            size: PerfEventAttr::SIZE,
            config,
            read_format: FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING,
            flags: if self.kernel { 0 } else { FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV },
            ..PerfEventAttr::default()
        }
    }
}

impl fmt::Display for Attr {
    /// As perf writes it: `cycles:u` for user mode only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.event, if self.kernel { "" } else { ":u" })
    }
}

impl From<Event> for Attr {
    fn from(event: Event) -> Self {
        Self::new(event)
    }
}
