//! What the two ends of a mark's calls do on one thread: bound once, at the thread's first call of it.
#![allow(unsafe_code, reason = "points to what lives as long as the thread's recorder")]

use std::cell::{Cell, RefCell};
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
    /// What the ends of its measured calls do but for fences.
    pub(super) unfenced: Cell<Ends>,
    set: *const Set,
    /// Of its first events, once it is where it stays: while it is moved nothing may point into it.
    event_cells: [Cell<*const EventCells>; SHORT],
    pub(super) cells: MarkCells,
    /// What it records, if that is not what the mark says itself.
    variant: Option<&'static Variant>,
    /// Where one call in some is measured: which.
    draws: Draws,
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
    pub(super) fn new(cells: MarkCells, set: &Set, variant: Option<&'static Variant>, draws: Draws) -> Self {
        let event_cells = [const { Cell::new(ptr::null()) }; SHORT];
        let ends = Cell::new(set.plain.get());
        Self { unfenced: ends.clone(), ends, set, event_cells, cells, variant, draws }
    }

    /// Where its mark's calls find it; 0 where that is nowhere.
    pub(super) fn place(&self) -> u32 {
        self.variant.map_or_else(|| self.cells.mark.own_place(), |variant| variant.place)
    }

    /// Binds what its ends do, as its set has it. It is not moved from now on.
    pub(super) fn bind(&self) {
        for (at, cells) in self.event_cells.iter().zip(&self.cells.events) {
            at.set(cells);
        }
        let (set, is_weighted) = (self.set(), self.cells.weight > 1);
        self.unfenced.set(if is_weighted { set.weighted.get() } else { set.plain.get() });
        let measured = self.measured();
        // Of polls only the first of a call asks.
        self.ends.set(if is_weighted && !set.manner.is_polled {
            Ends { begin: options::begin_every, ..measured }
        } else {
            measured
        });
    }

    /// What the ends of its measured calls do.
    pub(super) fn measured(&self) -> Ends {
        if self.set().manner.is_fenced { options::FENCED } else { self.unfenced.get() }
    }

    /// Whether the call that begins is measured: the one drawn of each `every` calls in a row. `before` are the calls that were not, so far.
    #[inline]
    pub(super) fn is_drawn(&self, before: u64) -> bool {
        before == self.draws.next.get()
    }

    /// Draws the call to be measured next.
    pub(super) fn draw(&self, random: &Cell<u64>) {
        self.draws.draw(self.cells.weight, random);
    }

    /// Whether the call that begins with its first poll is measured.
    pub(super) fn is_poll_drawn(&self, random: &Cell<u64>) -> bool {
        if self.cells.weight == 1 {
            return true;
        }
        let before = self.draws.skipped.get();
        let is_drawn = self.is_drawn(before);
        if is_drawn {
            self.draw(random);
        } else {
            self.draws.skipped.set(before + 1);
        }
        is_drawn
    }

    /// How many calls a measured one counts as.
    #[inline]
    pub(super) fn weight(&self) -> u64 {
        self.cells.weight.into()
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

/// Which calls of a mark are measured, where it is one in some: of each so many calls in a row one, drawn at random. So every call is as likely to be
/// measured as any other, whatever it does, and its [weight](MarkCells::weight) makes up for those that are not: sums are unbiased (D. G. Horvitz and D. J.
/// Thompson, 1952). Draws that were independent of one another would make them vary more.
#[derive(Debug, Default)]
pub(super) struct Draws {
    /// As many calls are skipped before the next one that is measured.
    next: Cell<u64>,
    /// Where the last one measured was among the calls in a row.
    at: Cell<u64>,
    /// Calls skipped so far, where their cells count them at their end.
    skipped: Cell<u64>,
}

impl Draws {
    /// Of marks with that weight, the first draw made.
    pub(super) fn new(weight: u32, random: &Cell<u64>) -> Self {
        let draws = Self::default();
        draws.at.set(below(weight, random));
        draws.next.set(draws.at.get());
        draws
    }

    /// Of calls that are never measured.
    pub(super) fn never() -> Self {
        Self { next: Cell::new(u64::MAX), ..Self::default() }
    }

    fn draw(&self, weight: u32, random: &Cell<u64>) {
        let (before, at) = (self.at.get(), below(weight, random));
        self.at.set(at);
        self.next.set(self.next.get() + (u64::from(weight) - 1 - before) + at);
    }
}

/// A random number below `limit`: a step of xorshift64* (S. Vigna, 2016), whose state is never 0.
fn below(limit: u32, random: &Cell<u64>) -> u64 {
    let mut state = random.get();
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    random.set(state);
    let drawn = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
    (drawn * u64::from(limit)) >> 32
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
    /// The same of marks whose calls count as several.
    pub(super) weighted: Cell<Ends>,
    /// All that is known of what its probes cost, and on what it depends; none before it is measured.
    pub(super) cost: RefCell<Option<Cost>>,
    pub(super) key: RefCell<Option<Key>>,
}

/// What the thread's slots see of a set's probes from around.
pub(super) struct Costs {
    pub(super) whole: [Cell<u64>; SLOTS],
    /// Of a caller's more.
    pub(super) extra: [Cell<u64>; SLOTS],
    /// Of a call that is skipped; and of one that is drawn to be measured, more.
    pub(super) skip: [Cell<u64>; SLOTS],
    pub(super) draw: [Cell<u64>; SLOTS],
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
            costs: Costs { whole: zeroes(), extra: zeroes(), skip: zeroes(), draw: zeroes(), suspend: zeroes() },
            manner,
            plain: Cell::new(long::ENDS),
            weighted: Cell::new(long::ENDS),
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
        let ends =
            |is_weighted| if has_graph { graph::ENDS } else { probe::ends(self, slots, keeps_costs, is_weighted) };
        self.plain.set(ends(false));
        self.weighted.set(ends(true));
    }

    /// Takes note of what its probes cost.
    pub(super) fn apply(&self, cost: &Cost) {
        let Costs { whole, extra, skip, draw, suspend } = &self.costs;
        for (cells, known) in [
            (&self.own, &cost.own),
            (&self.own_caller, &cost.own_caller),
            (whole, &cost.whole),
            (extra, &cost.extra),
            (skip, &cost.skip),
            (draw, &cost.draw),
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

    /// What the event saw of the probes of a call that had these inside.
    #[inline]
    pub(super) fn overhead(self, sums: &Sums, span: &Span, inside: Inside, keeps_costs: bool) -> u64 {
        if inside.is_none() {
            self.set.own[self.n].get()
        } else if keeps_costs {
            self.set.own_caller[self.n].get().wrapping_add(sums.cost[self.at].get().wrapping_sub(span.cost))
        } else {
            self.set.overhead(self.n, self.at, inside)
        }
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
    /// The selfs of the calls that ended.
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

    /// Adds what a drawn call costs, but for its probe, with so many that are skipped for it.
    pub(super) fn pay_draw(&self, costs: &Costs, skipped: u64) {
        for ((sum, skip), draw) in self.cost.iter().zip(&costs.skip).zip(&costs.draw) {
            sum.set(sum.get().wrapping_add(skip.get().wrapping_mul(skipped)).wrapping_add(draw.get()));
        }
    }

    /// Takes a probe's cost off again.
    pub(super) fn take_back(&self, costs: &[Cell<u64>; SLOTS]) {
        for (sum, cost) in self.cost.iter().zip(costs) {
            sum.set(sum.get().wrapping_sub(cost.get()));
        }
    }

    /// Adds in the slot at `at` what a call cost that ended, and that counts as `weight` calls; it began with `before` there. What the calls inside it cost.
    ///
    /// What calls cost inside one another adds up to their selfs: a call's own part is its self as often as it counts, while the calls inside it have added
    /// theirs, whether it is measured or not.
    #[inline]
    pub(super) fn leave(&self, at: usize, net: u64, before: u64, weight: u64) -> u64 {
        let so_far = self.inside[at].get();
        let inside = so_far.wrapping_sub(before);
        self.inside[at].set(so_far.wrapping_add(weight.wrapping_mul(net.wrapping_sub(inside))));
        inside
    }

    /// Adds in the slot at `at` the self of a call that was not counted.
    pub(super) fn stand_in(&self, at: usize, own: u64, weight: u64) {
        self.inside[at].set(self.inside[at].get().wrapping_add(weight.wrapping_mul(own)));
    }
}

/// Of what a call cost, without probes, what is shown: nothing for what is less, as where these cost less than they usually do.
#[inline]
pub(crate) fn shown(net: u64) -> u64 {
    if net.cast_signed() < 0 { 0 } else { net }
}
