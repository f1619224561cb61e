//! What a measured call costs inside a program, compared with the loops of calibration.
//!
//! Calls in bursts are a sample of a thread's calls. So in the mean, one of them costs as much as one in the gaps, once
//! the probe overhead is left out. What it costs more is overhead that calibration did not see: caches and branch
//! predictors do not hold all that it needs. It costs less if its instructions overlap with the program's, or if the
//! processor was slower during calibration.

use std::cell::Cell;

use super::bursts::Bursts;
use crate::recording::recorder::event_slots::{EVENT_SLOTS, EventSlots};
use crate::recording::recorder::thread::event_set::{EventSet, SetEvent};
use crate::recording::recorder::thread::overhead::ProbeOverhead;

/// Shorter bursts teach nothing: what is left of the work for a burst would count.
const SHORTEST: f64 = 128.0;
/// What is learned from calls counts half as much after so many more.
const HALF: f64 = 16_384.0;
/// What fewer calls teach is divided by this number instead of theirs, so it counts less.
const FEWEST: f64 = 512.0;
/// The least and the most that a burst may teach, as multiples of the overhead that calibration measured. Beyond, the
/// thread waited, or did something rare, in the burst or in the gap.
const FROM: f64 = -1.0;
const TO: f64 = 4.0;

/// If fewer than one in so many calls begin while no measured call is open, what of them is skipped does not matter.
const FEW_OUTSIDE: u64 = 16;

/// The cost of a thread's marked calls until a burst begins or ends, and how many calls of thinned marks there were.
#[derive(Debug, Default)]
pub(crate) struct BurstEdge {
    /// The call in which the edge is; `None` if none is open.
    call: Cell<Option<Call>>,
    calls: Cell<u64>,
    /// For each event slot.
    net: [Cell<Option<u64>>; EVENT_SLOTS],
}

/// The key of a mark and the number of its call; 0 for any call of the mark.
pub(crate) type Call = (usize, u64);

impl BurstEdge {
    /// An edge after so many calls, of which nothing else is known yet.
    fn begin(&self, calls: u64) -> &Self {
        self.calls.set(calls);
        self.note_call(None);
        self
    }

    /// Notes an open call, or none. Nothing else is known of it yet.
    pub(crate) fn note_call(&self, call: Option<Call>) {
        self.call.set(call);
        self.net.iter().for_each(|net| net.set(None));
    }

    /// Notes the call's cost until now, perhaps together with that of calls before it.
    pub(crate) fn note_cost(&self, slot: usize, net: u64) {
        self.net[slot].set(Some(net));
    }

    /// The number of calls since an earlier edge; 0 if the cost of some of them may be unknown.
    fn calls_since(&self, earlier: &Self) -> f64 {
        let is_same = self.call == earlier.call && self.call.get().is_some();
        if is_same { self.calls.get().saturating_sub(earlier.calls.get()) as f64 } else { 0.0 }
    }

    /// What the slot counted since.
    fn cost_since(&self, earlier: &Self, slot: usize) -> Option<f64> {
        Some(self.net[slot].get()?.wrapping_sub(earlier.net[slot].get()?).cast_signed() as f64)
    }
}

/// What a thread learned. All of it is in memory, because calls may be on small stacks.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// When the last burst ended, when the next one began, and when that ended.
    edges: [BurstEdge; 3],
    /// The index of the first of these.
    first: Cell<usize>,
    /// For each event slot, how much more some calls cost, and how many they are.
    sums: [Cell<[f64; 2]>; EVENT_SLOTS],
    /// The overhead of a call, as calibration measured it; how much is added to it; and how much was when the burst
    /// began.
    measured: [Cell<u64>; EVENT_SLOTS],
    added: [Cell<i32>; EVENT_SLOTS],
    added_in_burst: [Cell<i32>; EVENT_SLOTS],
    /// The number of calls in bursts, and in those that began while no call with a known cost was open.
    seen: Cell<u64>,
    outside: Cell<u64>,
}

impl Learned {
    fn edge(&self, n: usize) -> &BurstEdge {
        &self.edges[(self.first.get() + n) % self.edges.len()]
    }

    /// Whether many calls may have been skipped while no measured call was open. Bursts begin at random calls, so they
    /// tell.
    pub(crate) fn has_calls_outside(&self) -> bool {
        self.outside.get().saturating_mul(FEW_OUTSIDE) > self.seen.get()
    }

    /// The begin of a burst in which all thinned marks take part.
    pub(crate) fn begin(&self, bursts: &Bursts) -> &BurstEdge {
        self.added_in_burst.iter().zip(&self.added).for_each(|(in_burst, added)| in_burst.set(added.get()));
        self.edge(1).begin(bursts.calls())
    }

    /// The end of the burst.
    pub(crate) fn end(&self, bursts: &Bursts) -> &BurstEdge {
        self.edge(2).begin(bursts.calls())
    }

    /// Learns from a burst of which both edges were noted.
    pub(crate) fn learn(&self, slots: &EventSlots) {
        self.learn_of(|n| slots.get(n).is_some_and(|slot| slot.depends_on_caches()));
    }

    /// Learns of these slots.
    fn learn_of(&self, is_learned: impl Fn(usize) -> bool) {
        let [ended, begun, now] = [0, 1, 2].map(|n| self.edge(n));
        let (in_gap, in_burst) = (begun.calls_since(ended), now.calls_since(begun));
        let is_outside = (0..EVENT_SLOTS).any(|n| is_learned(n) && begun.net[n].get().is_none());
        let calls = now.calls.get().saturating_sub(begun.calls.get());
        self.seen.set(self.seen.get() + calls);
        self.outside.set(self.outside.get() + if is_outside { calls } else { 0 });
        begun.call.set(None);
        self.first.set((self.first.get() + 2) % self.edges.len());
        if in_gap == 0.0 || in_burst < SHORTEST {
            return;
        }
        for n in (0..EVENT_SLOTS).filter(|&n| is_learned(n)) {
            let (Some(gap), Some(burst)) = (begun.cost_since(ended, n), now.cost_since(begun, n)) else { continue };
            let measured = self.measured[n].get() as f64;
            let more = burst / in_burst - gap / in_gap + f64::from(self.added_in_burst[n].get());
            let [sum, calls] = self.sums[n].get().map(|sum| sum * HALF / (HALF + in_burst));
            let is_known = (FROM * measured..=TO * measured).contains(&more);
            // If nothing is learned for long, what was learned before is no longer true.
            self.sums[n].set(if is_known { [sum + more * in_burst, calls + in_burst] } else { [sum, calls] });
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
    fn learn(length: u64, more: f64, [in_gap, in_burst]: [u64; 2], call: impl Fn(u64) -> u64) -> i32 {
        let learned = Learned::default();
        learned.measured[0].set(MEASURED);
        let (bursts, mut calls, mut net) = (Bursts::default(), 0, 0_u64);
        for burst in 0..200 {
            let mut note = |edge: &BurstEdge, of_part: u64, more: f64, work: u64| {
                calls += of_part;
                #[expect(clippy::cast_possible_truncation, reason = "a small integer")]
                let cost = (of_part as f64 * (CALL + more)).round() as i64;
                net = net.wrapping_add_signed(cost) + if burst % 10 == 9 { work } else { 0 };
                edge.calls.set(calls);
                edge.note_call(Some((1, call(burst))));
                edge.note_cost(0, net);
            };
            note(learned.begin(&bursts), length * 64, 0.0, in_gap);
            let in_force = f64::from(learned.added[0].get());
            // The thread adapts before it notes the end.
            learned.adapt();
            note(learned.end(&bursts), length, more - in_force, in_burst);
            learned.learn_of(|n| n == 0);
        }
        learned.adapt();
        learned.added[0].get()
    }

    #[test]
    fn overhead_that_differs_from_calibration_is_learned_from_bursts() {
        let waiting = 10_000_000;
        for (more, expected) in [(30.0, 30), (100.0, 100), (0.0, 0), (-10.0, -10), (1_000.0, 0)] {
            assert_eq!(learn(1_024, more, [0, 0], |_| 7), expected, "{more}");
            assert_eq!(learn(1_024, more, [waiting, waiting], |_| 7), expected, "{more}, with waiting");
        }
    }

    #[test]
    fn short_bursts_and_bursts_in_different_calls_teach_nothing() {
        assert_eq!([learn(64, 30.0, [0, 0], |_| 7), learn(1_024, 30.0, [0, 0], |burst| burst)], [0, 0]);
    }
}
