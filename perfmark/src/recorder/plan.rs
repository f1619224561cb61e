//! What the two ends of a mark's calls do on one thread: bound once, at the thread's first call of it.
#![allow(unsafe_code, reason = "points to what lives as long as the thread's recorder")]

use std::cell::{Cell, RefCell};
use std::hint::assert_unchecked;
use std::{array, ptr};

use perfmark_rdpmc::clock;

use super::calibrate::{Cost, Key};
use super::frames::{Header, Inside, Span};
use super::long::{self, Part};
use super::sources::{SLOTS, Slot, Slots};
use super::thread::{Call, Recorder};
use super::{graph, options, probe};
use crate::cells::{EventCells, Holds, MarkCells, Probe};
use crate::config::config;
use crate::mark::Manner;
use crate::settings::Variant;

/// Begins a call. The recorder is this thread's, taken, and put back at last.
pub(super) type Begin = unsafe fn(*mut Recorder, *const Plan) -> Call;
/// Ends the innermost call, whose header it is.
pub(super) type End = unsafe fn(*mut Recorder, *mut Header);

/// Takes the innermost frame off, whose header it is, of a poll; and gives what that cost. False, and nothing is done, where that takes the long way.
pub(super) type Close = unsafe fn(*mut Recorder, *mut Header, &mut Parts) -> bool;

/// What a poll cost in each of its few events. None for what was not measured.
pub(super) type Parts = [Option<Part>; SHORT];

/// What a mark's two ends do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) begin: Begin,
    /// Of a call in which no other was begun.
    pub(super) end_leaf: End,
    /// Of any call.
    pub(super) end: End,
    /// Of a poll in which no call was begun.
    pub(super) close_leaf: Close,
    /// Of any poll.
    pub(super) close: Close,
}

/// Events of a mark whose calls go the short way, at most.
pub(super) const SHORT: usize = 4;

/// A mark on one thread: its cells, which all threads read, and what its ends do, which is this thread's alone.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Plan {
    pub(super) ends: Cell<Ends>,
    set: *const Set,
    /// Of its first events, once it is where it stays: while it is moved nothing may point into it.
    event_cells: [Cell<*const EventCells>; SHORT],
    pub(super) cells: MarkCells,
    /// What it records, if that is not what the mark says itself.
    variant: Option<&'static Variant>,
    /// One call in so many is measured.
    pub(super) every: u32,
    /// Calls to be skipped until then.
    pub(super) skips: Cell<u32>,
}

// SAFETY: other threads see it as what holds its cells, and touch nothing else.
unsafe impl Send for Plan {}
// SAFETY: the same.
unsafe impl Sync for Plan {}

impl Holds for Plan {
    fn cells(&self) -> &MarkCells {
        &self.cells
    }
}

impl Plan {
    /// A mark with these cells, and with the events of that set, which lives as long as calls are made.
    pub(super) fn new(cells: MarkCells, set: &Set, every: u32, variant: Option<&'static Variant>) -> Self {
        let event_cells = [const { Cell::new(ptr::null()) }; SHORT];
        Self { ends: Cell::new(set.measured.get()), set, event_cells, cells, variant, every, skips: Cell::new(0) }
    }

    /// Where its mark's calls find it; 0 where that is nowhere.
    pub(super) fn place(&self) -> u32 {
        self.variant.map_or_else(|| self.cells.mark.own_place(), |variant| variant.place)
    }

    /// Binds what its ends do, as its set has it, on a thread of so many slots. It is not moved from now on.
    pub(super) fn bind(&self, slots: usize) {
        for (at, cells) in self.event_cells.iter().zip(&self.cells.events) {
            at.set(cells);
        }
        let measured = self.set().measured.get();
        // Of polls only the first of a call asks.
        self.ends.set(if self.every > 1 && !self.set().manner.is_polled {
            Ends { begin: options::every(self.set().len(), slots), ..measured }
        } else {
            measured
        });
    }

    /// Whether the call that begins is one of those to be measured.
    #[inline]
    pub(super) fn is_next_measured(&self) -> bool {
        let skips = self.skips.get();
        self.skips.set(skips.checked_sub(1).unwrap_or(self.every - 1));
        skips == 0
    }

    #[inline]
    pub(super) fn set(&self) -> &Set {
        // SAFETY: it lives as long as calls are made.
        unsafe { &*self.set }
    }

    /// The cells of its events.
    ///
    /// # Safety
    ///
    /// It has so many.
    #[inline]
    pub(super) unsafe fn event_cells<const N: usize>(&self) -> [&EventCells; N] {
        // SAFETY: the caller's word; they live as long as the plan.
        array::from_fn(|n| unsafe { &*self.event_cells[n].get() })
    }

    /// Takes note of what its probe costs, as far as its set knows.
    pub(super) fn tell(&self) {
        let cost = self.set().cost.borrow();
        for (planned, cells) in self.set().events().zip(&self.cells.events) {
            cells.probe.set(match &*cost {
                Some(cost) => Probe {
                    own: cost.own[planned.n],
                    whole: cost.whole[planned.at],
                    noise: cost.noise[planned.n],
                    is_unknown: false,
                },
                None => Probe { is_unknown: true, ..Probe::default() },
            });
        }
    }
}

/// Some events that marks of a thread have together, and how they are read. What is of one kind stands side by side, so that the short ways load it
/// in pairs.
#[repr(C)]
pub(super) struct Set {
    /// What the probe sees of itself in each.
    pub(super) own: [Cell<u64>; SLOTS],
    slots: [*const Slot; SLOTS],
    /// Where they are among the thread's.
    pub(super) at: [usize; SLOTS],
    count: usize,
    /// What a caller's probe sees of itself.
    pub(super) own_caller: [Cell<u64>; SLOTS],
    pub(super) costs: Costs,
    pub(super) manner: Manner,
    /// What the ends of its marks do but for fences.
    pub(super) plain: Cell<Ends>,
    /// The same with fences, if it has them.
    pub(super) measured: Cell<Ends>,
    /// All that is known of what its probes cost, and on what it depends; none before it is measured.
    pub(super) cost: RefCell<Option<Cost>>,
    pub(super) key: RefCell<Option<Key>>,
}

/// What the thread's slots see of a set's probes from around.
pub(super) struct Costs {
    pub(super) whole: [Cell<u64>; SLOTS],
    /// Of a caller's more.
    pub(super) extra: [Cell<u64>; SLOTS],
    /// Of a call that is skipped.
    pub(super) skip: [Cell<u64>; SLOTS],
    /// Of a call made of polls more, each time that it is suspended.
    pub(super) suspend: [Cell<u64>; SLOTS],
}

impl Set {
    /// The events of these slots, which live as long as it.
    pub(super) fn new(at: &[usize], slots: &Slots, manner: Manner) -> Self {
        let zeroes = || [const { Cell::new(0) }; SLOTS];
        let mut set = Self {
            count: at.len(),
            slots: [ptr::null(); SLOTS],
            at: [0; SLOTS],
            own: zeroes(),
            own_caller: zeroes(),
            costs: Costs { whole: zeroes(), extra: zeroes(), skip: zeroes(), suspend: zeroes() },
            manner,
            plain: Cell::new(long::ENDS),
            measured: Cell::new(long::ENDS),
            cost: RefCell::default(),
            key: RefCell::default(),
        };
        for (n, &at) in at.iter().enumerate() {
            (set.slots[n], set.at[n]) = (&raw const *slots[at], at);
        }
        set
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Whether it is these events, of calls that are made so.
    pub(super) fn is(&self, at: &[usize], manner: Manner) -> bool {
        self.manner == manner && self.at[..self.count] == *at
    }

    /// Binds what the ends of its marks do, on a thread of so many slots.
    pub(super) fn bind(&self, slots: usize, keeps_costs: bool) {
        let has_graph = config().has_call_graph;
        self.plain.set(if has_graph { graph::ENDS } else { probe::ends(self, slots, keeps_costs) });
        self.measured.set(if self.manner.is_fenced { options::FENCED } else { self.plain.get() });
    }

    /// Takes note of what its probes cost.
    pub(super) fn apply(&self, cost: &Cost) {
        let Costs { whole, extra, skip, suspend } = &self.costs;
        for (cells, known) in [
            (&self.own, &cost.own),
            (&self.own_caller, &cost.own_caller),
            (whole, &cost.whole),
            (extra, &cost.extra),
            (skip, &cost.skip),
            (suspend, &cost.suspend),
        ] {
            cells.iter().zip(known).for_each(|(cell, &cost)| cell.set(cost));
        }
    }

    pub(super) fn events(&self) -> impl Iterator<Item = Planned<'_>> {
        let one = |n| Planned { n, at: self.at[n], set: self };
        (0..self.count).map(one)
    }

    /// Event `n` as a thread has it.
    ///
    /// # Safety
    ///
    /// It has so many.
    #[inline]
    unsafe fn slot(&self, n: usize) -> &Slot {
        // SAFETY: the caller's word; slots live as long as the set.
        unsafe { &**self.slots.get_unchecked(n) }
    }

    /// Its first events as the thread has them.
    ///
    /// # Safety
    ///
    /// It has so many.
    #[inline]
    pub(super) unsafe fn first_slots<const N: usize>(&self) -> [&Slot; N] {
        // SAFETY: the caller's word.
        array::from_fn(|n| unsafe { self.slot(n) })
    }

    /// What event `n` saw of the probes of a call that had these inside, on a thread without other sets.
    #[inline]
    pub(super) fn overhead(&self, n: usize, at: usize, inside: Inside) -> u64 {
        let inside_it = inside.calls.wrapping_mul(self.costs.whole[at].get());
        let callers = inside.callers.wrapping_mul(self.costs.extra[at].get());
        self.own_caller[n].get().wrapping_add(inside_it).wrapping_add(callers)
    }
}

/// One of a set's events.
#[derive(Clone, Copy)]
pub(super) struct Planned<'a> {
    /// Which.
    pub(super) n: usize,
    /// Where it is among the thread's.
    pub(super) at: usize,
    pub(super) set: &'a Set,
}

impl<'a> Planned<'a> {
    pub(super) fn slot(self) -> &'a Slot {
        // SAFETY: it is one of them.
        unsafe { self.set.slot(self.n) }
    }

    /// Reads at the beginning of a call; false where that takes the long way.
    pub(super) fn begin(self, span: &mut Span) -> bool {
        if let Some(counter) = self.slot().counter() {
            return counter.begin_unchanged(&mut span.region);
        }
        span.value = clock::ticks();
        true
    }

    /// What was counted since; None where that takes the long way.
    pub(super) fn end(self, span: &Span) -> Option<u64> {
        match self.slot().counter() {
            Some(counter) => counter.end_unchanged(&span.region),
            // Ticks that run backwards, on CPUs that do not agree, are no time.
            None => clock::ticks().checked_sub(span.value),
        }
    }
}

/// What a thread's calls have cost so far, for each of its slots. All of it wraps.
#[repr(C)]
pub(super) struct Sums {
    /// What calls cost that ended, but for what they had inside: it grows by a call's cost from where it was at its beginning.
    pub(super) inside: [Cell<u64>; SLOTS],
    /// What probes cost, on a thread whose marks have several sets of events.
    pub(super) cost: [Cell<u64>; SLOTS],
}

impl Sums {
    /// Adds what a probe costs in the thread's first slots, of which there are no more than so many.
    #[inline]
    pub(super) fn pay<const PAID: usize>(&self, costs: &[Cell<u64>; SLOTS]) {
        // All loads before the first store: so the compiler takes several at once.
        let mut paid = [0; PAID];
        for (n, paid) in paid.iter_mut().enumerate() {
            *paid = self.cost[n].get().wrapping_add(costs[n].get());
        }
        for (sum, paid) in self.cost.iter().zip(paid) {
            sum.set(paid);
        }
    }

    /// Takes note in the slot at `at` of a call that was not measured, and is taken for so much.
    #[inline]
    pub(super) fn skip(&self, at: usize, cost: u64) {
        // SAFETY: as every slot's place.
        unsafe { assert_unchecked(at < SLOTS) };
        self.inside[at].set(self.inside[at].get().wrapping_add(cost));
    }

    /// Takes a probe's cost off again.
    pub(super) fn take_back(&self, costs: &[Cell<u64>; SLOTS]) {
        for (sum, cost) in self.cost.iter().zip(costs) {
            sum.set(sum.get().wrapping_sub(cost.get()));
        }
    }

    /// Takes note in the slot at `at` that a call ended, which cost so much and began with `before` there; and gives what the calls inside it cost.
    #[inline]
    pub(super) fn leave(&self, at: usize, net: u64, before: u64) -> u64 {
        let inside = self.inside[at].get().wrapping_sub(before);
        self.inside[at].set(before.wrapping_add(net));
        inside
    }
}

/// Of what a call cost, without probes, what is shown: nothing for what is less, as where these cost less than they usually do.
#[inline]
pub(crate) fn shown(net: u64) -> u64 {
    if net.cast_signed() < 0 { 0 } else { net }
}
