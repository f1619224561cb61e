//! The descriptor of an open event, requests for it, and why they are refused.

use std::ffi::CStr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::Error;
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

/// The most events in a group.
pub(crate) const GROUP: usize = 64;
/// The most numbers that `read(2)` returns for a group.
pub(crate) const GROUP_NUMBERS: usize = 3 + 2 * GROUP;

/// Why a reading or a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Os(i32),
    /// The end of the file: a pinned event that does not fit the PMU.
    EndOfFile,
    /// The program closed the descriptor, and its number may belong to another file.
    Closed,
    /// The descriptor could not be marked as this crate's, and so is not read. Holds the errno.
    Unmarked(i32),
    /// This process was forked from the one that opened it.
    Forked,
    /// Other code has stopped it, which is noticed for some counters (`PmuEvent::notice_stops`).
    Stopped,
}

impl Refusal {
    /// The error for `call` on `event`.
    pub(crate) fn explain(self, call: &str, event: String) -> Error {
        match self {
            Self::Os(errno) => {
                Error::os(errno, call, event, "the kernel opened the event, but refuses this call on it")
            }
            Self::EndOfFile => Error::refused(
                event,
                "the event is in error state: it was pinned and did not fit the PMU; close another event that uses a \
                 hardware counter, then enable this one again",
            ),
            Self::Closed => Error::refused(
                event,
                "its descriptor was closed by other code in this process, and its number may belong to another file; \
                 open it again",
            ),
            Self::Unmarked(errno) => Error::os(
                errno,
                "fcntl(F_SETFL)",
                event,
                "its descriptor is not read, as it cannot be distinguished from another file's; allow fcntl",
            ),
            Self::Forked => Error::refused(
                event,
                "it belongs to the parent: this process was forked from the one that opened it; open it again",
            ),
            Self::Stopped => Error::refused(
                event,
                "other code in this process has stopped it, as prctl(PR_TASK_PERF_EVENTS_DISABLE) does; start it again",
            ),
        }
    }
}

/// An event's descriptor. Any thread may use it.
#[derive(Debug)]
pub(crate) struct Source {
    fd: Descriptor,
    /// Whether it is a counter's. Before a reading, nobody checks whether the number still is that of the event. So a
    /// counter's number is given up for good if a check before a request fails.
    is_counters: bool,
    /// Whether a counter's descriptor was given up, because its number may belong to another file. This is permanent.
    is_given_up: AtomicBool,
    /// The generation of the process that opened it.
    generation: u32,
}

impl Source {
    pub(crate) fn new(fd: Descriptor) -> Self {
        Self { fd, is_counters: false, is_given_up: AtomicBool::new(false), generation: sys::generation() }
    }

    pub(crate) fn of_counter(fd: Descriptor) -> Self {
        Self { is_counters: true, ..Self::new(fd) }
    }

    /// Whether this is the process that opened it. In a forked child a counter's page may not be mapped yet.
    #[inline]
    pub(crate) fn is_this_process(&self) -> bool {
        self.generation == sys::generation()
    }

    /// The descriptor, for a request that immediately follows: its number is the event's at this moment.
    pub(crate) fn fd(&self) -> Result<&Descriptor, Refusal> {
        let fd = self.usable_fd()?;
        if fd.is_ours() { Ok(fd) } else { Err(self.give_up()) }
    }

    /// The descriptor, whether or not its number still is the event's.
    #[inline]
    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.fd
    }

    /// The descriptor, if it is this process's and was not given up. Its number may belong to another file all the
    /// same.
    #[inline]
    pub(crate) fn usable_fd(&self) -> Result<&Descriptor, Refusal> {
        if !self.is_this_process() {
            Err(Refusal::Forked)
        } else if self.is_given_up.load(Relaxed) {
            Err(Refusal::Closed)
        } else {
            Ok(&self.fd)
        }
    }

    /// Why its number is not used. That of a counter is never used again.
    #[cold]
    pub(crate) fn give_up(&self) -> Refusal {
        if let Some(errno) = self.fd.why_unmarked() {
            return Refusal::Unmarked(errno);
        }
        self.is_given_up.store(self.is_counters, Relaxed);
        Refusal::Closed
    }

    /// Makes a request for an event on every PMU that it is on.
    pub(crate) fn each(
        sources: &mut dyn Iterator<Item = &Self>,
        request: impl Fn(&Self) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        for source in sources {
            request(source)?;
        }
        Ok(())
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
            return Err(self.give_up());
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
            Err(libc::EBADF) => Err(self.give_up()),
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
