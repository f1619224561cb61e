//! What probes cost.

use std::array;
use std::cell::Cell;

use super::counters::{SLOTS, Slots, Way};
use super::stack::{EVENTS, Frame};
use crate::events::EventId;
use crate::mark::Manner;

/// Slots whose costs are added on the fast path, at most.
pub(super) const PAID: usize = 2 * EVENTS;

/// What the probe of one set of events costs on threads that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// What it sees of itself, for each event of the set.
    pub(super) own: Vec<u64>,
    /// How much more an empty call shows, at most, in nine cases of ten; for each event of the set.
    pub(super) noise: Vec<u64>,
    /// What a caller sees of its own probe, for each event of the set.
    pub(super) own_caller: Vec<u64>,
    /// What is seen of it from around, for each event that the thread has.
    pub(super) whole: Vec<u64>,
    /// How much more is seen of a caller's.
    pub(super) extra: Vec<u64>,
    /// What is seen from around of a call that is skipped, and how much more of one that is drawn to be measured.
    pub(super) skip: Vec<u64>,
    pub(super) draw: Vec<u64>,
    /// How much more is seen from around of a call made of polls, each time that it is suspended.
    pub(super) suspend: Vec<u64>,
    /// How much more is seen from around of a call that is left by `return` or `?`; and by itself, for each event of the
    /// set.
    pub(super) early: Vec<u64>,
    pub(super) own_early: Vec<u64>,
}

impl Cost {
    /// Where it is not known.
    pub(super) fn nothing(key: &Key) -> Self {
        let (own, whole) = (vec![0; key.set.len()], vec![0; key.events.len()]);
        let [extra, skip, draw, suspend, early] = array::from_fn(|_| whole.clone());
        let [noise, own_caller, own_early] = array::from_fn(|_| own.clone());
        Self { noise, own_caller, own_early, own, extra, skip, draw, suspend, early, whole }
    }
}

/// What costs depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The thread's events, and how each is read.
    pub(super) events: Vec<(EventId, Option<Way>)>,
    /// The slots of those that make up the set.
    pub(super) set: Vec<usize>,
    manner: Manner,
    /// Whether the thread keeps costs.
    keeps_costs: bool,
}

impl Key {
    pub(super) fn of(slots: &Slots, set: &[usize], manner: Manner, keeps_costs: bool) -> Self {
        let events = slots.iter().map(|slot| (slot.event, slot.way())).collect();
        Self { events, set: set.to_vec(), manner, keeps_costs }
    }
}

/// The calls that a call had inside, directly or not.
#[derive(Clone, Copy, Default)]
pub(super) struct Inside {
    pub(super) calls: u64,
    /// Of these, those that had calls inside themselves.
    pub(super) callers: u64,
    /// Those that were left by `return` or `?`.
    pub(super) early: u64,
}

impl Inside {
    /// Of a call that ends while `serial` is the number of the call begun last.
    #[inline]
    pub(super) fn of(frame: &Frame, serial: u64) -> Self {
        Self { calls: serial - frame.number(), callers: frame.callers.get(), early: frame.early.get() }
    }

    #[inline]
    pub(super) fn is_none(self) -> bool {
        self.calls == 0
    }
}

/// What is known of the cost of a set's probes, as entry and exit look it up. All zero before it is measured.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Costs {
    /// For each event of the set, as in [`Cost`].
    pub(super) own: [Cell<u64>; SLOTS],
    pub(super) own_caller: [Cell<u64>; SLOTS],
    /// For each slot of the thread.
    pub(super) whole: [Cell<u64>; SLOTS],
    pub(super) extra: [Cell<u64>; SLOTS],
    skip: [Cell<u64>; SLOTS],
    draw: [Cell<u64>; SLOTS],
    pub(super) suspend: [Cell<u64>; SLOTS],
    early: [Cell<u64>; SLOTS],
    own_early: [Cell<u64>; SLOTS],
}

impl Costs {
    pub(super) fn new() -> Self {
        let zeroes = || [const { Cell::new(0) }; SLOTS];
        let [own, own_caller, whole, extra, skip, draw, suspend, early, own_early] = array::from_fn(|_| zeroes());
        Self { own, own_caller, whole, extra, skip, draw, suspend, early, own_early }
    }

    /// Takes over what was measured.
    pub(super) fn apply(&self, cost: &Cost) {
        for (cells, known) in [
            (&self.own, &cost.own),
            (&self.own_caller, &cost.own_caller),
            (&self.whole, &cost.whole),
            (&self.extra, &cost.extra),
            (&self.skip, &cost.skip),
            (&self.draw, &cost.draw),
            (&self.suspend, &cost.suspend),
            (&self.early, &cost.early),
            (&self.own_early, &cost.own_early),
        ] {
            cells.iter().zip(known).for_each(|(cell, &cost)| cell.set(cost));
        }
    }

    /// What the set's event `n`, which is in that slot, saw of its own probe and of those of the calls inside.
    #[inline]
    pub(super) fn overhead(&self, frame: &Frame, n: usize, slot: usize, inside: Inside, keeps_costs: bool) -> u64 {
        if inside.is_none() {
            return self.own[n].get();
        }
        self.overhead_of_caller(frame, n, slot, inside, keeps_costs)
    }

    /// The same where there were calls inside.
    #[inline]
    pub(super) fn overhead_of_caller(
        &self,
        frame: &Frame,
        n: usize,
        slot: usize,
        inside: Inside,
        keeps_costs: bool,
    ) -> u64 {
        let seen = if keeps_costs { frame.cost[slot].get() } else { self.of_calls(inside, slot) };
        let early = inside.early.wrapping_mul(self.early[slot].get());
        self.own_caller[n].get().wrapping_add(seen).wrapping_add(early)
    }

    /// What the probes of these calls cost in that slot, if all of them are of this set and came to their end.
    #[inline]
    pub(super) fn of_calls(&self, Inside { calls, callers, .. }: Inside, slot: usize) -> u64 {
        let callers = callers.wrapping_mul(self.extra[slot].get());
        calls.wrapping_mul(self.whole[slot].get()).wrapping_add(callers)
    }

    /// Subtracts from a call of this set that is left by `return` or `?` what that costs, as if it had begun so much
    /// later, and counts it in the frame around. What the call has beyond [`EVENTS`] is not corrected.
    #[inline]
    pub(super) fn note_early(&self, frame: &Frame, around: &Frame) {
        // All loads before the first store: so the compiler takes several at once.
        let later: [u64; EVENTS] = array::from_fn(|n| frame.begun[n].get().wrapping_add(self.own_early[n].get()));
        frame.begun.iter().zip(later).for_each(|(begun, later)| begun.set(later));
        around.early.set(around.early.get() + 1);
    }

    /// Adds to the frame around what it costs to draw a call, but for its probe, with so many that are skipped for it.
    pub(super) fn pay_draw(&self, around: &Frame, skipped: u64) {
        for ((sum, skip), draw) in around.cost.iter().zip(&self.skip).zip(&self.draw) {
            sum.set(sum.get().wrapping_add(skip.get().wrapping_mul(skipped)).wrapping_add(draw.get()));
        }
    }
}
