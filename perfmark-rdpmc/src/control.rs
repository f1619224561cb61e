//! Starting, stopping and changing what is open: ioctl(2) on one event, prctl(2) on all of a thread's.

use crate::attr::Attr;
use crate::counter::Counter;
use crate::error::Error;
use crate::event::{Event, Kind};
use crate::machine::Machine;
use crate::part::Refusal;
use crate::sys::{
    self, Descriptor, IOC_DISABLE, IOC_ENABLE, IOC_ID, IOC_MODIFY_ATTRIBUTES, IOC_PAUSE_OUTPUT, IOC_PERIOD,
    IOC_REFRESH, IOC_RESET, IOC_SET_OUTPUT,
};

impl Counter {
    /// Lets the counter count: after [`disable`](Self::disable), or if it was opened [`disabled`](Attr::disabled).
    ///
    /// # Errors
    ///
    /// Where the kernel refuses; in a forked child, whose parent the counter belongs to. So for every request here.
    pub fn enable(&self) -> Result<(), Error> {
        self.each("ioctl(ENABLE)", |fd| sys::ioctl(fd, IOC_ENABLE, 0)).inspect(|()| self.note_starts())
    }

    /// Stops the counter. Its value and times stand still.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn disable(&self) -> Result<(), Error> {
        self.each("ioctl(DISABLE)", |fd| sys::ioctl(fd, IOC_DISABLE, 0)).inspect(|()| self.note_starts())
    }

    /// Sets the value to 0; its times go on. Regions begun before are unmeasured.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn reset(&self) -> Result<(), Error> {
        for part in self.parts() {
            part.forget();
        }
        self.each("ioctl(RESET)", |fd| sys::ioctl(fd, IOC_RESET, 0))
    }

    /// The number by which the kernel knows the event, as in the samples and groups that it is in. Where the machine has several kinds of
    /// core and the event is on the PMU of each, it is that of the PMU whose name comes first, as in [`Event::resolve`](crate::Event::resolve).
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn id(&self) -> Result<u64, Error> {
        let mut id = 0;
        let asked = self.part().fd().and_then(|fd| sys::ioctl_pointer(fd, IOC_ID, &mut id).map_err(Refusal::Os));
        asked.map(|()| id).map_err(|refusal| refusal.explain("ioctl(ID)", self.event().to_string()))
    }

    /// Changes the events between two samples.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable); a counting event, which has no samples, is refused.
    pub fn period(&self, period: u64) -> Result<(), Error> {
        self.each("ioctl(PERIOD)", |fd| sys::ioctl_pointer(fd, IOC_PERIOD, &mut { period }))
    }

    /// Lets the event sample `overflows` times more, then stops it.
    ///
    /// # Errors
    ///
    /// As [`period`](Self::period).
    pub fn refresh(&self, overflows: u32) -> Result<(), Error> {
        self.each("ioctl(REFRESH)", |fd| sys::ioctl(fd, IOC_REFRESH, overflows.into()))
    }

    /// Sends the event's samples to another's buffer, or with `None` nowhere.
    ///
    /// # Errors
    ///
    /// As [`period`](Self::period).
    pub fn set_output(&self, to: Option<&Self>) -> Result<(), Error> {
        // Which the kernel grants, as there is nothing to be sent.
        if to.is_none() && !self.attr().samples() {
            let why = "the request is for events that sample, and this one counts";
            return Err(Error::refused(self.event().to_string(), why));
        }
        let other = to.map(|to| to.part().fd()).transpose().map_err(|refusal| self.explain(refusal))?;
        self.each("ioctl(SET_OUTPUT)", |fd| sys::ioctl_descriptor(fd, IOC_SET_OUTPUT, other))
    }

    /// Holds back the event's samples, or lets them go on.
    ///
    /// # Errors
    ///
    /// As [`period`](Self::period).
    pub fn pause_output(&self, pause: bool) -> Result<(), Error> {
        self.each("ioctl(PAUSE_OUTPUT)", |fd| sys::ioctl(fd, IOC_PAUSE_OUTPUT, pause.into()))
    }

    /// Aims an open breakpoint at another address, length or access; [`event`](Self::event) names the new one then. All else stays as it
    /// was opened, but that the new one may be [`disabled`](Attr::disabled).
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable); an event of another kind is refused.
    pub fn modify_attributes(&mut self, attr: &Attr) -> Result<(), Error> {
        let requests = attr.encode(&Machine::here())?;
        let [request] = requests.as_slice() else {
            return Err(Error::refused(
                attr.to_string(),
                "breakpoints alone can be changed, and this is for several PMUs",
            ));
        };
        let is_breakpoint = |event: &Event| matches!(event.kind(), Kind::Breakpoint(_));
        let refuse = |event: &Event, why: &str| Err(Error::refused(event.to_string(), why));
        if !is_breakpoint(self.event()) {
            return refuse(
                self.event(),
                "it is no breakpoint; these alone can be changed, whether they count or sample",
            );
        }
        if !is_breakpoint(attr.event()) {
            return refuse(attr.event(), "a breakpoint can be made another breakpoint, and nothing else");
        }
        // What the kernel compares before and after (`perf_event_modify_attr` in kernel/events/core.c,
        // `modify_user_hw_breakpoint_check` in kernel/events/hw_breakpoint.c, linux 6.12).
        let why = if self.attr().differs_in_event_alone(attr) {
            "the kernel does not take this address, length and access together, or the address is the kernel's own"
        } else {
            "an open breakpoint's address, length and access can be changed, and this changes its modes or fields; open another"
        };
        self.each_or("ioctl(MODIFY_ATTRIBUTES)", why, |fd| {
            sys::ioctl_pointer(fd, IOC_MODIFY_ATTRIBUTES, &mut request.attr())
        })?;
        self.changed_to(attr);
        Ok(())
    }

    /// Makes a request on every PMU that the event is on.
    fn each(&self, call: &str, request: impl Fn(&Descriptor) -> Result<(), i32>) -> Result<(), Error> {
        self.each_or(call, "the request is for events that sample, and this one counts", request)
    }

    /// As [`each`](Self::each). `why` tells what EINVAL and EOPNOTSUPP mean, which are what the kernel says of requests that are for another
    /// kind of event (`_perf_ioctl`, kernel/events/core.c).
    fn each_or(&self, call: &str, why: &str, request: impl Fn(&Descriptor) -> Result<(), i32>) -> Result<(), Error> {
        let tried = self.parts().try_for_each(|part| request(part.fd()?).map_err(Refusal::Os));
        tried.map_err(|refusal| match refusal {
            Refusal::Os(errno @ (libc::EINVAL | libc::EOPNOTSUPP)) => {
                Error::os(errno, call, self.event().to_string(), why)
            }
            Refusal::Os(errno @ libc::EPERM) if matches!(self.event().kind(), Kind::Breakpoint(_)) => {
                let why = "a breakpoint on the kernel's own addresses wants CAP_SYS_ADMIN";
                Error::os(errno, call, self.event().to_string(), why)
            }
            refusal => refusal.explain(call, self.event().to_string()),
        })
    }
}

/// Lets every event count that the calling thread opened and is its own, those of other libraries included.
///
/// # Errors
///
/// On a target without counters.
pub fn enable_all_of_thread() -> Result<(), Error> {
    sys::enable_all_of_thread(true).map_err(|errno| prctl_refused("prctl(PR_TASK_PERF_EVENTS_ENABLE)", errno))
}

/// Stops every event that the calling thread opened, those of other libraries included.
///
/// # Errors
///
/// On a target without counters.
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
