//! Starts, stops and changes open events: by ioctl(2) one event, by prctl(2) all events of a thread.

use std::ffi::CString;

use crate::attr::Attr;
use crate::counter::Counter;
use crate::error::Error;
use crate::event::Kind;
use crate::machine::Machine;
use crate::open::{KERNEL_ADDRESS, MALFORMED_BREAKPOINT};
use crate::pmu_event::PmuEvent;
use crate::source::{Refusal, Source};
use crate::sys::{
    self, FLAG_FREQ, IOC_DISABLE, IOC_ENABLE, IOC_MODIFY_ATTRIBUTES, IOC_PAUSE_OUTPUT, IOC_PERIOD, IOC_REFRESH,
    IOC_RESET,
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

/// Makes a request that the kernel refuses only if it refuses the call.
pub(crate) fn request(
    sources: &mut dyn Iterator<Item = &Source>,
    attr: &Attr,
    call: &str,
    request: u64,
) -> Result<(), Error> {
    let requested = Source::each(sources, |source| source.ioctl(request, 0));
    requested.map_err(|refusal| refusal.explain(call, attr.name()))
}

/// Changes the period of an event, or its frequency.
pub(crate) fn change_period(sources: &mut dyn Iterator<Item = &Source>, attr: &Attr, period: u64) -> Result<(), Error> {
    let changed = Source::each(sources, |source| source.ioctl_pointer(IOC_PERIOD, &mut { period }));
    changed.map_err(|refusal| explain_period(refusal, attr, period))
}

/// Lets an event take more samples, then stops it (`perf_event_refresh` in `kernel/events/core.c`, linux 6.12).
pub(crate) fn refresh(sources: &mut dyn Iterator<Item = &Source>, attr: &Attr, samples: u32) -> Result<(), Error> {
    if samples == 0 {
        let why = "linux would start it without a limit if asked for 0 more samples; disable it instead";
        return Err(Error::refused(attr.name(), why));
    }
    let inherits = "linux does not limit the samples of an event that inherits";
    let why = if attr.samples() { inherits } else { ONLY_FOR_SAMPLING };
    let refreshed = Source::each(sources, |source| source.ioctl(IOC_REFRESH, samples.into()));
    refreshed.map_err(|refusal| explained(refusal, "ioctl(REFRESH)", attr, why))
}

fn is_breakpoint(attr: &Attr) -> bool {
    matches!(attr.event().kind(), Kind::Breakpoint(_))
}

/// Changes a breakpoint. `requested` has what the kernel gets: `to`, and what else the event was opened with.
pub(crate) fn modify(
    sources: &mut dyn Iterator<Item = &Source>,
    from: &Attr,
    to: &Attr,
    requested: &Attr,
) -> Result<(), Error> {
    if !is_breakpoint(from) {
        let why = "it is not a breakpoint, and only breakpoints can be changed, whether they count or sample";
        return Err(Error::refused(from.name(), why));
    }
    if !is_breakpoint(to) {
        return Err(Error::refused(to.name(), "a breakpoint can only be changed to another breakpoint"));
    }
    let requests = requested.encode(&Machine::here())?;
    let mut pairs = sources.zip(&requests);
    let modified =
        pairs.try_for_each(|(source, request)| source.ioctl_pointer(IOC_MODIFY_ATTRIBUTES, &mut request.attr()));
    modified.map_err(|refusal| explain_modification(refusal, from, to))
}

/// Explains why a breakpoint was not changed (`perf_event_modify_attr` in `kernel/events/core.c`,
/// `modify_user_hw_breakpoint_check` in `kernel/events/hw_breakpoint.c`, linux 6.12).
fn explain_modification(refusal: Refusal, from: &Attr, to: &Attr) -> Error {
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

/// Sets an event's filter.
pub(crate) fn set_filter(sources: &mut dyn Iterator<Item = &Source>, attr: &Attr, filter: &str) -> Result<(), Error> {
    const CALL: &str = "ioctl(SET_FILTER)";
    let text = CString::new(filter);
    let text = text.map_err(|_| Error::refused(attr.name(), "a filter does not contain the character NUL"))?;
    Source::each(sources, |source| source.set_filter(&text)).map_err(|refusal| match refusal {
        Refusal::Os(errno @ (libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP)) => {
            Error::os(errno, CALL, attr.name(), NO_FILTER)
        }
        Refusal::Os(errno @ libc::EEXIST) => {
            Error::os(errno, CALL, attr.name(), "the event has a filter already, and keeps it; open another")
        }
        refusal => refusal.explain(CALL, attr.name()),
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
        self.request("ioctl(ENABLE)", IOC_ENABLE).inspect(|()| self.measure_clock_offsets())
    }

    /// Stops the counter. Its value and times do not change while it is stopped.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn disable(&self) -> Result<(), Error> {
        self.request("ioctl(DISABLE)", IOC_DISABLE).inspect(|()| self.measure_clock_offsets())
    }

    /// Sets the value to 0. The times continue. Regions begun before are unmeasured. If the event
    /// [inherits](Attr::inherit), what ended children have added stays in the value.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn reset(&self) -> Result<(), Error> {
        for pmu_event in self.pmu_events() {
            pmu_event.memory().forget();
        }
        self.request("ioctl(RESET)", IOC_RESET)
    }

    /// The kernel's id of the event, which also appears in its samples and group readings. If the event is open on the
    /// PMUs of several kinds of core, this is the id on the PMU whose name sorts first, as in
    /// [`Event::resolve`](crate::Event::resolve).
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn id(&self) -> Result<u64, Error> {
        self.source().id().map_err(|refusal| refusal.explain("ioctl(ID)", self.event().to_string()))
    }

    /// Changes the sample period: the number of events between two samples. Changes the frequency if the event has one
    /// ([`Sampler::frequency`](crate::sample::Sampler::frequency)); but clocks have a period of nanoseconds in any
    /// case.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable). An event that does not sample is refused.
    pub fn set_period(&self, period: u64) -> Result<(), Error> {
        change_period(&mut self.sources(), self.attr(), period)
    }

    /// Lets the event take `overflows` more samples, then stops it. Numbers add up if it is asked again before that.
    ///
    /// # Errors
    ///
    /// As [`set_period`](Self::set_period). 0 is refused, and so is an event that inherits.
    pub fn refresh(&self, overflows: u32) -> Result<(), Error> {
        refresh(&mut self.sources(), self.attr(), overflows)
    }

    /// Pauses the output of the ring that its samples [go to](Self::set_output), or resumes it: all records of that
    /// ring. An overwritten ring also resumes when its reader is dropped; use
    /// [`Ring::pause_output`](crate::sample::Ring::pause_output) for one.
    ///
    /// # Errors
    ///
    /// As [`set_period`](Self::set_period), and if its samples [go to no ring](Self::set_output).
    pub fn pause_output(&self, pause: bool) -> Result<(), Error> {
        let paused = self.sources().try_for_each(|source| source.ioctl(IOC_PAUSE_OUTPUT, pause.into()));
        let why = if self.attr().samples() {
            "its samples go to no ring; send them to one first (Counter::set_output)"
        } else {
            ONLY_FOR_SAMPLING
        };
        paused.map_err(|refusal| explained(refusal, "ioctl(PAUSE_OUTPUT)", self.attr(), why))
    }

    /// Counts only what passes a filter on the fields of a tracepoint, such as `count > 10`. An event takes one filter,
    /// and keeps it.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable). Other events have no filters, and a field that the tracepoint does not have is an
    /// error.
    pub fn set_filter(&self, filter: &str) -> Result<(), Error> {
        set_filter(&mut self.sources(), self.attr(), filter)
    }

    /// Changes an open breakpoint to another address, length or access. [`event`](Self::event) then returns the new
    /// one. All else stays as it was opened, except that it starts if it was stopped, unless the new one is
    /// [`disabled`](Attr::disabled).
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable). An event of another kind is refused.
    pub fn modify_attributes(&mut self, attr: &Attr) -> Result<(), Error> {
        modify(&mut self.sources(), self.attr(), attr, attr)?;
        self.changed_to(attr);
        Ok(())
    }

    /// The event on every PMU that it is on.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.pmu_events().map(PmuEvent::source)
    }

    fn request(&self, call: &str, number: u64) -> Result<(), Error> {
        request(&mut self.sources(), self.attr(), call, number)
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
