//! What a measured call costs inside a program, compared with the loops of calibration.
//!
//! Calls in bursts are a sample of a thread's calls. So in the mean, the thread needs as much for one of them, and for
//! what comes between them, as for one in the gaps, once the probe overhead is left out. What it needs more is overhead
//! that calibration did not see: caches and branch predictors do not hold all that a measured call needs. It needs less
//! if the call's instructions overlap with the program's, or if the processor was slower during calibration.

use std::cell::Cell;

use crate::platform::usage::thread_cpu_ns;
use crate::recording::reading::EventReading;
use crate::recording::recorder::event_slots::{EVENT_SLOTS, EventSlots};
use crate::recording::recorder::thread::event_set::{EventSet, SetEvent};
use crate::recording::recorder::thread::overhead::{Numbers, ProbeOverhead};
use crate::recording::start;

/// Shorter bursts teach nothing: what is left of the work for a burst would count.
pub(crate) const SHORTEST: u32 = 128;
/// What is learned from calls counts half as much after so many more.
const HALF: f64 = 16_384.0;
/// What fewer calls teach is divided by this number instead of theirs, so it counts less.
const FEWEST: f64 = 512.0;
/// The least and the most that a burst may teach, as multiples of the overhead that calibration measured. Beyond, the
/// thread did something rare in the burst or in the gap.
const FROM: f64 = -1.0;
const TO: f64 = 4.0;

/// The calls of thinned marks in a gap or in a burst, and what the thread needed meanwhile.
#[derive(Clone, Copy, Debug)]
struct Span {
    calls: f64,
    /// For each event slot, without the probe overhead; not a number if it is unknown.
    cost: [f64; EVENT_SLOTS],
}

impl Default for Span {
    fn default() -> Self {
        Self { calls: 0.0, cost: [f64::NAN; EVENT_SLOTS] }
    }
}

/// What a thread learned. All of it is in memory, because calls may be on small stacks.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// At the last begin or end of a burst, if it was noted: the numbers of calls and of skipped ones, the CPU time,
    /// the counters, and the probe overhead of the calls so far.
    calls: Cell<[u64; 2]>,
    cpu_ns: Cell<Option<u64>>,
    counters: [Cell<Option<EventReading>>; EVENT_SLOTS],
    overhead: Cell<Numbers>,
    /// For each event slot, the ticks so far for which perfmark's own work was without the CPU. These are part of the
    /// overhead, but no CPU time.
    waited: [Cell<u64>; EVENT_SLOTS],
    /// The gap before the burst.
    gap: Cell<Span>,
    /// For each event slot, how much more some calls cost, and how many they are.
    sums: [Cell<[f64; 2]>; EVENT_SLOTS],
    /// The overhead of a call and of a skipped one, as calibration measured it; how much is added to the first; and how
    /// much was when the burst began.
    measured: [Cell<u64>; EVENT_SLOTS],
    skipped: [Cell<u64>; EVENT_SLOTS],
    added: [Cell<i32>; EVENT_SLOTS],
    added_in_burst: [Cell<i32>; EVENT_SLOTS],
}

impl Learned {
    /// Notes that perfmark's own work was without the CPU for so many ticks.
    pub(crate) fn note_wait(&self, n: usize, ticks: u64) {
        self.waited[n].set(self.waited[n].get().wrapping_add(ticks));
    }

    /// Notes that a burst begins, in which all thinned marks take part. `until_now` are the numbers of calls and of
    /// skipped ones, and the probe overhead; `None` if nothing is to be learned from the calls around now.
    pub(crate) fn begin(&self, until_now: Option<([u64; 2], Numbers)>, slots: &EventSlots) {
        self.added_in_burst.iter().zip(&self.added).for_each(|(in_burst, added)| in_burst.set(added.get()));
        self.gap.set(self.since_last(until_now, slots));
    }

    /// Notes that it ends, and learns from it.
    pub(crate) fn end(&self, until_now: Option<([u64; 2], Numbers)>, slots: &EventSlots) {
        let burst = self.since_last(until_now, slots);
        self.learn(self.gap.take(), burst);
    }

    /// The calls since the last time, and what the thread needed for them.
    fn since_last(&self, until_now: Option<([u64; 2], Numbers)>, slots: &EventSlots) -> Span {
        let mut span = Span::default();
        let Some((calls, overhead)) = until_now else {
            self.cpu_ns.set(None);
            self.counters.iter().for_each(|counter| counter.set(None));
            return span;
        };
        let before = self.calls.replace(calls);
        let [calls, skipped] = [0, 1].map(|kind| calls[kind].saturating_sub(before[kind]));
        span.calls = calls as f64;
        let cpu_ns = if slots.iter().any(|slot| slot.reads_ticks()) { thread_cpu_ns() } else { None };
        // The clocks of some systems are coarse.
        let elapsed = cpu_ns.zip(self.cpu_ns.replace(cpu_ns)).filter(|(now, before)| now > before);
        let ticks = elapsed.map(|(now, before)| start::ticks_in(now - before));
        let overhead_before = self.overhead.replace(overhead);
        for (n, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.depends_on_caches()) {
            let counted = if slot.reads_ticks() {
                ticks
            } else {
                let now = slot.reading();
                now.zip(self.counters[n].replace(now)).and_then(|(now, before)| now.exactly_since(before))
            };
            let probes = overhead[n].wrapping_sub(overhead_before[n]).wrapping_sub(self.waited[n].take());
            let probes = probes.wrapping_add(skipped.wrapping_mul(self.skipped[n].get()));
            if let Some(counted) = counted {
                span.cost[n] = counted.wrapping_sub(probes).cast_signed() as f64;
            }
        }
        span
    }

    /// Learns from a burst and the gap before it.
    fn learn(&self, gap: Span, burst: Span) {
        if gap.calls.min(burst.calls) < SHORTEST.into() {
            return;
        }
        for n in 0..EVENT_SLOTS {
            let measured = self.measured[n].get() as f64;
            let more = burst.cost[n] / burst.calls - gap.cost[n] / gap.calls + f64::from(self.added_in_burst[n].get());
            if more.is_nan() {
                continue;
            }
            let [sum, calls] = self.sums[n].get().map(|sum| sum * HALF / (HALF + burst.calls));
            let is_known = (FROM * measured..=TO * measured).contains(&more);
            // If nothing is learned for long, what was learned before is no longer true.
            self.sums[n].set(if is_known { [sum + more * burst.calls, calls + burst.calls] } else { [sum, calls] });
        }
    }

    /// Chooses how much is added from now on.
    pub(crate) fn adapt(&self) {
        for ((added, sums), measured) in self.added.iter().zip(&self.sums).zip(&self.measured) {
            let [sum, calls] = sums.get();
            // No overhead is negative.
            let more = (sum / calls.max(FEWEST)).round().max(-(measured.get() as f64));
            #[expect(clippy::cast_possible_truncation, reason = "saturates")]
            added.set(more as i32);
        }
    }

    /// How many times longer a measured call takes than in the loops of calibration; `None` if the thread has not
    /// learned that. At least 1, because what bursts take besides is not known.
    pub(crate) fn factor(&self, calibrated: &ProbeOverhead<u64>) -> Option<f64> {
        let mut known = (0..EVENT_SLOTS).filter(|&n| self.sums[n].get()[1] >= FEWEST);
        let n = known.find(|&n| calibrated.total[n] > 0)?;
        let more = f64::from(self.added[n].get()) / calibrated.total[n] as f64;
        Some(1.0 + more.max(0.0))
    }

    /// Adds it to the overhead of calls with this event set, whose marks are thinned: to that of leaf calls and of
    /// callers, in their values and around them, in proportion.
    pub(crate) fn apply_to(&self, set: &EventSet) {
        let (overhead, measured) = (&set.overhead, set.measured_overhead.borrow());
        let Some(calibrated) = measured.as_ref().map(|measured| &measured.probe) else { return };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is positive")]
        let scale = |part: &Cell<u64>, measured: u64, factor: f64| part.set((measured as f64 * factor).round() as u64);
        let mut factors = [1.0; EVENT_SLOTS];
        for (n, factor) in factors.iter_mut().enumerate() {
            let total = calibrated.total[n];
            // The smallest one of all event sets: what is added must fit each.
            let least = self.measured[n].get();
            self.measured[n].set(if least == 0 { total } else { least.min(total) });
            self.skipped[n].set(calibrated.skipped[n]);
            if total > 0 {
                *factor = total.saturating_add_signed(self.added[n].get().into()) as f64 / total as f64;
            }
            scale(&overhead.total[n], total, *factor);
            scale(&overhead.caller_extra[n], calibrated.caller_extra[n], *factor);
        }
        for SetEvent { n, slot_index, .. } in set.events() {
            scale(&overhead.in_leaf[n], calibrated.in_leaf[n], factors[slot_index]);
            scale(&overhead.in_caller[n], calibrated.in_caller[n], factors[slot_index]);
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
    /// and each tenth gap and burst has so much other work. Returns what is added to the overhead of a call.
    fn learn(length: u32, more: f64, [in_gap, in_burst]: [f64; 2]) -> i32 {
        let learned = Learned::default();
        learned.measured[0].set(MEASURED);
        for burst in 0..200 {
            let span = |calls: u32, more: f64, work: f64| {
                let mut span = Span { calls: calls.into(), ..Span::default() };
                span.cost[0] = span.calls * (CALL + more) + if burst % 10 == 9 { work } else { 0.0 };
                span
            };
            let in_force = learned.added[0].get();
            learned.added_in_burst[0].set(in_force);
            // The thread adapts before it notes the end.
            learned.adapt();
            learned.learn(span(length * 64, 0.0, in_gap), span(length, more - f64::from(in_force), in_burst));
        }
        learned.adapt();
        learned.added[0].get()
    }

    #[test]
    fn overhead_that_differs_from_calibration_is_learned_from_bursts() {
        let rare = 10_000_000.0;
        for (more, expected) in [(30.0, 30), (100.0, 100), (0.0, 0), (-10.0, -10), (1_000.0, 0)] {
            assert_eq!(learn(1_024, more, [0.0; 2]), expected, "{more}");
            assert_eq!(learn(1_024, more, [rare; 2]), expected, "{more}, with rare work");
        }
    }

    #[test]
    fn short_bursts_teach_nothing() {
        assert_eq!(learn(64, 30.0, [0.0; 2]), 0);
    }
}
