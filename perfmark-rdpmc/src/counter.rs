//! One event opened on one thread.

use std::marker::PhantomData;

use crate::arch::{Native, Processor as _};
use crate::attr::Attr;
use crate::error::{Error, errno_text};
use crate::event::Event;
use crate::machine::Machine;
use crate::open::{self, Opened};
use crate::read::{self, AskKernel, UserRead};
use crate::sys::{self, Descriptor, Mapping};

/// One event, counted on the thread that opened it since it was opened.
///
/// It belongs to that thread: a processor reads only its own counters, so the type is not `Send`.
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// sent::<perfmark_rdpmc::Counter>();
/// ```
///
/// It holds a descriptor and a mapped page, which counts against the locked memory that `kernel.perf_event_mlock_kb` and
/// `RLIMIT_MEMLOCK` allow; where there is none left, the counter reads by `read(2)`.
#[derive(Debug)]
pub struct Counter {
    // Before the descriptor: unmapped first.
    page: Result<Mapping, String>,
    fd: Descriptor,
    event: Event,
    this_thread: PhantomData<*const ()>,
}

impl Counter {
    /// Opens a counter for the calling thread and starts it.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses, with its answer, the likely cause on this machine, and the remedy.
    pub fn open(attr: &Attr) -> Result<Self, Error> {
        let Opened { fd, encoding } = open::open(attr)?;
        let page = if encoding.is_user_readable() && attr.asks_user_reads() {
            Mapping::new(&fd).map_err(|errno| match errno {
                libc::EPERM => {
                    "EPERM: no locked memory left to map the counter's page; raise kernel.perf_event_mlock_kb".into()
                }
                errno => format!("{}: the counter's page could not be mapped", errno_text(errno)),
            })
        } else {
            Err("the kernel alone counts it".into())
        };
        Ok(Self { page, fd, event: attr.event().clone(), this_thread: PhantomData })
    }

    /// What is counted.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Reads without a system call where the kernel allows it now, else by `read(2)`.
    ///
    /// # Errors
    ///
    /// As [`read_syscall`](Self::read_syscall).
    #[inline]
    pub fn read(&self) -> Result<Reading, Error> {
        match self.user_read() {
            Ok(read) => Ok(read.into()),
            Err(_) => self.read_syscall(),
        }
    }

    /// Reads without a system call. `None` where only the kernel knows: for a software event always, for a hardware event also while
    /// it has no hardware counter. [`user_reads`](Self::user_reads) tells why.
    #[inline]
    #[must_use]
    pub fn read_user(&self) -> Option<Reading> {
        self.user_read().ok().map(Reading::from)
    }

    #[inline]
    #[allow(unsafe_code, reason = "Counter is not Send, which is what read asks for")]
    fn user_read(&self) -> Result<UserRead, AskKernel> {
        match &self.page {
            // SAFETY: `self` was opened on this thread, and cannot leave it.
            Ok(mapping) => unsafe { read::read(mapping.page(), &Native) },
            Err(_) => Err(AskKernel::NotAllowed),
        }
    }

    /// Reads by `read(2)`.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses to read what it opened: an event in error state, or a system call filter.
    pub fn read_syscall(&self) -> Result<Reading, Error> {
        let tried = || self.event.to_string();
        match sys::read(&self.fd) {
            Ok(Some(read)) => Ok(Reading { value: read.value, enabled: read.enabled, running: read.running }),
            Ok(None) => {
                Err(Error::refused(tried(), "the event is in error state: it was pinned and does not fit the PMU"))
            }
            Err(errno) => {
                Err(Error::os(errno, "read", tried(), "the kernel refuses to read the counter that it opened"))
            }
        }
    }

    /// Whether the counter can be read without a system call just now.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub fn user_reads(&self) -> Result<(), String> {
        let why = match (&self.page, self.user_read()) {
            (Err(why), _) => return Err(why.clone()),
            (_, Ok(_)) => return Ok(()),
            (_, Err(why)) => why,
        };
        Err(match why {
            AskKernel::OldKernel => "linux before 3.12 does not tell whether user space may read".into(),
            AskKernel::NotAllowed | AskKernel::NoIndex => Machine::here().user_reads_forbidden().unwrap_or_else(|| {
                "the kernel gives user space no counter for it (other events may hold the PMU, or this event cannot be read so)".into()
            }),
            AskKernel::NoTimes => "the event was off the PMU, and this kernel's page does not tell the time".into(),
            AskKernel::Busy => "the counter's page is being written without end".into(),
        })
    }

    /// The page's lock, which moves whenever the kernel touches the counter: at a switch to another thread, an overflow, a rotation
    /// among events. If it is the same before and after, the counter ran without a break in between. `None` without a page.
    #[must_use]
    pub fn page_lock(&self) -> Option<u32> {
        let mapping = self.page.as_ref().ok()?;
        Some(mapping.page().lock.load(std::sync::atomic::Ordering::Relaxed))
    }

    /// Ticks (of [`clock::ticks`](crate::clock::ticks)) that a user read and a `read(2)` take at best, of a few of each; `None` for
    /// the user read where there is none.
    #[must_use]
    pub fn cost(&self) -> (Option<u64>, u64) {
        let fastest = |read: &dyn Fn() -> bool| {
            let timed = (0..8).map(|_| {
                let start = Native.ticks();
                read().then(|| Native.ticks().saturating_sub(start))
            });
            timed.collect::<Option<Vec<_>>>().and_then(|ticks| ticks.into_iter().min())
        };
        let user = fastest(&|| self.user_read().is_ok());
        (user, fastest(&|| sys::read(&self.fd).is_ok()).unwrap_or(u64::MAX))
    }
}

/// A counter's value at one moment, with the nanoseconds for which the event was enabled and, of these, on the PMU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Events counted since the counter was opened, while it was on the PMU.
    pub value: u64,
    /// Nanoseconds enabled.
    pub enabled: u64,
    /// Nanoseconds enabled and on the PMU.
    pub running: u64,
}

impl From<UserRead> for Reading {
    #[inline]
    fn from(read: UserRead) -> Self {
        Self { value: read.value, enabled: read.enabled, running: read.running }
    }
}

/// What was counted between two readings of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// The counter was on the PMU from the first reading to the second.
    Exact(u64),
    /// Other events took its place for a part of the time.
    Scaled {
        /// `counted` scaled to the whole time.
        estimate: u64,
        /// What was really counted.
        counted: u64,
    },
    /// The counter was off the PMU, or was reset: nothing is known, which is not zero.
    Unmeasured,
}

impl Reading {
    /// What was counted since `earlier`, a reading of the same counter.
    ///
    /// The difference of enabled and running times is the time off the PMU; if it has not grown, the count is exact. Otherwise the
    /// count is scaled over this region alone, never over the counter's life.
    #[inline]
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Delta {
        let counted = self.value.wrapping_sub(earlier.value);
        let enabled = self.enabled.wrapping_sub(earlier.enabled);
        let running = self.running.wrapping_sub(earlier.running);
        if self.value < earlier.value {
            Delta::Unmeasured
        } else if enabled == running {
            Delta::Exact(counted)
        } else if running == 0 || running > enabled {
            Delta::Unmeasured
        } else {
            let estimate = u128::from(counted) * u128::from(enabled) / u128::from(running);
            Delta::Scaled { estimate: u64::try_from(estimate).unwrap_or(u64::MAX), counted }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: u64, enabled: u64, running: u64) -> Reading {
        Reading { value, enabled, running }
    }

    #[test]
    fn whole_or_not_at_all() {
        let start = reading(100, 1_000, 600);
        assert_eq!(reading(150, 3_000, 2_600).since(&start), Delta::Exact(50));
        assert_eq!(reading(150, 3_000, 1_600).since(&start), Delta::Scaled { estimate: 100, counted: 50 });
        assert_eq!(reading(100, 3_000, 600).since(&start), Delta::Unmeasured, "never on the PMU is not zero");
        assert_eq!(reading(100, 1_000, 600).since(&start), Delta::Exact(0), "nothing happened, and it was seen");
    }

    #[test]
    fn a_reset_in_between_is_unmeasured() {
        assert_eq!(reading(99, 3_000, 2_600).since(&reading(100, 1_000, 600)), Delta::Unmeasured);
    }

    #[test]
    fn scaling_does_not_overflow() {
        let end = reading(u64::MAX / 2, u64::MAX / 2, 1 << 40);
        assert_eq!(end.since(&reading(0, 0, 0)), Delta::Scaled { estimate: u64::MAX, counted: u64::MAX / 2 });
    }
}
