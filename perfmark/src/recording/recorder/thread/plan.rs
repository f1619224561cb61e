//! A plan: what entry and exit of a mark's calls do on one thread. The thread's first call of the mark creates it.
#![allow(unsafe_code, reason = "pointers to data that lives as long as the thread's cells")]

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::{array, ptr};

use perfmark_rdpmc::CounterSet;

use super::budget::{self, LOT, Member, UNKNOWN_NS};
use super::call_token::Token;
use super::draws::Draws;
use super::event_set::EventSet;
use super::stack::{FRAME_EVENTS, FrameRef};
use super::state::{HeldRecorder, Recorder};
use crate::recording::cells::graph::Node;
use crate::recording::cells::histogram::Span;
use crate::recording::cells::{EventCells, Holds, MarkCells, Overhead};
use crate::recording::mark::mark_settings::Variant;

/// Begins a call and releases the recorder.
pub(crate) type Begin = fn(&Plan, HeldRecorder) -> Token;

/// Ends the innermost call, which has this frame, and releases the recorder.
pub(crate) type End = fn(&Plan, FrameRef, HeldRecorder);

/// Removes the innermost frame, of a poll, and leaves in it what [`Frame::poll_cost`] returns. Does nothing and returns
/// `false` if that takes the slow path.
pub(crate) type Close = fn(&Plan, FrameRef, &Recorder) -> bool;

/// The functions that entry and exit of a mark's calls execute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hooks {
    pub(crate) begin: Begin,
    /// Ends a leaf call.
    pub(crate) end_leaf: End,
    /// Ends any call.
    pub(crate) end: End,
    /// Closes a poll without inner calls.
    pub(crate) close_leaf: Close,
    /// Closes any poll.
    pub(crate) close: Close,
}

/// The most events that a mark on the fast path can have.
pub(crate) const FAST_EVENTS: usize = CounterSet::MOST;

const _: () = assert!(FAST_EVENTS == FRAME_EVENTS);

/// A mark on one thread: its cells, which all threads read, and what entry and exit need, which only this thread uses.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Plan {
    pub(crate) hooks: Cell<Hooks>,
    set: *const EventSet,
    /// The cells of the first events. Set once the plan no longer moves, because they point into the plan.
    event_cells: [Cell<*const EventCells>; FAST_EVENTS],
    /// For each of these events, the range of its histogram after the last call on the slow path. Values in the range
    /// have a bucket.
    spans: [Cell<Span>; FAST_EVENTS],
    pub(crate) cells: MarkCells,
    /// The hooks of measured calls, without options.
    pub(crate) base_hooks: Cell<Hooks>,
    /// Two nodes of the call graph: the caller of the mark's last call, and that call's own.
    pub(crate) last_nodes: [Cell<*const Node>; 2],
    /// What the filter sets for the mark, if anything.
    variant: Option<&'static Variant>,
    /// Which calls are measured, if some are left out.
    draws: Draws,
    /// What chooses how many, if the mark is within a budget; else null, also during calibration.
    member: *const Member,
    /// Within a budget: the number of calls that are measured completely, before the budget is looked at.
    lot: Cell<u32>,
    /// See [`context_inside`](Self::context_inside).
    context_inside: usize,
    /// The plan of the calls that are skipped, if samples of them are noted; else null.
    skipped: Cell<*const Self>,
}

// SAFETY: other threads reach a plan only as `dyn Holds`, and read its cells, which are `Sync`.
unsafe impl Send for Plan {}
// SAFETY: other threads reach a plan only as `dyn Holds`, and read its cells, which are `Sync`.
unsafe impl Sync for Plan {}

impl Holds for Plan {
    fn cells(&self) -> &MarkCells {
        &self.cells
    }
}

impl Plan {
    /// A plan with these cells and this event set.
    ///
    /// # Safety
    ///
    /// The set lives as long as the plan is used.
    pub(crate) unsafe fn new(
        cells: MarkCells,
        set: &EventSet,
        variant: Option<&'static Variant>,
        draws: Draws,
    ) -> Self {
        let event_cells = [const { Cell::new(ptr::null()) }; FAST_EVENTS];
        let (hooks, base_hooks) = (Cell::new(set.base_hooks.get()), set.base_hooks.clone());
        let last_nodes = [const { Cell::new(ptr::dangling()) }; 2];
        let spans = [const { Cell::new(Span::NOTHING) }; FAST_EVENTS];
        let (member, lot, context_inside) = (ptr::null(), Cell::new(u32::MAX), budget::context(cells.weight));
        Self {
            hooks,
            set,
            event_cells,
            spans,
            cells,
            base_hooks,
            last_nodes,
            variant,
            draws,
            member,
            lot,
            context_inside,
            skipped: Cell::new(ptr::null()),
        }
    }

    /// The same plan within a budget.
    ///
    /// # Safety
    ///
    /// The member lives as long as the plan is used.
    pub(crate) unsafe fn within_budget(self, member: *const Member) -> Self {
        let this = Self { member, lot: Cell::new(LOT), ..self };
        let context = this.member().map_or(0, |member| member.context);
        Self { context_inside: this.context_inside.max(context), ..this }
    }

    /// What chooses how many calls are measured, if the mark is within a budget.
    #[inline]
    pub(crate) fn member(&self) -> Option<&Member> {
        // SAFETY: null, or `within_budget` requires that it lives as long as the plan is used.
        unsafe { self.member.as_ref() }
    }

    /// What tells it from other plans of the thread.
    #[inline]
    pub(crate) fn key(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// The slot in which calls find the plan; 0 if it has none.
    pub(crate) fn slot(&self) -> u32 {
        self.variant.map_or_else(|| self.cells.mark.own_slot(), |variant| variant.slot)
    }

    /// Sets the pointers to event cells. The plan must not move from now on.
    pub(crate) fn set_event_cells(&self) {
        for (pointer, cells) in self.event_cells.iter().zip(&self.cells.events) {
            pointer.set(cells);
        }
    }

    /// Gives skipped calls a plan: one without events, whose calls only have frames.
    ///
    /// # Safety
    ///
    /// It lives as long as this plan is used.
    pub(crate) unsafe fn set_skipped(&self, plan: *const Self) {
        self.skipped.set(plan);
    }

    /// The plan of the calls that are skipped, if samples of them are noted. It has no events.
    #[inline]
    pub(crate) fn skipped(&self) -> Option<&Self> {
        // SAFETY: null, or `set_skipped` requires that it lives as long as this plan is used.
        unsafe { self.skipped.get().as_ref() }
    }

    /// Whether its calls are skipped. It has no events then.
    pub(crate) fn is_of_skipped(&self) -> bool {
        self.set().len() == 0
    }

    /// Whether the call that begins is measured. So many calls were skipped before it.
    #[inline]
    pub(crate) fn is_drawn(&self, skipped: u64) -> bool {
        self.draws.is_next(skipped)
    }

    /// Draws the next call to be measured.
    pub(crate) fn draw(&self, random: &Cell<u64>) {
        self.draws.draw(self.cells.weight, random);
    }

    /// The number of calls that are skipped from now on because the call just drawn was drawn for them, too.
    pub(crate) fn rest(&self) -> u64 {
        self.draws.rest(self.cells.weight)
    }

    /// Skips that many calls, and draws one of the block after them.
    pub(crate) fn begin_block_after(&self, rest: u64, random: &Cell<u64>) {
        self.draws.begin_block(self.cells.skipped.load(Relaxed) + rest, self.cells.weight, random);
    }

    /// Within a budget: whether all calls are measured from now on.
    pub(crate) fn is_complete(&self) -> bool {
        self.cells.weight == 1 && self.is_drawn(self.cells.skipped.load(Relaxed))
    }

    /// The [context](budget::context) of calls directly inside a call with this plan.
    #[inline]
    pub(crate) fn context_inside(&self) -> usize {
        self.context_inside
    }

    /// Counts a call that is measured completely. Returns whether the budget is to be looked at.
    #[inline]
    pub(crate) fn ends_lot(&self) -> bool {
        let left = self.lot.get() - 1;
        self.lot.set(left);
        left == 0
    }

    pub(crate) fn begin_lot(&self) {
        self.lot.set(LOT);
    }

    /// Whether `every` measures the call that begins with its first poll.
    pub(crate) fn is_poll_drawn(&self) -> bool {
        self.draws.is_next_counted()
    }

    /// The number of calls that a measured one counts as.
    #[inline]
    pub(crate) fn weight(&self) -> u64 {
        self.cells.weight.into()
    }

    #[inline]
    pub(crate) fn set(&self) -> &EventSet {
        // SAFETY: `new` requires that the set lives as long as the plan is used.
        unsafe { &*self.set }
    }

    /// The cells of the first `N` events.
    ///
    /// # Safety
    ///
    /// The plan has `N` events or more, and [`set_event_cells`](Self::set_event_cells) was called.
    #[inline]
    pub(crate) unsafe fn event_cells<const N: usize>(&self) -> [&EventCells; N] {
        // SAFETY: `set_event_cells` stored pointers to the first events' cells, which are part of the plan.
        array::from_fn(|n| unsafe { &*self.event_cells[n].get() })
    }

    /// Whether the histograms of the first `N` events have buckets for these values.
    #[inline]
    pub(crate) fn has_room<const N: usize>(&self, costs: &[u64; N]) -> bool {
        // Evaluates every term, to avoid a branch for each event.
        (0..N).fold(true, |has_room, n| has_room & self.spans[n].get().has(costs[n]))
    }

    /// Updates the range of event `n`'s histogram.
    pub(crate) fn update_span(&self, n: usize) {
        if let Some(span) = self.spans.get(n) {
            span.set(self.cells.events[n].values.span());
        }
    }

    /// Resets the ranges of all histograms, which are empty.
    pub(crate) fn reset_spans(&self) {
        self.spans.iter().for_each(|span| span.set(Span::NOTHING));
    }

    /// Publishes the probe overhead of the event set in the mark's cells.
    pub(crate) fn publish_overhead(&self) {
        let measured = self.set().measured_overhead.borrow();
        if let Some(member) = self.member() {
            member.cost_ns.set(measured.as_ref().map_or(UNKNOWN_NS, |measured| measured.drawn_ns));
        }
        for (event, cells) in self.set().events().zip(&self.cells.events) {
            cells.overhead.set(match &*measured {
                Some(measured) => Overhead {
                    in_call: measured.in_leaf[event.n],
                    total: measured.total[event.slot_index],
                    noise: measured.noise[event.n],
                    is_unknown: false,
                },
                None => Overhead { is_unknown: true, ..Overhead::default() },
            });
        }
    }
}
