//! What probes cost.

use std::array;
use std::cell::Cell;

use super::counters::{EVENT_SLOTS, EventSlots, ReadMethod};
use super::stack::{FRAME_EVENTS, Frame};
use crate::events::EventId;
use crate::mark::Manner;

/// EventSlots whose costs are added on the fast path, at most.
pub(super) const FAST_EVENT_SLOTS: usize = 2 * FRAME_EVENTS;

/// What the probe of one set of events costs on threads that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MeasuredOverhead {
    /// What it sees of itself, for each event of the set.
    pub(super) in_leaf: Vec<u64>,
    /// How much more an empty call shows, at most, in nine cases of ten; for each event of the set.
    pub(super) noise: Vec<u64>,
    /// What a caller sees of its own probe, for each event of the set.
    pub(super) in_caller: Vec<u64>,
    /// What is seen of it from around, for each event that the thread has.
    pub(super) total: Vec<u64>,
    /// How much more is seen of a caller's.
    pub(super) caller_extra: Vec<u64>,
    /// What is seen from around of a call that is skipped, and how much more of one that is drawn to be measured.
    pub(super) skipped: Vec<u64>,
    pub(super) drawn_extra: Vec<u64>,
    /// How much more is seen from around of a call made of polls, each time that it is suspended.
    pub(super) suspend_extra: Vec<u64>,
    /// How much more is seen from around of a call that is left by `return` or `?`; and by itself, for each event of the
    /// set.
    pub(super) early_extra: Vec<u64>,
    pub(super) in_early: Vec<u64>,
}

impl MeasuredOverhead {
    /// Where it is not known.
    pub(super) fn zero(key: &OverheadKey) -> Self {
        let (in_leaf, total) = (vec![0; key.set.len()], vec![0; key.events.len()]);
        let [caller_extra, skipped, drawn_extra, suspend_extra, early_extra] = array::from_fn(|_| total.clone());
        let [noise, in_caller, in_early] = array::from_fn(|_| in_leaf.clone());
        Self {
            noise,
            in_caller,
            in_early,
            in_leaf,
            caller_extra,
            skipped,
            drawn_extra,
            suspend_extra,
            early_extra,
            total,
        }
    }
}

/// What costs depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OverheadKey {
    /// The thread's events, and how each is read.
    pub(super) events: Vec<(EventId, Option<ReadMethod>)>,
    /// The slots of those that make up the set.
    pub(super) set: Vec<usize>,
    manner: Manner,
    /// Whether the thread keeps costs.
    tracks_overhead: bool,
}

impl OverheadKey {
    pub(super) fn of(slots: &EventSlots, set: &[usize], manner: Manner, tracks_overhead: bool) -> Self {
        let events = slots.iter().map(|slot| (slot.event, slot.read_method())).collect();
        Self { events, set: set.to_vec(), manner, tracks_overhead }
    }
}

/// The calls that a call had inside, directly or not.
#[derive(Clone, Copy, Default)]
pub(super) struct InnerCalls {
    pub(super) calls: u64,
    /// Of these, those that had calls inside themselves.
    pub(super) callers: u64,
    /// Those that were left by `return` or `?`.
    pub(super) early_extra: u64,
}

impl InnerCalls {
    /// Of a call that ends while `serial` is the number of the call begun last.
    #[inline]
    pub(super) fn of(frame: &Frame, serial: u64) -> Self {
        Self {
            calls: serial - frame.number(),
            callers: frame.inner_callers.get(),
            early_extra: frame.inner_early.get(),
        }
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.calls == 0
    }
}

/// What is known of the cost of a set's probes, as entry and exit look it up. All zero before it is measured.
#[derive(Debug)]
#[repr(C)]
pub(super) struct OverheadTable {
    /// For each event of the set, as in [`Cost`].
    pub(super) in_leaf: [Cell<u64>; EVENT_SLOTS],
    pub(super) in_caller: [Cell<u64>; EVENT_SLOTS],
    /// For each slot of the thread.
    pub(super) total: [Cell<u64>; EVENT_SLOTS],
    pub(super) caller_extra: [Cell<u64>; EVENT_SLOTS],
    skipped: [Cell<u64>; EVENT_SLOTS],
    drawn_extra: [Cell<u64>; EVENT_SLOTS],
    pub(super) suspend_extra: [Cell<u64>; EVENT_SLOTS],
    early_extra: [Cell<u64>; EVENT_SLOTS],
    in_early: [Cell<u64>; EVENT_SLOTS],
}

impl OverheadTable {
    pub(super) fn new() -> Self {
        let zeroes = || [const { Cell::new(0) }; EVENT_SLOTS];
        let [in_leaf, in_caller, total, caller_extra, skipped, drawn_extra, suspend_extra, early_extra, in_early] =
            array::from_fn(|_| zeroes());
        Self { in_leaf, in_caller, total, caller_extra, skipped, drawn_extra, suspend_extra, early_extra, in_early }
    }

    /// Takes over what was measured.
    pub(super) fn set(&self, cost: &MeasuredOverhead) {
        for (cells, known) in [
            (&self.in_leaf, &cost.in_leaf),
            (&self.in_caller, &cost.in_caller),
            (&self.total, &cost.total),
            (&self.caller_extra, &cost.caller_extra),
            (&self.skipped, &cost.skipped),
            (&self.drawn_extra, &cost.drawn_extra),
            (&self.suspend_extra, &cost.suspend_extra),
            (&self.early_extra, &cost.early_extra),
            (&self.in_early, &cost.in_early),
        ] {
            cells.iter().zip(known).for_each(|(cell, &cost)| cell.set(cost));
        }
    }

    /// What the set's event `n`, which is in that slot, saw of its own probe and of those of the calls inside.
    #[inline]
    pub(super) fn of_call(
        &self,
        frame: &Frame,
        n: usize,
        slot: usize,
        inner: InnerCalls,
        tracks_overhead: bool,
    ) -> u64 {
        if inner.is_empty() {
            return self.in_leaf[n].get();
        }
        self.of_caller(frame, n, slot, inner, tracks_overhead)
    }

    /// The same where there were calls inside.
    #[inline]
    pub(super) fn of_caller(
        &self,
        frame: &Frame,
        n: usize,
        slot: usize,
        inner: InnerCalls,
        tracks_overhead: bool,
    ) -> u64 {
        let seen = if tracks_overhead { frame.inner_overhead[slot].get() } else { self.of_inner_calls(inner, slot) };
        let early_extra = inner.early_extra.wrapping_mul(self.early_extra[slot].get());
        self.in_caller[n].get().wrapping_add(seen).wrapping_add(early_extra)
    }

    /// What the probes of these calls cost in that slot, if all of them are of this set and came to their end.
    #[inline]
    pub(super) fn of_inner_calls(&self, InnerCalls { calls, callers, .. }: InnerCalls, slot: usize) -> u64 {
        let callers = callers.wrapping_mul(self.caller_extra[slot].get());
        calls.wrapping_mul(self.total[slot].get()).wrapping_add(callers)
    }

    /// Subtracts from a call of this set that is left by `return` or `?` what that costs, as if it had begun so much
    /// later, and counts it in the frame around. What the call has beyond [`EVENTS`] is not corrected.
    #[inline]
    pub(super) fn exclude_early_exit(&self, frame: &Frame, around: &Frame) {
        for (begun, early_extra) in frame.begun.iter().zip(&self.in_early) {
            begun.set(begun.get().wrapping_add(early_extra.get()));
        }
        around.inner_early.set(around.inner_early.get() + 1);
    }

    /// Adds to the frame around what it costs to draw a call, but for its probe, with so many that are skipped for it.
    pub(super) fn add_draw_overhead(&self, around: &Frame, skipped: u64) {
        for ((sum, skipped), drawn_extra) in around.inner_overhead.iter().zip(&self.skipped).zip(&self.drawn_extra) {
            sum.set(sum.get().wrapping_add(skipped.get().wrapping_mul(skipped)).wrapping_add(drawn_extra.get()));
        }
    }
}
