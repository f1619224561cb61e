//! One event on the PMUs of several kinds of core: performance and efficiency cores, big.LITTLE.
//!
//! The event is open on each PMU. On each it is always enabled, but it runs only while the thread is on that kind of
//! core. Counts and running times are therefore added, and never scaled separately. The enabled time is taken from the
//! kind that the thread is on. It is read at the same moment as the one running time that advances. The computed time
//! off the PMU then has no jitter, however long it takes to read all PMUs.

use std::cell::Cell;
use std::ops::RangeInclusive;

use crate::pmu_event::PmuEvent;
use crate::read::{self, NoUserRead};
use crate::reading::{CoreClock, Reading};
use crate::source::Refusal;
use crate::sys;

/// The event on the kinds of core after the first.
#[derive(Debug)]
pub(crate) struct OtherKinds {
    pmu_events: Box<[PmuEvent]>,
    /// All kinds, the first one included.
    kinds: Box<[Kind]>,
}

#[derive(Debug)]
struct Kind {
    cpus: Vec<RangeInclusive<u32>>,
    /// Nanoseconds by which its enabled time is ahead of the first kind's, because it was started a little earlier.
    ahead: Cell<u64>,
    /// The kind's number, and the uncertainty of `ahead`.
    clock: Cell<CoreClock>,
}

/// No machine has more kinds of core.
const KINDS: usize = 8;

/// The kernel moves a thread from one kind of core to another at most a few times a millisecond.
const TRIES: usize = 10;

impl OtherKinds {
    /// `None` if there is only one kind of core.
    pub(crate) fn new(
        first: &PmuEvent,
        cpus: Vec<RangeInclusive<u32>>,
        others: Vec<(PmuEvent, Vec<RangeInclusive<u32>>)>,
    ) -> Option<Box<Self>> {
        let (pmu_events, others): (Vec<PmuEvent>, Vec<_>) = others.into_iter().unzip();
        if pmu_events.is_empty() {
            return None;
        }
        let kinds = (0..).zip(std::iter::once(cpus).chain(others)).map(Kind::new).collect();
        let this = Self { pmu_events: pmu_events.into(), kinds };
        this.measure_clock_offsets(first);
        Some(Box::new(this))
    }

    pub(crate) fn pmu_events(&self) -> &[PmuEvent] {
        &self.pmu_events
    }

    fn all<'a>(&'a self, first: &'a PmuEvent) -> impl Iterator<Item = &'a PmuEvent> {
        std::iter::once(first).chain(&self.pmu_events)
    }

    pub(crate) fn give_up_pages(&mut self, why: &str) {
        for pmu_event in &mut self.pmu_events {
            pmu_event.give_up_page(why);
        }
    }

    /// The kind of core that the thread is on.
    fn current_kind(&self) -> usize {
        let cpu = sys::cpu();
        let has = |kind: &Kind| cpu.is_some_and(|cpu| kind.cpus.iter().any(|cpus| cpus.contains(&cpu)));
        self.kinds.iter().position(has).unwrap_or(0)
    }

    /// The event on the PMU of that kind.
    pub(crate) fn on_current_kind<'a>(&'a self, first: &'a PmuEvent) -> &'a PmuEvent {
        self.current_kind().checked_sub(1).and_then(|other| self.pmu_events.get(other)).unwrap_or(first)
    }

    /// Measures the offsets between the enabled times, as the events were started or stopped one after another. Of a
    /// few tries it keeps the one whose readings are closest together.
    pub(crate) fn measure_clock_offsets(&self, first: &PmuEvent) {
        const READINGS: usize = 16;
        for (pmu_event, kind) in self.pmu_events.iter().zip(&self.kinds[1..]) {
            let measure = || {
                let (before, other, after) = (first.kernel_read(), pmu_event.kernel_read(), first.kernel_read());
                let (before, other, after) = (before.ok()?.enabled, other.ok()?.enabled, after.ok()?.enabled);
                let apart = after.saturating_sub(before);
                Some((apart, other.wrapping_sub(before + apart / 2)))
            };
            if let Some((apart, ahead)) = (0..READINGS).filter_map(|_| measure()).min() {
                kind.ahead.set(ahead);
                kind.clock.set(CoreClock {
                    uncertainty: u16::try_from(apart.div_ceil(2)).unwrap_or(u16::MAX),
                    ..kind.clock.get()
                });
            }
        }
    }

    /// Reads in user space: the current kind has a hardware counter to read, and the other pages do not change.
    #[inline(never)]
    pub(crate) fn user_read(&self, first: &PmuEvent) -> Result<Reading, NoUserRead> {
        let mut locks = [0; KINDS];
        let mut why = NoUserRead::NoIndex;
        for _ in 0..TRIES {
            let mut sum = None;
            let mut inactive = Inactive::default();
            for ((pmu_event, kind), lock) in self.all(first).zip(&self.kinds).zip(&mut locks) {
                let page = pmu_event.page().map_err(|_| NoUserRead::NotAllowed)?.page();
                match pmu_event.read_page() {
                    Ok(read) if read.has_stale_times => return Err(NoUserRead::NoTimes),
                    Ok(read) => {
                        *lock = read.lock;
                        sum = Some(Reading { resets: first.memory().resets(), ..kind.on(read.into()) });
                    }
                    Err(NoUserRead::NoIndex) => {
                        let page_state = read::read_inactive(page).ok_or(NoUserRead::Busy)?;
                        *lock = page_state.lock;
                        inactive.add(page_state.value, page_state.running);
                    }
                    Err(other) => why = other,
                }
            }
            let sum = sum.ok_or(why)?;
            let is_unchanged = |(pmu_event, lock): (&PmuEvent, &u32)| pmu_event.lock() == Some(*lock);
            if self.all(first).zip(&locks).all(is_unchanged) {
                return Ok(inactive.with(sum));
            }
        }
        Err(NoUserRead::Busy)
    }

    /// Reads all by `read(2)`, one after the other.
    pub(crate) fn kernel_read(&self, first: &PmuEvent) -> Result<Reading, Refusal> {
        let mut tries = 0;
        loop {
            let here = self.current_kind();
            let mut on = Reading::default();
            let mut inactive = Inactive::default();
            for (n, (pmu_event, kind)) in self.all(first).zip(&self.kinds).enumerate() {
                let reading = pmu_event.kernel_read()?;
                if n == here {
                    on = kind.on(reading);
                } else {
                    inactive.add(reading.value, reading.running);
                }
            }
            tries += 1;
            if self.current_kind() == here || tries == TRIES {
                return Ok(inactive.with(on));
            }
        }
    }
}

impl Kind {
    fn new((kind, cpus): (u8, Vec<RangeInclusive<u32>>)) -> Self {
        Self { cpus, ahead: Cell::new(0), clock: Cell::new(CoreClock { kind, uncertainty: 0 }) }
    }

    /// Converts a reading of this kind to the clock of the first kind.
    fn on(&self, reading: Reading) -> Reading {
        Reading { enabled: reading.enabled.wrapping_sub(self.ahead.get()), clock: self.clock.get(), ..reading }
    }
}

/// The counts of the kinds of core that the thread is not on.
#[derive(Default)]
struct Inactive {
    value: u64,
    running: u64,
}

impl Inactive {
    fn add(&mut self, value: u64, running: u64) {
        self.value = self.value.wrapping_add(value);
        self.running = self.running.wrapping_add(running);
    }

    /// The sum with the reading of the current kind.
    fn with(self, on: Reading) -> Reading {
        Reading { value: on.value.wrapping_add(self.value), running: on.running.wrapping_add(self.running), ..on }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Delta;

    /// A kind of core as the kernel accounts for it: started at some time, running while the thread is on it.
    #[derive(Clone, Copy, Default)]
    struct Clocked {
        started: u64,
        value: u64,
        running: u64,
    }

    /// A thread on two kinds of core, which counts one event per nanosecond. Each reading of a kind takes some time.
    struct Model {
        now: u64,
        kinds: [Clocked; 2],
        here: usize,
        clocks: [Kind; 2],
    }

    impl Model {
        fn new() -> Self {
            let kinds =
                [Clocked { started: 100, ..Clocked::default() }, Clocked { started: 900, ..Clocked::default() }];
            let clocks = [0, 1].map(|kind| Kind::new((kind, Vec::new())));
            // As measured when both were started: the second clock is 800 behind, with an uncertainty of 40.
            clocks[1].ahead.set(0_u64.wrapping_sub(800 + 33));
            clocks[1].clock.set(CoreClock { kind: 1, uncertainty: 40 });
            Self { now: 1_000, kinds, here: 0, clocks }
        }

        /// `time` passes, `counted` of it on the PMU.
        fn pass(&mut self, time: u64, counted: u64) {
            self.now += time;
            self.kinds[self.here].value += counted;
            self.kinds[self.here].running += counted;
        }

        fn read_kind(&mut self, kind: usize) -> Reading {
            self.pass(37, 37);
            let Clocked { started, value, running } = self.kinds[kind];
            Reading { value, enabled: self.now - started, running, ..Reading::default() }
        }

        fn read(&mut self) -> Reading {
            let readings = [self.read_kind(0), self.read_kind(1)];
            let mut inactive = Inactive::default();
            let other = readings[1 - self.here];
            inactive.add(other.value, other.running);
            inactive.with(self.clocks[self.here].on(readings[self.here]))
        }
    }

    #[test]
    fn a_region_on_one_kind_of_core_is_exact_however_long_the_reading_takes() {
        for here in [0, 1] {
            let mut model = Model { here, ..Model::new() };
            for time in [0, 1, 1_000, 1_000_000] {
                let before = model.read();
                model.pass(time, time);
                let Delta::Exact(counted) = model.read().since(&before) else { panic!("kind {here}, {time} ns") };
                assert!((time..=time + 2 * 37).contains(&counted), "{counted} for {time}");
            }
        }
    }

    #[test]
    fn a_move_between_kinds_of_core_is_exact() {
        let mut model = Model::new();
        let before = model.read();
        model.pass(500, 500);
        model.here = 1;
        model.pass(700, 700);
        let Delta::Exact(counted) = model.read().since(&before) else { panic!() };
        assert!((1_200..=1_200 + 4 * 37).contains(&counted), "{counted}");
    }

    #[test]
    fn time_off_the_pmu_on_either_kind_is_scaled_over_the_region() {
        for moves in [false, true] {
            let mut model = Model::new();
            let before = model.read();
            model.pass(500_000, 500_000);
            model.here = usize::from(moves);
            model.pass(500_000, 0);
            let Delta::Scaled { estimate, counted } = model.read().since(&before) else { panic!() };
            assert!((500_000..500_200).contains(&counted), "{counted}");
            assert!((1_000_000..1_000_400).contains(&estimate), "{estimate}");
        }
    }
}
