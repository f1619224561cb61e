//! The first period of an event on a thread.
//!
//! It has a random length, so that each moment of a thread has the same chance of a sample, also if the thread ends
//! before a period is over. The kernel repeats the period with which an event was opened: so the event keeps its first
//! period until the collector finds a sample, and has the usual one from then on. Of the samples that the collector
//! finds then, one counts, and one more for each usual period. The next sample comes late, and by that much of a period
//! it has a chance to count twice.

use std::cell::Cell;
use std::mem;

use crate::recording::random::below;

/// Of one event of one ring.
#[derive(Clone, Debug)]
pub(super) struct FirstPeriod {
    pub(super) usual: u64,
    pub(super) first: u64,
    /// How late the next sample is, in occurrences.
    late: u64,
    /// How many of how many samples of first periods count.
    counted: [u64; 2],
    /// The number of samples until now.
    seen: u64,
    /// The position in the ring from which on the event has the usual period.
    end: Option<u64>,
    random: u64,
}

impl FirstPeriod {
    /// Draws a first period of at least `shortest`: samples may follow one another at that distance until the collector
    /// reads them. `None` if it is the usual one.
    pub(super) fn new(usual: u64, shortest: u64, random: &Cell<u64>) -> Option<Self> {
        let first = (1 + below(usual, random)).max(shortest).min(usual);
        let random = below(u64::MAX, random) | 1;
        (first < usual).then_some(Self { usual, first, late: 0, counted: [1, 1], seen: 0, end: None, random })
    }

    /// Whether the event still has its first period.
    pub(super) fn goes_on(&self) -> bool {
        self.end.is_none()
    }

    /// Whether the event has had a sample in its first period.
    pub(super) fn has_samples(&self) -> bool {
        self.seen > 0
    }

    /// The event has occurred that many times just before the ring is read.
    pub(super) fn read_at(&mut self, occurrences: u64) {
        let after_first = occurrences.saturating_sub(self.first);
        self.counted = [after_first / self.usual, after_first / self.first].map(|samples| 1 + samples);
    }

    /// The event has the usual period from this position of the ring and this number of occurrences on.
    pub(super) fn end_at(&mut self, position: u64, occurrences: u64) {
        self.end = Some(position);
        let usual = self.usual * (self.counted[0] - 1);
        self.late = occurrences.saturating_sub(self.first).saturating_sub(usual);
    }

    fn below(&mut self, limit: u64) -> u64 {
        below(limit, Cell::from_mut(&mut self.random))
    }

    /// How often a sample counts, whose record begins at this position of the ring.
    pub(super) fn weight(&mut self, position: u64) -> u64 {
        match self.end {
            None => {
                // A first period may have been over in the kernel, without a sample. So all have the same chance.
                let [counted, all] = self.counted;
                self.seen += 1;
                u64::from(self.seen <= all && self.below(all) < counted)
            }
            Some(end) if position.wrapping_sub(end).cast_signed() < 0 => 0,
            Some(_) => {
                let late = mem::take(&mut self.late);
                1 + late / self.usual + u64::from(self.below(self.usual) < late % self.usual)
            }
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// The samples of a thread of this length, whose ring is read after each `round`; it takes effect `late`.
    fn samples(length: u64, usual: u64, [round, late]: [u64; 2], random: &Cell<u64>) -> u64 {
        let Some(mut first) = FirstPeriod::new(usual, usual / 16, random) else { return length / usual };
        // The ring's position is the time.
        let read = first.first.next_multiple_of(round).min(length);
        let end = (read + late).min(length);
        first.read_at(read);
        let weights = |first: &mut FirstPeriod, times: &mut dyn Iterator<Item = u64>| -> u64 {
            times.map(|at| first.weight(at - 1)).sum()
        };
        let (period, usual) = (first.first, first.usual);
        let in_time = weights(&mut first, &mut (1..=read / period).map(|n| n * period));
        first.end_at(end, end);
        let mut early = (read / period + 1..=end / period).map(|n| n * period);
        let mut late = (1..=(length - end) / usual).map(|n| end + n * usual);
        in_time + weights(&mut first, &mut early) + weights(&mut first, &mut late)
    }

    #[test]
    fn threads_have_samples_in_proportion_to_their_length_however_late_the_ring_is_read() {
        const THREADS: u64 = 100_000;
        let random = Cell::new(7);
        for round in [[1, 0], [90, 0], [90, 500], [700, 100]] {
            for (shortest, longest) in [(100, 101), (400, 401), (900, 901), (3_000, 4_000), (9_000, 10_000)] {
                let length = || shortest + below(longest - shortest, &random);
                let all: u64 = (0..THREADS).map(|_| samples(length(), 1_000, round, &random)).sum();
                let (mean, expected) = (all as f64 / THREADS as f64, (shortest + longest) as f64 / 2_000.0);
                println!("lengths from {shortest} to {longest}, read after {round:?}: {mean}");
                assert!((mean - expected).abs() < 0.03, "{mean} instead of {expected}");
            }
        }
    }
}
