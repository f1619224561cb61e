//! How much more a measured call costs inside a program than in the loops of calibration, where caches and branch
//! predictors hold all that it needs.
//!
//! Calls in bursts are a sample of a thread's calls. So in the mean, one of them costs as much as one in the gaps, once
//! the probe overhead is left out. What it costs more is overhead that calibration did not see; it costs less if the
//! core was slower during calibration.

use std::array;
use std::cell::Cell;

use perfmark_rdpmc::clock;

use crate::platform::usage::thread_cpu_ns;
use crate::recording::recorder::event_slots::{EVENT_SLOTS, EventSlots};
use crate::recording::recorder::thread::event_set::EventSet;
use crate::recording::start;
use crate::settings::recording::is_off;

/// Shorter bursts teach nothing: what is left of the work for a burst would count.
const SHORTEST: f64 = 128.0;
/// What is learned from calls counts half as much after so many more.
const HALF: f64 = 8_192.0;
/// Fewer calls are taken to be too few: what they teach counts as if these were as many.
const FEWEST: f64 = 512.0;
/// The most that a burst teaches, as a multiple of the overhead that calibration measured: the program may do something
/// rare in a burst, or in a gap.
const MOST: f64 = 2.0;
/// A burst teaches nothing if the thread is off the CPU for more than one of so many ticks.
const OFF_CPU: u64 = 16;

/// The cost of an open call so far, and how many calls of thinned marks the thread made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The number of the open call.
    call: u64,
    calls: u64,
    /// For each event slot that may cost more, with all calls inside.
    net: [Option<u64>; EVENT_SLOTS],
    ticks: u64,
    /// The event slot that counts ticks also while the thread waits, and the thread's CPU time.
    waiting: Option<(usize, u64)>,
}

/// What happened since an earlier moment.
struct Interval {
    calls: f64,
    ticks: u64,
    off_cpu: u64,
    /// The cost of a call in each event slot, without time off the CPU.
    of_call: [Option<f64>; EVENT_SLOTS],
}

impl Moment {
    pub(crate) fn new(slots: &EventSlots, call: u64, calls: u64, net: [Option<u64>; EVENT_SLOTS]) -> Self {
        // After recording has ended, no system call is allowed.
        let waits = slots.iter().position(|slot| slot.is_ticks()).filter(|_| !is_off());
        let (waiting, ticks) = (waits.and_then(|n| Some((n, thread_cpu_ns()?))), clock::ticks());
        let of_slot = |n: usize| net[n].filter(|_| slots.get(n).is_some_and(|slot| slot.depends_on_caches()));
        Self { call, calls, net: array::from_fn(of_slot), ticks, waiting }
    }

    /// `None` if the open call is another one, or if there were no calls.
    fn since(&self, earlier: &Self) -> Option<Interval> {
        let calls = self.calls.checked_sub(earlier.calls).filter(|calls| *calls > 0 && self.call == earlier.call)?;
        let (calls, ticks) = (calls as f64, self.ticks.saturating_sub(earlier.ticks));
        let on_cpu =
            |((_, now), (_, earlier)): ((usize, u64), (usize, u64))| start::ticks_in(now.saturating_sub(earlier));
        let off_cpu = ticks.saturating_sub(self.waiting.zip(earlier.waiting).map_or(ticks, on_cpu));
        let of_call = |n: usize| {
            let waiting = if self.waiting.is_some_and(|(waits, _)| waits == n) { off_cpu } else { 0 };
            let cost = self.net[n]?.wrapping_sub(earlier.net[n]?).wrapping_sub(waiting);
            Some(cost.cast_signed() as f64 / calls)
        };
        Some(Interval { calls, ticks, off_cpu, of_call: array::from_fn(of_call) })
    }
}

/// What a thread learned.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// When the last burst ended, and when the one in progress began.
    ended: Cell<Option<Moment>>,
    began: Cell<Option<Moment>>,
    /// For each event slot, how much more some calls cost, and how many they are.
    sums: [Cell<[f64; 2]>; EVENT_SLOTS],
    /// The overhead of a call, as calibration measured it, and how much is added to it.
    measured: [Cell<u64>; EVENT_SLOTS],
    added: [Cell<f64>; EVENT_SLOTS],
}

impl Learned {
    /// A burst begins, in which all thinned marks take part.
    pub(crate) fn begin(&self, now: &Moment) {
        self.began.set(Some(*now));
    }

    /// A burst ends.
    pub(crate) fn end(&self, now: &Moment) {
        let (ended, began) = (self.ended.replace(Some(*now)), self.began.take());
        let gap = ended.zip(began).and_then(|(ended, began)| began.since(&ended));
        let Some((gap, burst)) = gap.zip(began.and_then(|began| now.since(&began))) else { return };
        if burst.calls < SHORTEST || burst.off_cpu > burst.ticks / OFF_CPU {
            return;
        }
        for (n, of_call) in burst.of_call.into_iter().zip(gap.of_call).enumerate() {
            if let (Some(in_burst), Some(in_gap)) = of_call {
                let most = MOST * self.measured[n].get() as f64;
                let more = (in_burst - in_gap + self.added[n].get()).clamp(-most, most);
                let [sum, calls] = self.sums[n].get().map(|sum| sum * HALF / (HALF + burst.calls));
                self.sums[n].set([sum + more * burst.calls, calls + burst.calls]);
            }
        }
    }

    /// Chooses how much is added from now on.
    pub(crate) fn adapt(&self) {
        for (added, sums) in self.added.iter().zip(&self.sums) {
            let [sum, calls] = sums.get();
            added.set((sum / calls.max(FEWEST)).round());
        }
    }

    /// Adds it to the overhead of calls with this event set.
    pub(crate) fn apply_to(&self, set: &EventSet) {
        let Some(overhead) = set.measured_overhead.get().map(|measured| measured.probe) else { return };
        for (n, (total, measured)) in set.overhead.total.iter().zip(overhead.total).enumerate() {
            self.measured[n].set(measured);
            #[expect(clippy::cast_possible_truncation, reason = "a small integer")]
            total.set(measured.saturating_add_signed(self.added[n].get() as i64).max(measured / 2));
        }
    }
}

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use super::*;

    /// What a call of the program costs, and the overhead of a measured one, as calibration measured it.
    const CALL: f64 = 40.0;
    const MEASURED: u64 = 50;

    /// Runs bursts of so many calls, with gaps between them. A measured call costs `more` than calibration measured,
    /// and the gaps and the bursts wait for so many ticks. Returns what is added to the overhead of a call.
    fn learn(length: u64, more: f64, waiting: [u64; 2], call: impl Fn(u64) -> u64) -> f64 {
        let learned = Learned::default();
        learned.measured[0].set(MEASURED);
        let mut now = Moment { call: 0, calls: 0, net: [None; EVENT_SLOTS], ticks: 0, waiting: Some((0, 0)) };
        now.net[0] = Some(0);
        for burst in 0..200 {
            now.call = call(burst);
            for (calls, more, waiting) in
                [(length * 64, 0.0, waiting[0]), (length, more - learned.added[0].get(), waiting[1])]
            {
                now.calls += calls;
                now.ticks += start::ticks_in(100 * calls) + waiting;
                now.waiting = now.waiting.map(|(n, cpu_ns)| (n, cpu_ns + 100 * calls));
                #[expect(clippy::cast_possible_truncation, reason = "a small integer")]
                let cost = (calls as f64 * (CALL + more)).round() as i64;
                now.net[0] = now.net[0].map(|net| net.wrapping_add_signed(cost) + waiting);
                if more == 0.0 && calls > length { learned.begin(&now) } else { learned.end(&now) }
            }
            learned.adapt();
        }
        learned.added[0].get()
    }

    #[test]
    fn overhead_that_calibration_did_not_see_is_learned_from_bursts() {
        for (more, expected) in [(30.0, 30.0), (-10.0, -10.0), (0.0, 0.0), (1_000.0, 100.0), (-1_000.0, -100.0)] {
            let learned = learn(1_024, more, [5_000, 0], |_| 7);
            assert!((learned - expected).abs() <= 0.001 * expected.abs(), "{more}: {learned}");
        }
    }

    #[test]
    fn short_bursts_bursts_with_waiting_and_bursts_in_different_calls_teach_nothing() {
        let each =
            [learn(64, 30.0, [0, 0], |_| 7), learn(1_024, 30.0, [0, 50_000], |_| 7), learn(1_024, 30.0, [0, 0], |n| n)];
        assert!(each.iter().all(|learned| learned.abs() < 0.5), "{each:?}");
    }
}
