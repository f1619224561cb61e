//! A plan: what entry and exit of a mark's calls do on one thread. The thread's first call of the mark creates it.
#![allow(unsafe_code, reason = "pointers to data that lives as long as the thread's cells")]

use std::cell::Cell;
use std::{array, ptr};

use perfmark_rdpmc::CounterSet;

use super::call_token::Token;
use super::event_set::EventSet;
use super::stack::{FRAME_EVENTS, FrameRef};
use super::state::{HeldRecorder, Recorder};
use super::thinning::Member;
use crate::recording::cells::{EventCells, Holds, MarkCells, Node, Overhead, Span};
use crate::recording::sampling::Watch;
use crate::settings::recording::settings;

/// Begins a call and releases the recorder. Here and below, BINDING must hold for the hook and the plan.
pub(crate) type Begin = unsafe fn(&Plan, HeldRecorder) -> Token;

/// Ends the innermost call, which has this frame, and releases the recorder.
pub(crate) type End = unsafe fn(&Plan, FrameRef, HeldRecorder);

/// Removes the innermost frame, of a poll, and leaves in it what [`Frame::poll_cost`] returns. Does nothing and returns
/// `false` if that takes the slow path.
pub(crate) type Close = unsafe fn(&Plan, FrameRef, &Recorder) -> bool;

/// The functions that entry and exit of a mark's calls execute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hooks {
    pub(crate) begin: Begin,
    /// Ends a leaf call.
    pub(crate) end_leaf: End,
    /// Ends any call.
    pub(crate) end: End,
    /// Closes a poll.
    pub(crate) close: Close,
}

/// Hooks that are bound to a plan.
#[derive(Clone, Copy)]
pub(crate) struct BoundHooks<'a> {
    plan: &'a Plan,
    hooks: Hooks,
}

impl BoundHooks<'_> {
    #[inline]
    pub(crate) fn begin(self, recorder: HeldRecorder) -> Token {
        // SAFETY: BINDING: whoever binds hooks guarantees it.
        unsafe { (self.hooks.begin)(self.plan, recorder) }
    }

    #[inline]
    pub(crate) fn end(self, frame: FrameRef, recorder: HeldRecorder, is_leaf: bool) {
        let end = if is_leaf { self.hooks.end_leaf } else { self.hooks.end };
        // SAFETY: BINDING: whoever binds hooks guarantees it.
        unsafe { end(self.plan, frame, recorder) }
    }

    #[inline]
    pub(crate) fn close(self, frame: FrameRef, recorder: &Recorder) -> bool {
        // SAFETY: BINDING: whoever binds hooks guarantees it.
        unsafe { (self.hooks.close)(self.plan, frame, recorder) }
    }
}

/// The most events that a mark on the fast path can have.
pub(crate) const FAST_EVENTS: usize = CounterSet::MOST;

const _: () = assert!(FAST_EVENTS == FRAME_EVENTS);

/// A mark on one thread: its cells, which all threads read, and what entry and exit need, which only this thread uses.
#[repr(C)]
pub(crate) struct Plan {
    hooks: Cell<Hooks>,
    /// Looks whether there was a sample, if calls are sampled.
    pub(crate) watch: Watch,
    /// The hooks of the event set, which such calls have after that.
    base: Cell<Hooks>,
    /// Begins a call that is measured, while the hook in `hooks` may skip it.
    begin_measured: Cell<Begin>,
    set: *const EventSet,
    /// The cells of the first events. Set once the plan no longer moves, because they point into the plan.
    event_cells: [Cell<*const EventCells>; FAST_EVENTS],
    /// For each of these events, the range of its histogram after the last call on the slow path, for callers and for
    /// leaf calls. Values in the range have a bucket. It is [`Span::NOTHING`] for calls that end in `end_special`.
    spans: [[Cell<Span>; FAST_EVENTS]; 2],
    pub(crate) cells: MarkCells,
    /// Two nodes of the call graph: the caller of the mark's last call, and that call's own. Null without a call graph.
    pub(crate) last_nodes: [Cell<*const Node>; 2],
    /// The slot in which calls find the plan; 0 if it has none.
    pub(crate) slot: u32,
    /// What chooses whether it is thinned, if `every` or a budget may; else null.
    member: *const Member,
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
    /// A plan with these cells, this event set and this slot.
    ///
    /// # Safety
    ///
    /// The set lives as long as the plan is used, and so does the member, unless it is null.
    pub(crate) unsafe fn new(cells: MarkCells, set: &EventSet, slot: u32, member: *const Member) -> Self {
        // Without a call graph, all nodes are null, so the last one is always the right one.
        let no_node = if settings().has_call_graph { ptr::dangling() } else { ptr::null() };
        Self {
            hooks: Cell::new(set.base_hooks()),
            watch: Watch::of(set.sampled()),
            base: Cell::new(set.base_hooks()),
            begin_measured: Cell::new(set.base_hooks().begin),
            set,
            event_cells: [const { Cell::new(ptr::null()) }; FAST_EVENTS],
            spans: [const { [const { Cell::new(Span::NOTHING) }; FAST_EVENTS] }; 2],
            cells,
            last_nodes: array::from_fn(|_| Cell::new(no_node)),
            slot,
            member,
            skipped: Cell::new(ptr::null()),
        }
    }

    /// Binds the hooks of measured calls of the mark, and the one that begins any call.
    ///
    /// # Safety
    ///
    /// BINDING holds for the hooks and this plan.
    pub(crate) unsafe fn bind(&self, measured: Hooks, begin: Begin) {
        self.hooks.set(Hooks { begin, ..measured });
        self.base.set(self.set().base_hooks());
        self.begin_measured.set(measured.begin);
    }

    /// Begins a call that is measured.
    #[inline]
    pub(crate) fn begin_measured(&self, recorder: HeldRecorder) -> Token {
        // SAFETY: BINDING: whoever binds hooks guarantees it.
        unsafe { (self.begin_measured.get())(self, recorder) }
    }

    /// The hooks of calls of the mark.
    #[inline]
    pub(crate) fn hooks(&self) -> BoundHooks<'_> {
        BoundHooks { plan: self, hooks: self.hooks.get() }
    }

    /// Those of its event set, without options.
    #[inline]
    pub(crate) fn base_hooks(&self) -> BoundHooks<'_> {
        BoundHooks { plan: self, hooks: self.base.get() }
    }

    /// The same, or those that first look for samples.
    #[inline]
    pub(crate) fn unfenced_hooks(&self) -> BoundHooks<'_> {
        BoundHooks { plan: self, hooks: self.set().unfenced_hooks() }
    }

    /// Whether calls are measured in bursts only.
    #[inline]
    pub(crate) fn is_thinned(&self) -> bool {
        self.cells.is_thinned
    }

    /// One call in so many is measured; `None` if all are.
    pub(crate) fn every(&self) -> Option<u32> {
        Some(self.cells.weight).filter(|_| self.is_thinned())
    }

    /// Whether `time` does not include that in which other threads had the CPU: its calls stand for others, and it does
    /// not record when the thread was off the CPU.
    pub(crate) fn leaves_preemption_out(&self) -> bool {
        self.is_thinned() && self.set().switches().is_none()
    }

    /// Whether its marked function may skip its calls in gaps: nothing else need be done for them.
    pub(crate) fn is_skipped_by_function(&self) -> bool {
        self.is_thinned() && self.skipped.get().is_null()
    }

    /// What chooses whether it is thinned, if `every` or a budget may.
    pub(crate) fn member(&self) -> Option<&Member> {
        // SAFETY: null, or `new` requires that it lives as long as the plan is used.
        unsafe { self.member.as_ref() }
    }

    /// Counts a call that is recorded, for its member.
    #[inline]
    pub(crate) fn count(&self) {
        if let Some(member) = self.member() {
            member.recorded.set(member.recorded.get() + 1);
        }
    }

    /// What tells it from other plans of the thread.
    #[inline]
    pub(crate) fn key(&self) -> usize {
        ptr::from_ref(self).addr()
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

    /// Whether the cost of thinned marks inside also counts as such in the call around: so it is if this mark is
    /// thinned, and for skipped calls.
    pub(crate) fn passes_thinned_on(&self) -> bool {
        self.is_thinned() || self.is_of_skipped()
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

    /// Whether the histograms of the first `N` events have buckets for these values, and the call does not end in
    /// `end_special`.
    #[inline]
    pub(crate) fn has_room<const N: usize, const IS_LEAF: bool>(&self, costs: &[u64; N]) -> bool {
        // Evaluates every term, to avoid a branch for each event.
        (0..N).fold(true, |has_room, n| has_room & self.spans[usize::from(IS_LEAF)][n].get().has(costs[n]))
    }

    /// Updates the range of event `n`'s histogram. On threads with thinned marks, only leaf calls of these marks end
    /// without `end_special`, and with a call graph, no calls.
    pub(crate) fn update_span(&self, n: usize, recorder: &Recorder) {
        let (is_plain, is_in_graph) = (!recorder.has_thinned.get(), recorder.graph().is_some());
        for (spans, has_span) in self.spans.iter().zip([is_plain, is_plain || self.is_thinned() && !is_in_graph]) {
            if let Some(span) = spans.get(n).filter(|_| has_span) {
                let values = &self.cells.events[n].values;
                span.set(if self.is_thinned() { values.span_of_short() } else { values.span() });
            }
        }
    }

    /// Resets the ranges of all histograms: they are empty, or calls begin to end in `end_special`.
    pub(crate) fn reset_spans(&self) {
        self.spans.as_flattened().iter().for_each(|span| span.set(Span::NOTHING));
    }

    /// Publishes the probe overhead of the event set in the mark's cells.
    pub(crate) fn publish_overhead(&self) {
        let measured = self.set().measured_overhead.borrow();
        for (event, cells) in self.set().events().zip(&self.cells.events) {
            let in_call = self.set().overhead.in_leaf[event.n].get();
            cells.overhead.set(match &*measured {
                Some(measured) => Overhead {
                    in_call,
                    total: self.set().overhead.total[event.slot_index].get(),
                    // What is subtracted may differ from what calibration saw in an empty call.
                    noise: measured.noise[event.n] + measured.probe.in_leaf[event.n].abs_diff(in_call),
                    skipped: measured.probe.skipped[event.slot_index],
                    is_unknown: false,
                },
                None => Overhead { is_unknown: true, ..Overhead::default() },
            });
        }
    }
}

/// Makes open calls independent of what their counters remember. Counters remember little, and these calls may be long.
pub(crate) fn detach(open: impl Iterator<Item = FrameRef>) {
    for frame in open {
        let set = frame.plan().set();
        set.split_locks(frame);
        for (event, counter) in set.with_counters() {
            let mut region = frame.region(event.n);
            counter.keep(&mut region);
            frame.set_region(event.n, region);
        }
    }
}
