//! The events of a sampling, and opening them on a thread.

use std::cell::Cell;
use std::sync::Arc as Shared;

use perfmark_rdpmc::sample::{Clock, Content, Ring, Sampler};
use perfmark_rdpmc::{Attr, Error, Event, Hardware, Software, Target};

use super::first_period::FirstPeriod;
use super::unwind::REGISTERS;
use crate::platform::usage::page_bytes;
use crate::recording::random;
use crate::settings::sampling::{Rate, SampleSettings, SampledEvent, Stacks};

/// The bytes of stack that each sample has: 0 on processors whose stacks are not unwound.
pub(super) fn stack_bytes(stacks: Stacks) -> u32 {
    if REGISTERS == 0 { 0 } else { stacks.bytes() }
}

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

/// The bytes of the largest ring, unless [`FEWEST`] samples take more.
const MOST: u64 = 128 << 10;
/// Those of the smallest ring of events whose rate is known.
const LEAST: u64 = 8 << 10;
/// Those of a ring of events whose rate is unknown.
const USUAL: u64 = 64 << 10;
/// How often a second a ring must be read before it is full, and how many samples it has room for at least.
const READ: u64 = 20;
const FEWEST: u64 = 5;
/// The remedy if there is no memory for the smallest ring.
const FEWER_THREADS: &str = "start fewer threads";
/// Bytes of a sample besides its stack.
const HEADER: u64 = 96;

impl Samplers {
    /// Opens the events once on the calling thread, to see whether it is possible.
    pub(super) fn new(settings: &SampleSettings) -> Result<Self, String> {
        let has_several = settings.events.len() > 1;
        let with_period = |event: &SampledEvent| {
            let sampler = usable(event, settings, has_several);
            // Without a name, it may be a clock.
            SampledEvent { event: Some(sampler.event().clone()), rate: event.rate }.check()?;
            let period = match event.rate {
                Rate::Period(period) => Some(period),
                Rate::Frequency(rate) => sampler.event().is_time().then(|| 1_000_000_000 / rate.max(1)),
            };
            Ok((sampler, period))
        };
        let events = settings.events.iter().map(with_period).collect::<Result<_, String>>()?;
        let [pages, least_pages] = pages(settings, page_bytes());
        // A header and an address, or a call chain's length, and the stack.
        let least_bytes = 16 + stack_bytes(settings.stacks) as usize;
        let random = Cell::new(random::seed(1));
        let mut samplers = Self { events, pages, least_pages, least_bytes, random };
        samplers.open(None).map_err(|error| error.to_string())?;
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
        let bytes = u32::try_from(pages as u64 * page_bytes() / 2).unwrap_or(u32::MAX);
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
        let need_less = if pages > 1 { "sample fewer bytes of the stack" } else { FEWER_THREADS };
        let mut ring = settings(0).open_with(need_less)?;
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
    usable(event, settings, false).pages(1).open_with(FEWER_THREADS).map(drop)
}

/// The event, or without one the best that can be sampled.
fn usable(event: &SampledEvent, settings: &SampleSettings, has_several: bool) -> Sampler {
    let sampler = |attr: Attr| {
        // On arm64, an event of 64 bits may take two counters, or the only one that marks could use.
        let sampler = Sampler::new(attr.wide(false).disabled(true)).content(Content::IP);
        let sampler = if has_several { sampler.content(Content::IDENTIFIER) } else { sampler };
        let sampler =
            if settings.timestamps { sampler.content(Content::TIME).clock(Clock::Monotonic) } else { sampler };
        let sampler = match event.rate {
            Rate::Frequency(rate) => sampler.frequency(rate),
            Rate::Period(events) => sampler.period(events),
        };
        match settings.stacks {
            Stacks::FramePointers => sampler.content(Content::CALLCHAIN).exclude_callchain_kernel(true),
            _ if stack_bytes(settings.stacks) == 0 => sampler,
            _ => sampler.user_registers(REGISTERS).user_stack(stack_bytes(settings.stacks)),
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

/// The pages of a ring, and the fewest that it may have, if pages have that many bytes.
fn pages(settings: &SampleSettings, page: u64) -> [usize; 2] {
    let room_for = |samples: u64| samples.saturating_mul(u64::from(stack_bytes(settings.stacks)) + HEADER);
    let bytes = settings.events.iter().map(|event| match event.rate {
        Rate::Frequency(rate) => room_for(rate / READ).clamp(LEAST, MOST),
        Rate::Period(_) => USUAL,
    });
    let least = room_for(FEWEST);
    [bytes.max().unwrap_or(0).max(least), least]
        .map(|bytes| usize::try_from(bytes.div_ceil(page)).unwrap_or(1).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::sampling::parse;

    #[test]
    fn rings_are_not_larger_than_needed_where_pages_are_large() {
        for (text, small, large) in [
            ("99", [2, 1], [1, 1]),
            ("4000", [32, 1], [2, 1]),
            ("cycles:1000003", [16, 1], [1, 1]),
            ("99,stack=65520", [128, 128], [8, 8]),
        ] {
            let settings = parse(text).expect("valid");
            assert_eq!([4 << 10, 64 << 10].map(|page| pages(&settings, page)), [small, large], "{text}");
        }
    }
}
