//! Counters of other threads, of entire CPUs and of cgroups.

use crate::attr::Attr;
use crate::control;
use crate::error::Error;
use crate::event::Event;
use crate::machine::Machine;
use crate::open;
use crate::reading::{CoreClock, Reading};
use crate::sample::{self, Ring};
use crate::source::{Count, Refusal, Source};
use crate::sys::{self, IOC_DISABLE, IOC_ENABLE};
use crate::target::Target;

/// One event, counted for a [`Target`]: another thread, an entire CPU, or a cgroup.
///
/// A processor reads only its own counters, so each reading is a `read(2)`. In return, any thread may read it, and it
/// may be sent to another thread:
///
/// ```
/// use perfmark_rdpmc::{Attr, Delta, Software, Target, TargetCounter};
///
/// // What every process does on CPU 0.
/// match TargetCounter::open(&Attr::new(Software::ContextSwitches).kernel(true), &Target::cpu(0)) {
///     Ok(switches) => std::thread::spawn(move || {
///         let before = switches.read()?;
///         std::thread::yield_now();
///         if let Delta::Exact(n) = switches.read()?.since(&before) {
///             println!("{n} context switches on CPU 0");
///         }
///         Ok::<(), perfmark_rdpmc::Error>(())
///     })
///     .join()
///     .expect("does not panic")?,
///     // Without permission: the target, the level of kernel.perf_event_paranoid, the capability.
///     Err(why) => eprintln!("{why}"),
/// }
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
///
/// An event of a thread is enabled while the thread is on a CPU; after the thread has ended, its last count can be
/// read. An event of a CPU is enabled all the time, and one of a cgroup while its processes are on that CPU. On a
/// machine with several kinds of core, the event of a thread is open on the PMU of each, and the differences of
/// readings are estimates, as the PMUs are read one after another.
///
/// In a forked child, every use is an error. The parent's counter continues.
#[derive(Debug)]
pub struct TargetCounter {
    /// The event on each kind of core.
    sources: Vec<Source>,
    attr: Attr,
}

impl TargetCounter {
    /// Opens a counter for the target and starts it, unless it is [`disabled`](Attr::disabled).
    ///
    /// # Errors
    ///
    /// If the kernel refuses. The error has the errno, the likely cause on this machine, and the remedy: also which
    /// permission the [target requires](Target), that there is no such thread, or that the CPU is offline.
    pub fn open(attr: &Attr, target: &Target) -> Result<Self, Error> {
        let attr = attr.clone().user_reads(false);
        let mut open_event = |raw: &_, target: &Target| sys::open(raw, target, None);
        let opened = open::open_each(&attr, target, &Machine::here(), &mut open_event)?;
        let sources = opened.into_iter().map(|opened| Source::new(opened.fd)).collect();
        Ok(Self { sources, attr })
    }

    /// The event.
    #[must_use]
    pub fn event(&self) -> &Event {
        self.attr.event()
    }

    /// Reads by `read(2)`.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: a pinned event does not fit the PMU, or a system call filter forbids it.
    pub fn read(&self) -> Result<Reading, Error> {
        let Count { value, enabled, running, .. } =
            Source::sum(&self.sources, 0).map_err(|refusal| self.explain("read", refusal))?;
        let clock = if self.sources.len() > 1 { CoreClock::UNKNOWN } else { CoreClock::default() };
        Ok(Reading { value, enabled, running, clock, ..Reading::default() })
    }

    /// Starts the counter: after [`disable`](Self::disable), or if it was opened [`disabled`](Attr::disabled).
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn enable(&self) -> Result<(), Error> {
        control::request(&mut self.sources.iter(), &self.attr, "ioctl(ENABLE)", IOC_ENABLE)
    }

    /// Stops the counter. Its value and times do not change while it is stopped.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn disable(&self) -> Result<(), Error> {
        control::request(&mut self.sources.iter(), &self.attr, "ioctl(DISABLE)", IOC_DISABLE)
    }

    /// Counts only what passes a filter, as [`Counter::set_filter`](crate::Counter::set_filter).
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable), and if the event does not have the filter's fields.
    pub fn set_filter(&self, filter: &str) -> Result<(), Error> {
        control::set_filter(&mut self.sources.iter(), &self.attr, filter)
    }

    /// Sends the counter's samples to a ring, as
    /// [`Counter::set_output`](crate::Counter::set_output).
    ///
    /// # Errors
    ///
    /// As for a [`Counter`](crate::Counter::set_output).
    pub fn set_output(&self, to: Option<&Ring>) -> Result<(), Error> {
        sample::set_output(&mut self.sources.iter(), &self.attr, to)
    }

    /// The kernel's id of the event; on several kinds of core, of the one whose name sorts first.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn id(&self) -> Result<u64, Error> {
        self.sources[0].id().map_err(|refusal| self.explain("ioctl(ID)", refusal))
    }

    #[cfg(all(unix, not(perfmark_scripted)))]
    pub(crate) fn source(&self) -> &Source {
        &self.sources[0]
    }

    fn explain(&self, call: &str, refusal: Refusal) -> Error {
        refusal.explain(call, self.event().to_string())
    }
}
