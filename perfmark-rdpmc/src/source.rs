//! An open event that any thread may use: one whose records go to a ring, or that counts for another target.

use std::ffi::CStr;

use crate::pmu_event::{GROUP, Refusal};
use crate::sys::{self, Descriptor, FORMAT_GROUP, FORMAT_LOST, IOC_ID, IOC_SET_FILTER, IOC_SET_OUTPUT};

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

/// The most numbers that `read(2)` returns: three, and then a value, an id and the lost records of each event.
pub(crate) const NUMBERS: usize = 3 + 3 * GROUP;

/// An event's descriptor. Unlike a counter's it may be used by any thread.
#[derive(Debug)]
pub(crate) struct Source {
    fd: Descriptor,
    /// The generation of the process that opened it.
    generation: u32,
}

impl Source {
    pub(crate) fn new(fd: Descriptor) -> Self {
        Self { fd, generation: sys::generation() }
    }

    /// The descriptor, for a request that immediately follows: its number is the event's at this moment.
    pub(crate) fn fd(&self) -> Result<&Descriptor, Refusal> {
        if self.generation != sys::generation() {
            Err(Refusal::Forked)
        } else if self.fd.is_ours() {
            Ok(&self.fd)
        } else {
            Err(self.why_not_ours())
        }
    }

    fn why_not_ours(&self) -> Refusal {
        self.fd.why_unmarked().map_or(Refusal::Closed, Refusal::Unmarked)
    }

    /// The descriptor, whether or not its number still is the event's.
    #[cfg(all(unix, not(perfmark_scripted)))]
    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.fd
    }

    pub(crate) fn ioctl(&self, request: u64, argument: u64) -> Result<(), Refusal> {
        sys::ioctl(self.fd()?, request, argument).map_err(Refusal::Os)
    }

    pub(crate) fn ioctl_pointer<T>(&self, request: u64, argument: &mut T) -> Result<(), Refusal> {
        sys::ioctl_pointer(self.fd()?, request, argument).map_err(Refusal::Os)
    }

    /// Reads its count (`perf_event_open(2)`, "Reading results"). The format has both times and the id.
    pub(crate) fn count(&self, read_format: u64) -> Result<Count, Refusal> {
        let mut numbers = [0; NUMBERS];
        self.read_numbers(&mut numbers)?;
        // For a group, the number of events is first, and each event's numbers follow the times.
        let (value, enabled, running, id, lost) = match numbers {
            [_, enabled, running, value, id, lost, ..] if read_format & FORMAT_GROUP != 0 => {
                (value, enabled, running, id, lost)
            }
            [value, enabled, running, id, lost, ..] => (value, enabled, running, id, lost),
        };
        if !self.fd.has_id(id) {
            return Err(Refusal::Closed);
        }
        Ok(Count { value, enabled, running, lost: (read_format & FORMAT_LOST != 0).then_some(lost) })
    }

    /// The count of an event that is open on each kind of core.
    pub(crate) fn sum(sources: &[Self], read_format: u64) -> Result<Count, Refusal> {
        sources.iter().try_fold(Count::default(), |sum, source| {
            let count = source.count(read_format)?;
            Ok(Count {
                value: sum.value.wrapping_add(count.value),
                // Enabled on all kinds of core at once, and running on one at a time.
                enabled: sum.enabled.max(count.enabled),
                running: sum.running + count.running,
                lost: count.lost.map(|lost| lost + sum.lost.unwrap_or(0)),
            })
        })
    }

    /// The numbers that `read(2)` returns.
    pub(crate) fn read_numbers(&self, numbers: &mut [u64; NUMBERS]) -> Result<(), Refusal> {
        match sys::read_numbers(self.fd()?, numbers) {
            Ok(0) => Err(Refusal::EndOfFile),
            Ok(_) => Ok(()),
            // No such call was made: the number is not known to be the event's.
            Err(libc::EBADF) => Err(self.why_not_ours()),
            Err(errno) => Err(Refusal::Os(errno)),
        }
    }

    pub(crate) fn set_filter(&self, filter: &CStr) -> Result<(), Refusal> {
        sys::ioctl_text(self.fd()?, IOC_SET_FILTER, filter).map_err(Refusal::Os)
    }

    /// Sends its records to the ring of another event, or to none.
    pub(crate) fn set_output(&self, ring: Option<&Descriptor>) -> Result<(), Refusal> {
        sys::ioctl_descriptor(self.fd()?, IOC_SET_OUTPUT, ring).map_err(Refusal::Os)
    }

    /// The kernel's id of the event.
    pub(crate) fn id(&self) -> Result<u64, Refusal> {
        let mut id = 0;
        self.ioctl_pointer(IOC_ID, &mut id).map(|()| id)
    }

    /// Sends a signal to the thread, or to the calling one, for each sample.
    pub(crate) fn send_signal(&mut self, signal: i32, thread: Option<u32>) -> Result<(), Refusal> {
        self.fd()?;
        self.fd.send_signal(signal, thread).map_err(Refusal::Os)
    }
}
