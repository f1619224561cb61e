//! The events of a sampling, and opening them on a thread.

use std::cell::Cell;
use std::sync::Arc as Shared;

use perfmark_rdpmc::sample::{Clock, Content, Ring, Sampler};
use perfmark_rdpmc::{Attr, Error, Event, Hardware, Software, Target};

use super::first_period::FirstPeriod;
use super::unwind::REGISTERS;
use crate::recording::random;
use crate::settings::sampling::{Rate, SampleSettings, SampledEvent, Stacks};

/// A thread's ring.
pub(super) struct Events {
    pub(super) ring: Shared<Ring>,
    /// The kernel's numbers of each event, one for each kind of core; empty if there is only one event.
    ids: Vec<Vec<u64>>,
    /// The most samples that the ring has room for.
    pub(super) samples: usize,
    /// Of each event that does not begin with its usual period.
    pub(super) first_periods: Vec<Option<FirstPeriod>>,
}

impl Events {
    /// The number of file descriptors.
    pub(super) fn descriptors(&self) -> usize {
        self.ring.descriptors()
    }

    /// Which of the sampling's events a record is of. `None` if it is unknown.
    pub(super) fn index(&self, id: Option<u64>) -> Option<usize> {
        if self.ids.is_empty() {
            Some(0)
        } else {
            self.ids.iter().position(|known| id.is_some_and(|id| known.contains(&id)))
        }
    }
}

/// What each thread's ring is opened with.
pub(super) struct Samplers {
    /// At least one, each with its period, unless the kernel adjusts that.
    events: Vec<(Sampler, Option<u64>)>,
    /// Fewer than at first if locked memory is spent.
    pages: usize,
    /// Those that a few samples require.
    least_pages: usize,
    /// The bytes of the smallest sample.
    least_bytes: usize,
    /// The state of the random numbers that first periods are.
    random: Cell<u64>,
}

/// The most pages of a ring, which are 128 KiB, and those with which a ring of an unknown rate begins.
const MOST_PAGES: usize = 32;
const USUAL_PAGES: usize = 16;
/// How often a second a ring must be read before it is full, and how many samples it has room for at least.
const READ: u64 = 20;
const FEWEST: u64 = 5;
/// Bytes of a sample besides its stack.
const HEADER: u64 = 96;
const PAGE: u64 = 4096;

impl Samplers {
    /// Opens the events once on the calling thread, to see whether it is possible.
    pub(super) fn new(settings: &SampleSettings) -> Result<Self, Error> {
        let has_several = settings.events.len() > 1;
        let with_period = |event: &SampledEvent| {
            let sampler = usable(event, settings, has_several);
            let period = match event.rate {
                Rate::Period(period) => Some(period),
                Rate::Frequency(rate) => sampler.event().is_time().then(|| 1_000_000_000 / rate.max(1)),
            };
            (sampler, period)
        };
        let events = settings.events.iter().map(with_period).collect();
        let least_pages = pages(FEWEST, settings.stacks);
        let pages = settings.events.iter().map(|event| match event.rate {
            Rate::Frequency(rate) => pages(rate / READ, settings.stacks).clamp(2, MOST_PAGES),
            Rate::Period(_) => USUAL_PAGES,
        });
        let pages = pages.max().unwrap_or(1).max(least_pages);
        // A header and an address, or a call chain's length, and the stack.
        let least_bytes = 16 + settings.stacks.bytes() as usize;
        let random = Cell::new(random::seed(1));
        let mut samplers = Self { events, pages, least_pages, least_bytes, random };
        samplers.open(None)?;
        Ok(samplers)
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().map(|(sampler, _)| sampler.event())
    }

    /// Opens the events of another thread of the process, or of the calling one, stopped.
    pub(super) fn open(&mut self, thread: Option<u32>) -> Result<Events, Error> {
        loop {
            match self.open_with(self.pages, thread) {
                // A smaller ring holds fewer samples, which is better than none.
                Err(error) if error.errno_name() == Some("EPERM") && self.pages > self.least_pages => {
                    self.pages /= 2;
                }
                opened => return opened,
            }
        }
    }

    fn open_with(&self, pages: usize, thread: Option<u32>) -> Result<Events, Error> {
        let bytes = u32::try_from(pages as u64 * PAGE / 2).unwrap_or(u32::MAX);
        let first_period = |(sampler, period): &(Sampler, Option<u64>)| self.first_period(sampler, (*period)?);
        let first_periods: Vec<_> = self.events.iter().map(first_period).collect();
        let settings = |at: usize| {
            let sampler = self.events[at].0.clone().pages(pages).wakeup_watermark(bytes);
            let Some(thread) = thread else { return sampler };
            let sampler = sampler.target(Target::thread(thread));
            match &first_periods[at] {
                Some(period) => sampler.period(period.first),
                None => sampler,
            }
        };
        let mut ring = settings(0).open()?;
        for at in 1..self.events.len() {
            ring.add(&settings(at))?;
        }
        let ids = if self.events.len() > 1 { ring.ids()? } else { Vec::new() };
        let samples = ring.bytes() / self.least_bytes;
        Ok(Events { ring: Shared::new(ring), ids, samples, first_periods })
    }

    /// Draws the first period of an event with a period.
    fn first_period(&self, sampler: &Sampler, usual: u64) -> Option<FirstPeriod> {
        /// The cost of a sample is about a tenth of it.
        const SHORTEST_NS: u64 = 50_000;
        let shortest = if sampler.event().is_time() { SHORTEST_NS } else { 1 };
        FirstPeriod::new(usual, shortest.max(usual / 16), &self.random)
    }
}

/// Opens an event once on the calling thread, to see whether it is possible.
pub(super) fn try_open(event: &SampledEvent, settings: &SampleSettings) -> Result<(), Error> {
    usable(event, settings, false).pages(1).open().map(drop)
}

/// The event, or without one the best that can be sampled.
fn usable(event: &SampledEvent, settings: &SampleSettings, has_several: bool) -> Sampler {
    let sampler = |attr: Attr| {
        let sampler = Sampler::new(attr.disabled(true)).content(Content::IP);
        let sampler = if has_several { sampler.content(Content::IDENTIFIER) } else { sampler };
        let sampler =
            if settings.timestamps { sampler.content(Content::TIME).clock(Clock::Monotonic) } else { sampler };
        let sampler = match event.rate {
            Rate::Frequency(rate) => sampler.frequency(rate),
            Rate::Period(events) => sampler.period(events),
        };
        match settings.stacks {
            Stacks::FramePointers => sampler.content(Content::CALLCHAIN).exclude_callchain_kernel(true),
            _ if settings.stacks.bytes() == 0 || REGISTERS == 0 => sampler,
            _ => sampler.user_registers(REGISTERS).user_stack(settings.stacks.bytes()),
        }
    };
    if let Some(event) = &event.event {
        return sampler(Attr::new(event.clone()));
    }
    // Pinned, so that it is counted all the time.
    let cycles = sampler(Attr::new(Hardware::Cycles).pinned(true));
    let is_usable = cycles.clone().pages(1).open().is_ok();
    if is_usable { cycles } else { sampler(Attr::new(Software::CpuClock)) }
}

/// Pages with room for so many samples.
fn pages(samples: u64, stacks: Stacks) -> usize {
    let bytes = samples.saturating_mul(u64::from(stacks.bytes()) + HEADER);
    usize::try_from(bytes.div_ceil(PAGE)).unwrap_or(MOST_PAGES).clamp(1, 128).next_power_of_two()
}
