//! An open event whose records go to a ring.

use super::record::Layout;
use crate::pmu_event::{GROUP, Refusal};
use crate::sys::{self, Descriptor};

/// The count of a sampled event, and its lost samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// Events counted.
    pub value: u64,
    /// Nanoseconds for which the event was enabled.
    pub enabled: u64,
    /// Nanoseconds for which the event was enabled and on the PMU.
    pub running: u64,
    /// The records of this event for which the ring had no room. `None` before linux 6.0.
    pub lost: Option<u64>,
}

/// An event's descriptor. Unlike a counter's it may be used by any thread.
#[derive(Debug)]
pub(super) struct Source {
    fd: Descriptor,
    /// The generation of the process that opened it.
    generation: u32,
}

impl Source {
    pub(super) fn new(fd: Descriptor) -> Self {
        Self { fd, generation: sys::generation() }
    }

    /// The descriptor, for a request that immediately follows: its number is the event's at this moment.
    pub(super) fn fd(&self) -> Result<&Descriptor, Refusal> {
        if self.generation != sys::generation() {
            Err(Refusal::Forked)
        } else if self.fd.is_ours() {
            Ok(&self.fd)
        } else {
            Err(self.fd.why_unmarked().map_or(Refusal::Closed, Refusal::Unmarked))
        }
    }

    pub(super) fn ioctl(&self, request: u64, argument: u64) -> Result<(), Refusal> {
        sys::ioctl(self.fd()?, request, argument).map_err(Refusal::Os)
    }

    pub(super) fn ioctl_pointer<T>(&self, request: u64, argument: &mut T) -> Result<(), Refusal> {
        sys::ioctl_pointer(self.fd()?, request, argument).map_err(Refusal::Os)
    }

    /// Reads its count (`perf_event_open(2)`, "Reading results").
    pub(super) fn count(&self, layout: &Layout) -> Result<Count, Refusal> {
        let fd = self.fd()?;
        let mut numbers = [0; 3 + 3 * GROUP];
        if sys::read_numbers(fd, &mut numbers).map_err(Refusal::Os)? == 0 {
            return Err(Refusal::EndOfFile);
        }
        // For a group, the number of events is first, and each event's numbers follow the times.
        let (value, enabled, running, id, lost) = match numbers {
            [_, enabled, running, value, id, lost, ..] if layout.reads_group() => (value, enabled, running, id, lost),
            [value, enabled, running, id, lost, ..] => (value, enabled, running, id, lost),
        };
        if !fd.has_id(id) {
            return Err(Refusal::Closed);
        }
        Ok(Count { value, enabled, running, lost: layout.reads_lost().then_some(lost) })
    }

    /// Sends a signal to the thread, or to the calling one, for each sample.
    pub(super) fn send_signal(&mut self, signal: i32, thread: Option<u32>) -> Result<(), Refusal> {
        self.fd()?;
        self.fd.send_signal(signal, thread).map_err(Refusal::Os)
    }
}
