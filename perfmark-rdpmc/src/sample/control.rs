//! Starts, stops and changes what is sampled.

use std::sync::atomic::Ordering::SeqCst;

use super::ring::{Ring, RingEvent};
use super::sampler::Sampler;
use crate::control;
use crate::error::Error;
use crate::sys::{IOC_DISABLE, IOC_ENABLE, IOC_PERIOD, IOC_RESET};

impl Ring {
    /// Starts all events of the ring: after [`disable`](Self::disable), or if they were opened
    /// [`disabled`](crate::Attr::disabled).
    ///
    /// # Errors
    ///
    /// If the kernel refuses, or in a forked child, as the ring belongs to the parent. This holds for every request
    /// here.
    pub fn enable(&self) -> Result<(), Error> {
        control::request(&mut self.sources(), self.attr(), "ioctl(ENABLE)", IOC_ENABLE)
    }

    /// Stops all events of the ring.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn disable(&self) -> Result<(), Error> {
        control::request(&mut self.sources(), self.attr(), "ioctl(DISABLE)", IOC_DISABLE)
    }

    /// Sets the [counts](Self::counts) of all events of the ring to 0. Their times and lost records continue. If an
    /// event [inherits](crate::Attr::inherit), what ended children have added stays in its count.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn reset(&self) -> Result<(), Error> {
        control::request(&mut self.sources(), self.attr(), "ioctl(RESET)", IOC_RESET)
    }

    /// Changes a sampled breakpoint to another address, length or access: to the breakpoint of `sampler`, whose event
    /// is otherwise as the one that was opened. What is not the event's, such as the sampler's target and pages, is
    /// ignored. A breakpoint that was stopped starts. Records that are in the ring stay there.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable). Only breakpoints can be changed, and only to other breakpoints.
    pub fn modify_attributes(&mut self, sampler: &Sampler) -> Result<(), Error> {
        let requested = sampler.attr.clone().with_ring(self.layout.read_format);
        control::modify(&mut self.events[0].sources.iter(), self.attr(), &sampler.attr, &requested)?;
        self.events[0].attr = sampler.attr.clone();
        Ok(())
    }

    /// Changes the sampled event's period; its frequency if it has one, unless it is a clock: clocks have a period of
    /// nanoseconds in any case.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable). [`Sampler::dummy`](super::Sampler::dummy) has no period.
    pub fn set_period(&self, period: u64) -> Result<(), Error> {
        control::change_period(&mut self.events[0].sources.iter(), self.attr(), period)
    }

    /// Changes the period of one of the ring's events: 0 is the sampled event, and others are in the order in which
    /// they were [added](Self::add). Its next sample is a period from now: a period that has begun is given up. An
    /// event that was stopped starts.
    ///
    /// # Errors
    ///
    /// As [`set_period`](Self::set_period), after which the event goes on with its old period; and if there is no such
    /// event.
    pub fn restart_with_period(&self, event: usize, period: u64) -> Result<(), Error> {
        let Some(RingEvent { attr, sources }) = self.events.get(event) else {
            let why = format!("the ring has no event {event}; it has {}, which are numbered from 0", self.events.len());
            return Err(Error::refused(self.name(), why));
        };
        let restarted = sources.iter().try_for_each(|source| {
            // A software event that runs would complete its old period first (`perf_swevent_set_period`).
            source.ioctl(IOC_DISABLE, 0)?;
            let changed = source.ioctl_pointer(IOC_PERIOD, &mut { period });
            source.ioctl(IOC_ENABLE, 0).and(changed)
        });
        restarted.map_err(|refusal| control::explain_period(refusal, attr, period))
    }

    /// Lets the sampled event take `samples` more samples, then stops it.
    ///
    /// # Errors
    ///
    /// As [`set_period`](Self::set_period). 0 is refused, and so is an event that inherits.
    pub fn refresh(&self, samples: u32) -> Result<(), Error> {
        control::refresh(&mut self.events[0].sources.iter(), self.attr(), samples)
    }

    /// Pauses what is written to the ring, or resumes it. Records of the time in between are lost, and counted as such.
    /// An [overwritten](super::Sampler::overwrite) ring that is being read stays paused until its reader is dropped.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn pause_output(&self, pause: bool) -> Result<(), Error> {
        self.is_paused.store(pause, SeqCst);
        self.update_pause().map_err(|refusal| refusal.explain("ioctl(PAUSE_OUTPUT)", self.name()))
    }

    /// Samples only what passes a filter: on a tracepoint's fields (`count > 10`), or on addresses for a PMU that
    /// traces (`filter 0x1000/64@/bin/true`). A tracepoint keeps its first filter.
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable). Other events have no filters.
    pub fn set_filter(&self, filter: &str) -> Result<(), Error> {
        control::set_filter(&mut self.events[0].sources.iter(), self.attr(), filter)
    }

    /// The kernel's id of the sampled event, which records contain if requested; on a processor with several kinds of
    /// core, that of the first kind (see [`ids`](Self::ids)).
    ///
    /// # Errors
    ///
    /// As [`enable`](Self::enable).
    pub fn id(&self) -> Result<u64, Error> {
        self.id_of(0)
    }
}
