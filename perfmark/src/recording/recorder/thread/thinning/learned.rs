//! How much more a measured call costs inside a program than in the loops of calibration, where caches and branch
//! predictors hold all that it needs.
//!
//! Calls in bursts are a sample of a thread's calls. So in the mean, one of them costs as much as one in the gaps, once
//! the probe overhead is left out. What it costs more is overhead that calibration did not see; it costs less if the
//! core was slower during calibration.

use std::cell::Cell;

use perfmark_rdpmc::clock;

use super::bursts::Bursts;
use crate::platform::usage::thread_cpu_ns;
use crate::recording::recorder::event_slots::{EVENT_SLOTS, EventSlots};
use crate::recording::recorder::thread::event_set::EventSet;
use crate::recording::start;
use crate::settings::recording::is_off;

/// Shorter bursts teach nothing: what is left of the work for a burst would count.
const SHORTEST: u32 = 128;
/// What is learned from calls counts half as much after so many more.
const HALF: f64 = 8_192.0;
/// Fewer calls are taken to be too few: what they teach counts as if these were as many.
const FEWEST: f64 = 512.0;
/// The most that a burst teaches, as a multiple of the overhead that calibration measured: the program may do something
/// rare in a burst, or in a gap.
const MOST: f64 = 2.0;
/// A burst teaches nothing if the thread is off the CPU for more than one of so many ticks.
const OFF_CPU: u64 = 16;

/// The cost of an open call at one moment, and how many calls of thinned marks the thread had made.
#[derive(Debug, Default)]
pub(crate) struct Moment {
    /// The number of the open call; 0 if there is none.
    call: Cell<u64>,
    calls: Cell<u64>,
    ticks: Cell<u64>,
    /// The thread's CPU time, if a slot counts ticks also while the thread waits.
    cpu_ns: Cell<Option<u64>>,
    /// For each event slot, with all calls inside.
    net: [Cell<Option<u64>>; EVENT_SLOTS],
}

impl Moment {
    /// Notes the number of an open call, or 0. Nothing else is known of it yet.
    pub(crate) fn note_call(&self, call: u64) {
        self.call.set(call);
        self.net.iter().for_each(|net| net.set(None));
    }

    pub(crate) fn note_cost(&self, slot: usize, net: u64) {
        self.net[slot].set(Some(net));
    }

    /// Notes the rest.
    fn note_calls(&self, bursts: &Bursts, slots: &EventSlots) {
        self.calls.set(bursts.calls());
        // After recording has ended, no system call is allowed.
        let needs_cpu_time = slots.iter().any(|slot| slot.is_ticks()) && bursts.length() >= SHORTEST && !is_off();
        self.cpu_ns.set(if needs_cpu_time { thread_cpu_ns() } else { None });
        self.ticks.set(clock::ticks());
    }

    /// The number of calls since an earlier moment; 0 if the open call is another one.
    fn calls_since(&self, earlier: &Self) -> f64 {
        let is_same = self.call == earlier.call && self.call.get() != 0;
        if is_same { self.calls.get().saturating_sub(earlier.calls.get()) as f64 } else { 0.0 }
    }

    /// How many ticks there were since, and for how many of them the thread was off the CPU.
    fn ticks_since(&self, earlier: &Self) -> [u64; 2] {
        let ticks = self.ticks.get().saturating_sub(earlier.ticks.get());
        let on_cpu = self.cpu_ns.get().zip(earlier.cpu_ns.get());
        [ticks, on_cpu.map_or(0, |(now, earlier)| ticks.saturating_sub(start::ticks_in(now.saturating_sub(earlier))))]
    }

    /// What the slot counted since.
    fn cost_since(&self, earlier: &Self, slot: usize) -> Option<u64> {
        Some(self.net[slot].get()?.wrapping_sub(earlier.net[slot].get()?))
    }
}

/// What a thread learned. All of it is in memory, because calls may be on small stacks.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// When the last burst ended, when the next one began, and when that ended.
    moments: [Moment; 3],
    /// The index of the first of these.
    first: Cell<usize>,
    /// For each event slot, how much more some calls cost, and how many they are.
    sums: [Cell<[f64; 2]>; EVENT_SLOTS],
    /// The overhead of a call, as calibration measured it, and how much is added to it.
    measured: [Cell<u64>; EVENT_SLOTS],
    added: [Cell<f64>; EVENT_SLOTS],
}

impl Learned {
    fn moment(&self, n: usize) -> &Moment {
        &self.moments[(self.first.get() + n) % self.moments.len()]
    }

    /// The moment at which a burst begins, in which all thinned marks take part.
    pub(crate) fn of_begin(&self) -> &Moment {
        self.moment(1)
    }

    pub(crate) fn begin(&self, bursts: &Bursts, slots: &EventSlots) {
        self.of_begin().note_calls(bursts, slots);
    }

    /// The moment at which the burst ends.
    pub(crate) fn of_end(&self) -> &Moment {
        self.moment(2)
    }

    pub(crate) fn end(&self, bursts: &Bursts, slots: &EventSlots) {
        self.of_end().note_calls(bursts, slots);
        self.learn(|n| {
            let slot = slots.get(n).filter(|slot| slot.depends_on_caches());
            slot.map(|slot| slot.is_ticks())
        });
    }

    /// Learns from the burst. `counts_waiting` says of a slot whether it counts time off the CPU; `None` if there is
    /// nothing to learn.
    fn learn(&self, counts_waiting: impl Fn(usize) -> Option<bool>) {
        let [ended, began, now] = [0, 1, 2].map(|n| self.moment(n));
        let (in_gap, in_burst) = (began.calls_since(ended), now.calls_since(began));
        let ([_, waited], [ticks, off_cpu]) = (began.ticks_since(ended), now.ticks_since(began));
        began.call.set(0);
        self.first.set((self.first.get() + 2) % self.moments.len());
        if in_gap == 0.0 || in_burst < SHORTEST.into() || off_cpu > ticks / OFF_CPU {
            return;
        }
        for n in 0..EVENT_SLOTS {
            let costs = began.cost_since(ended, n).zip(now.cost_since(began, n));
            if let Some((counts_waiting, (gap, burst))) = counts_waiting(n).zip(costs) {
                let [waited, off_cpu] = [waited, off_cpu].map(|waiting| if counts_waiting { waiting } else { 0 });
                let of_call = |cost: u64, waiting, calls| cost.wrapping_sub(waiting).cast_signed() as f64 / calls;
                let more = of_call(burst, off_cpu, in_burst) - of_call(gap, waited, in_gap) + self.added[n].get();
                let most = MOST * self.measured[n].get() as f64;
                let [sum, calls] = self.sums[n].get().map(|sum| sum * HALF / (HALF + in_burst));
                self.sums[n].set([sum + more.clamp(-most, most) * in_burst, calls + in_burst]);
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
        let overhead = set.measured_overhead.borrow();
        let Some(overhead) = overhead.as_ref() else { return };
        for (n, (total, &measured)) in set.overhead.total.iter().zip(&overhead.probe.total).enumerate() {
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
        let (mut calls, mut ticks, mut cpu_ns, mut net) = (0, 0, 0, 0_u64);
        for burst in 0..200 {
            let in_burst = more - learned.added[0].get();
            for (moment, of_part, more, waiting) in
                [(learned.of_begin(), length * 64, 0.0, waiting[0]), (learned.of_end(), length, in_burst, waiting[1])]
            {
                calls += of_part;
                ticks += start::ticks_in(100 * of_part) + waiting;
                cpu_ns += 100 * of_part;
                #[expect(clippy::cast_possible_truncation, reason = "a small integer")]
                let cost = (of_part as f64 * (CALL + more)).round() as i64;
                net = net.wrapping_add_signed(cost) + waiting;
                moment.note_call(call(burst));
                moment.note_cost(0, net);
                moment.calls.set(calls);
                moment.ticks.set(ticks);
                moment.cpu_ns.set(Some(cpu_ns));
            }
            learned.learn(|n| (n == 0).then_some(true));
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
