//! Starts, stops and changes open events: by ioctl(2) one event, by prctl(2) all events of a thread.

use std::ffi::{CStr, CString};

use crate::attr::Attr;
use crate::counter::Counter;
use crate::error::Error;
use crate::event::Kind;
use crate::machine::Machine;
use crate::open::{KERNEL_ADDRESS, MALFORMED_BREAKPOINT};
use crate::pmu_event::Refusal;
use crate::sys::{
    self, Descriptor, FLAG_FREQ, IOC_DISABLE, IOC_ENABLE, IOC_ID, IOC_MODIFY_ATTRIBUTES, IOC_PAUSE_OUTPUT, IOC_PERIOD,
    IOC_REFRESH, IOC_RESET, IOC_SET_FILTER,
};

/// Explains why a request for an open event was refused. `why` explains EINVAL and EOPNOTSUPP, which the kernel returns
/// for requests that are for another kind of event (`_perf_ioctl`, `kernel/events/core.c`).
pub(crate) fn explained(refusal: Refusal, call: &str, attr: &Attr, why: &str) -> Error {
    match refusal {
        Refusal::Os(errno @ (libc::EINVAL | libc::EOPNOTSUPP)) => Error::os(errno, call, attr.name(), why),
        refusal => refusal.explain(call, attr.name()),
    }
}

/// Explains why a period was refused (`_perf_event_period` in `kernel/events/core.c`, linux 6.12).
pub(crate) fn explain_period(refusal: Refusal, attr: &Attr, period: u64) -> Error {
    // A clock's frequency became a period when it was opened.
    let (what, most) = if attr.has(FLAG_FREQ) && !attr.event().is_time() {
        ("frequency", "kernel.perf_event_max_sample_rate")
    } else {
        ("period", "2^63 - 1")
    };
    let why = if attr.samples() {
        format!("a {what} of {period} is not possible; choose one from 1 to {most}")
    } else {
        ONLY_FOR_SAMPLING.into()
    };
    explained(refusal, "ioctl(PERIOD)", attr, &why)
}

/// Why the kernel refuses a number of samples (`perf_event_refresh` in `kernel/events/core.c`, linux 6.12).
pub(crate) fn why_not_refreshed(attr: &Attr) -> &'static str {
    if attr.samples() { "linux does not limit the samples of an event that inherits" } else { ONLY_FOR_SAMPLING }
}

fn is_breakpoint(attr: &Attr) -> bool {
    matches!(attr.event().kind(), Kind::Breakpoint(_))
}

/// Refuses to change anything but a breakpoint to a breakpoint.
pub(crate) fn check_modification(from: &Attr, to: &Attr) -> Result<(), Error> {
    if !is_breakpoint(from) {
        let why = "it is not a breakpoint, and only breakpoints can be changed, whether they count or sample";
        Err(Error::refused(from.name(), why))
    } else if !is_breakpoint(to) {
        Err(Error::refused(to.name(), "a breakpoint can only be changed to another breakpoint"))
    } else {
        Ok(())
    }
}

/// Explains why a breakpoint was not changed (`perf_event_modify_attr` in `kernel/events/core.c`,
/// `modify_user_hw_breakpoint_check` in `kernel/events/hw_breakpoint.c`, linux 6.12).
pub(crate) fn explain_modification(refusal: Refusal, from: &Attr, to: &Attr) -> Error {
    const CALL: &str = "ioctl(MODIFY_ATTRIBUTES)";
    if let Refusal::Os(errno @ libc::EPERM) = refusal {
        return Error::os(errno, CALL, from.name(), KERNEL_ADDRESS);
    }
    let why = if from.differs_in_event_alone(to) {
        MALFORMED_BREAKPOINT
    } else {
        "only the address, length and access of an open breakpoint can be changed, and this changes its modes or \
         fields; open another"
    };
    explained(refusal, CALL, from, why)
}

/// Why EINVAL and EOPNOTSUPP are returned for a request.
pub(crate) const ONLY_FOR_SAMPLING: &str = "the request is for events that sample, and this one takes no samples";

/// Why the kernel is not asked for 0 more samples: 0 stands for no limit (`perf_event_refresh`,
/// `kernel/events/core.c`, linux 6.12).
pub(crate) const REFRESH_WITHOUT_SAMPLES: &str =
    "linux would start it without a limit if asked for 0 more samples; disable it instead";

/// Sets an event's filter. `set` passes it to the kernel.
pub(crate) fn set_filter(
    filter: &str,
    event: &str,
    set: impl FnOnce(&CStr) -> Result<(), Refusal>,
) -> Result<(), Error> {
    const CALL: &str = "ioctl(SET_FILTER)";
    let text =
        CString::new(filter).map_err(|_| Error::refused(event, "a filter does not contain the character NUL"))?;
    set(&text).map_err(|refusal| match refusal {
        Refusal::Os(errno @ (libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP)) => {
            Error::os(errno, CALL, event, NO_FILTER)
        }
        Refusal::Os(errno @ libc::EEXIST) => {
            Error::os(errno, CALL, event, "the event has a filter already, and keeps it; open another")
        }
        refusal => refusal.explain(CALL, event.to_owned()),
    })
}

const NO_FILTER: &str = "the filter is not valid for this event: it names a field that the tracepoint does not have \
                         (see its file format in tracefs), its syntax is wrong, or the event has no filters";

impl Counter {
    /// Starts the counter: after [`disable`](Self::disable), or if it was opened [`disabled`](Attr::disabled).
    ///
    /// # Errors
    ///
    /// If the kernel refuses, or in a forked child, as the counter belongs to the parent. This holds for every request
    /// here.
    pub fn enable(&self) -> Result<(), Error> {
        self.each_event("ioctl(ENABLE)", IOC_ENABLE).inspect(|()| self.measure_clock_offsets())
    }

    /// Stops the counter. Its value and times do not change while it is stopped.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn disable(&self) -> Result<(), Error> {
        self.each_event("ioctl(DISABLE)", IOC_DISABLE).inspect(|()| self.measure_clock_offsets())
    }

    /// Sets the value to 0. The times continue. Regions begun before are unmeasured. If the event
    /// [inherits](Attr::inherit), what ended children have added stays in the value.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn reset(&self) -> Result<(), Error> {
        for pmu_event in self.pmu_events() {
            pmu_event.forget();
        }
        self.each_event("ioctl(RESET)", IOC_RESET)
    }

    /// The kernel's id of the event, which also appears in its samples and group readings. If the event is open on the
    /// PMUs of several kinds of core, this is the id on the PMU whose name sorts first, as in
    /// [`Event::resolve`](crate::Event::resolve).
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn id(&self) -> Result<u64, Error> {
        let mut id = 0;
        let result = self.pmu_event().fd().and_then(|fd| sys::ioctl_pointer(fd, IOC_ID, &mut id).map_err(Refusal::Os));
        result.map(|()| id).map_err(|refusal| refusal.explain("ioctl(ID)", self.event().to_string()))
    }

    /// Changes the sample period: the number of events between two samples. Changes the frequency if the event has one
    /// ([`Sampler::frequency`](crate::sample::Sampler::frequency)); but clocks have a period of nanoseconds in any
    /// case.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable). An event that does not sample is refused.
    pub fn period(&self, period: u64) -> Result<(), Error> {
        let changed = self.each(|fd| sys::ioctl_pointer(fd, IOC_PERIOD, &mut { period }));
        changed.map_err(|refusal| explain_period(refusal, self.attr(), period))
    }

    /// Lets the event take `overflows` more samples, then stops it. Numbers add up if it is asked again before that.
    ///
    /// # Errors
    ///
    /// As [`period`](Self::period). 0 is refused, and so is an event that inherits.
    pub fn refresh(&self, overflows: u32) -> Result<(), Error> {
        if overflows == 0 {
            return Err(Error::refused(self.event().to_string(), REFRESH_WITHOUT_SAMPLES));
        }
        let refreshed = self.each(|fd| sys::ioctl(fd, IOC_REFRESH, overflows.into()));
        self.explained("ioctl(REFRESH)", why_not_refreshed(self.attr()), refreshed)
    }

    /// Pauses the output of the ring that its samples [go to](Self::set_output), or resumes it: all records of that
    /// ring. An overwritten ring also resumes when its reader is dropped; use
    /// [`Ring::pause_output`](crate::sample::Ring::pause_output) for one.
    ///
    /// # Errors
    ///
    /// As [`period`](Self::period), and if its samples [go to no ring](Self::set_output).
    pub fn pause_output(&self, pause: bool) -> Result<(), Error> {
        let paused = self.each(|fd| sys::ioctl(fd, IOC_PAUSE_OUTPUT, pause.into()));
        let why = if self.attr().samples() {
            "its samples go to no ring; send them to one first (Counter::set_output)"
        } else {
            ONLY_FOR_SAMPLING
        };
        self.explained("ioctl(PAUSE_OUTPUT)", why, paused)
    }

    /// Counts only what passes a filter on the fields of a tracepoint, such as `count > 10`. An event takes one filter,
    /// and keeps it.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable). Other events have no filters, and a field that the tracepoint does not have is an
    /// error.
    pub fn set_filter(&self, filter: &str) -> Result<(), Error> {
        set_filter(filter, &self.event().to_string(), |filter| {
            self.pmu_events()
                .try_for_each(|pmu_event| sys::ioctl_text(pmu_event.fd()?, IOC_SET_FILTER, filter).map_err(Refusal::Os))
        })
    }

    /// Changes an open breakpoint to another address, length or access. [`event`](Self::event) then returns the new
    /// one. All else stays as it was opened, except that it starts if it was stopped, unless the new one is
    /// [`disabled`](Attr::disabled).
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable). An event of another kind is refused.
    pub fn modify_attributes(&mut self, attr: &Attr) -> Result<(), Error> {
        check_modification(self.attr(), attr)?;
        let requests = attr.encode(&Machine::here())?;
        let modified = self.pmu_events().zip(&requests).try_for_each(|(pmu_event, request)| {
            sys::ioctl_pointer(pmu_event.fd()?, IOC_MODIFY_ATTRIBUTES, &mut request.attr()).map_err(Refusal::Os)
        });
        modified.map_err(|refusal| explain_modification(refusal, self.attr(), attr))?;
        self.changed_to(attr);
        Ok(())
    }

    /// Makes a request on every PMU that the event is on.
    fn each(&self, request: impl Fn(&Descriptor) -> Result<(), i32>) -> Result<(), Refusal> {
        self.pmu_events().try_for_each(|pmu_event| request(pmu_event.fd()?).map_err(Refusal::Os))
    }

    /// Makes a request that the kernel refuses only if it refuses the call.
    fn each_event(&self, call: &str, request: u64) -> Result<(), Error> {
        let requested = self.each(|fd| sys::ioctl(fd, request, 0));
        requested.map_err(|refusal| refusal.explain(call, self.attr().name()))
    }

    /// As [`explained`].
    fn explained(&self, call: &str, why: &str, result: Result<(), Refusal>) -> Result<(), Error> {
        result.map_err(|refusal| explained(refusal, call, self.attr(), why))
    }
}

/// Starts all events that the calling thread opened, for itself or another target, those of other libraries included.
///
/// # Errors
///
/// On a platform without counters.
pub fn enable_all_of_thread() -> Result<(), Error> {
    sys::enable_all_of_thread(true).map_err(|errno| prctl_refused("prctl(PR_TASK_PERF_EVENTS_ENABLE)", errno))
}

/// Stops all events that the calling thread opened, for itself or another target, those of other libraries included.
///
/// # Errors
///
/// On a platform without counters.
pub fn disable_all_of_thread() -> Result<(), Error> {
    sys::enable_all_of_thread(false).map_err(|errno| prctl_refused("prctl(PR_TASK_PERF_EVENTS_DISABLE)", errno))
}

fn prctl_refused(call: &str, errno: i32) -> Error {
    if sys::SUPPORTED {
        Error::os(errno, call, "all events of this thread", "the kernel has no perf events")
    } else {
        Error::unsupported(call)
    }
}
