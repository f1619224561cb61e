//! One event on the PMUs of several kinds of core: performance and efficiency cores, big.LITTLE.
//!
//! The event is open on each PMU. On each it is enabled all the time, and running only while the thread is on that kind of core. So counts
//! and running times are added, never scaled each, and the enabled time is that of the kind that the thread is on: read at the same moment as
//! the one running time that moves, so that the time off the PMU does not jitter, however long the reading of all takes.

use std::cell::Cell;
use std::ops::RangeInclusive;

use crate::part::{Part, Refusal};
use crate::read::{self, AskKernel};
use crate::reading::{Clock, Reading};
use crate::sys;

/// The event on the kinds of core after the first.
#[derive(Debug)]
pub(crate) struct Others {
    parts: Box<[Part]>,
    /// Of all, the first one's before.
    kinds: Box<[Kind]>,
}

#[derive(Debug)]
struct Kind {
    cpus: Vec<RangeInclusive<u32>>,
    /// Nanoseconds that its enabled time is ahead of the first one's, as it was started a little earlier.
    ahead: Cell<u64>,
    /// Which kind it is, and how far that may be off.
    clock: Cell<Clock>,
}

/// No machine has more kinds.
const KINDS: usize = 8;

/// The kernel moves a thread from one kind of core to another at most a few times a millisecond.
const TRIES: usize = 10;

impl Others {
    /// None if there is one kind only.
    pub(crate) fn new(
        first: &Part,
        cpus: Vec<RangeInclusive<u32>>,
        others: Vec<(Part, Vec<RangeInclusive<u32>>)>,
    ) -> Option<Box<Self>> {
        let (parts, others): (Vec<Part>, Vec<_>) = others.into_iter().unzip();
        if parts.is_empty() {
            return None;
        }
        let kinds = (0..).zip(std::iter::once(cpus).chain(others)).map(Kind::new).collect();
        let this = Self { parts: parts.into(), kinds };
        this.note_starts(first);
        Some(Box::new(this))
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn all<'a>(&'a self, first: &'a Part) -> impl Iterator<Item = &'a Part> {
        std::iter::once(first).chain(&self.parts)
    }

    pub(crate) fn give_up_pages(&mut self, why: &str) {
        for part in &mut self.parts {
            part.give_up_page(why);
        }
    }

    /// Which kind of core the thread is on.
    fn kind_here(&self) -> usize {
        let cpu = sys::cpu();
        let has = |kind: &Kind| cpu.is_some_and(|cpu| kind.cpus.iter().any(|cpus| cpus.contains(&cpu)));
        self.kinds.iter().position(has).unwrap_or(0)
    }

    /// The event on that kind.
    pub(crate) fn here<'a>(&'a self, first: &'a Part) -> &'a Part {
        self.kind_here().checked_sub(1).and_then(|other| self.parts.get(other)).unwrap_or(first)
    }

    /// Takes note of how far the enabled times are apart, as they were started or stopped one after another: of a few tries the one whose
    /// readings are nearest to each other.
    pub(crate) fn note_starts(&self, first: &Part) {
        const READINGS: usize = 16;
        for (part, kind) in self.parts.iter().zip(&self.kinds[1..]) {
            let ahead = || {
                let (before, other, after) = (first.kernel_read(), part.kernel_read(), first.kernel_read());
                let (before, other, after) = (before.ok()?.enabled, other.ok()?.enabled, after.ok()?.enabled);
                let apart = after.saturating_sub(before);
                Some((apart, other.wrapping_sub(before + apart / 2)))
            };
            if let Some((apart, ahead)) = (0..READINGS).filter_map(|_| ahead()).min() {
                kind.ahead.set(ahead);
                kind.clock
                    .set(Clock { within: u16::try_from(apart.div_ceil(2)).unwrap_or(u16::MAX), ..kind.clock.get() });
            }
        }
    }

    /// Reads in user space: the kind that the thread is on has a counter to read, and the others' pages stand still.
    #[inline(never)]
    pub(crate) fn user_read(&self, first: &Part) -> Result<Reading, AskKernel> {
        let mut locks = [0; KINDS];
        let mut why = AskKernel::NoIndex;
        for _ in 0..TRIES {
            let mut sum = None;
            let mut resting = Resting::default();
            for ((part, kind), lock) in self.all(first).zip(&self.kinds).zip(&mut locks) {
                let page = part.page().map_err(|_| AskKernel::NotAllowed)?.page();
                match part.look() {
                    Ok(read) if read.is_late => return Err(AskKernel::NoTimes),
                    Ok(read) => {
                        *lock = read.lock;
                        sum = Some(Reading { resets: first.resets(), ..kind.on(read.into()) });
                    }
                    Err(AskKernel::NoIndex) => {
                        let rest = read::rest(page).ok_or(AskKernel::Busy)?;
                        *lock = rest.lock;
                        resting.add(rest.value, rest.running);
                    }
                    Err(other) => why = other,
                }
            }
            let sum = sum.ok_or(why)?;
            let is_unchanged = |(part, lock): (&Part, &u32)| part.lock() == Some(*lock);
            if self.all(first).zip(&locks).all(is_unchanged) {
                return Ok(resting.with(sum));
            }
        }
        Err(AskKernel::Busy)
    }

    /// Reads by `read(2)`, one after the other.
    pub(crate) fn kernel_read(&self, first: &Part) -> Result<Reading, Refusal> {
        let mut tries = 0;
        loop {
            let here = self.kind_here();
            let mut on = Reading::default();
            let mut resting = Resting::default();
            for (n, (part, kind)) in self.all(first).zip(&self.kinds).enumerate() {
                let reading = part.kernel_read()?;
                if n == here {
                    on = kind.on(reading);
                } else {
                    resting.add(reading.value, reading.running);
                }
            }
            tries += 1;
            if self.kind_here() == here || tries == TRIES {
                return Ok(resting.with(on));
            }
        }
    }
}

impl Kind {
    fn new((kind, cpus): (u8, Vec<RangeInclusive<u32>>)) -> Self {
        Self { cpus, ahead: Cell::new(0), clock: Cell::new(Clock { kind, within: 0 }) }
    }

    /// A reading of this kind by the first one's clock.
    fn on(&self, reading: Reading) -> Reading {
        Reading { enabled: reading.enabled.wrapping_sub(self.ahead.get()), clock: self.clock.get(), ..reading }
    }
}

/// What the kinds of core have counted that the thread is not on.
#[derive(Default)]
struct Resting {
    value: u64,
    running: u64,
}

impl Resting {
    fn add(&mut self, value: u64, running: u64) {
        self.value = self.value.wrapping_add(value);
        self.running = self.running.wrapping_add(running);
    }

    /// Together with the kind that the thread is on.
    fn with(self, on: Reading) -> Reading {
        Reading { value: on.value.wrapping_add(self.value), running: on.running.wrapping_add(self.running), ..on }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Delta;

    /// A kind of core as the kernel keeps it: started at some time, it runs while the thread is on it.
    #[derive(Clone, Copy, Default)]
    struct Clocked {
        started: u64,
        value: u64,
        running: u64,
    }

    /// A thread on two kinds of core, which counts an event each nanosecond; each look at a kind takes some time.
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
            // As it is worked out when both were started: the second one's clock is 800 behind, give or take 40.
            clocks[1].ahead.set(0_u64.wrapping_sub(800 + 33));
            clocks[1].clock.set(Clock { kind: 1, within: 40 });
            Self { now: 1_000, kinds, here: 0, clocks }
        }

        /// `counted` of the time on the PMU.
        fn pass(&mut self, time: u64, counted: u64) {
            self.now += time;
            self.kinds[self.here].value += counted;
            self.kinds[self.here].running += counted;
        }

        fn look(&mut self, kind: usize) -> Reading {
            self.pass(37, 37);
            let Clocked { started, value, running } = self.kinds[kind];
            Reading { value, enabled: self.now - started, running, ..Reading::default() }
        }

        fn read(&mut self) -> Reading {
            let looks = [self.look(0), self.look(1)];
            let mut resting = Resting::default();
            let other = looks[1 - self.here];
            resting.add(other.value, other.running);
            resting.with(self.clocks[self.here].on(looks[self.here]))
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
    fn time_off_the_pmu_on_either_kind_is_scaled_over_the_whole() {
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
