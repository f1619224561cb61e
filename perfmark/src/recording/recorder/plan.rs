//! A plan: what entry and exit of a mark's calls do on one thread. The thread's first call of the mark creates it.
#![allow(unsafe_code, reason = "pointers to data that lives as long as the thread's cells")]

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;
use std::{array, ptr};

use perfmark_rdpmc::{Counter, CounterSet, GroupRead, OffCpu, Region, clock};

use super::budget::{self, LOT, Member, UNKNOWN_NS};
use super::calibrate::CalibrationCalls;
use super::call_token::Token;
use super::counters::{EVENT_SLOTS, EventSlot, EventSlots, Source};
use super::draws::Draws;
use super::overhead::{MeasuredOverhead, OverheadKey, OverheadTable};
use super::stack::{FRAME_EVENTS, Frame, FrameRef, LOCKS_SPLIT};
use super::state::{HeldRecorder, Recorder};
use crate::recording::cells::graph::Node;
use crate::recording::cells::histogram::Span;
use crate::recording::cells::sampled::SampledThread;
use crate::recording::cells::{EventCells, Holds, MarkCells, Overhead};
use crate::recording::mark::CallMode;
use crate::recording::mark::mark_settings::Variant;
use crate::recording::start;

/// Begins a call and releases the recorder.
pub(super) type Begin = fn(&Plan, HeldRecorder) -> Token;

/// Ends the innermost call, which has this frame, and releases the recorder.
pub(super) type End = fn(&Plan, FrameRef, HeldRecorder);

/// Removes the innermost frame, of a poll, and leaves in it what [`Frame::poll_cost`] returns. Does nothing and returns
/// `false` if that takes the slow path.
pub(super) type Close = fn(&Plan, FrameRef, &Recorder) -> bool;

/// The functions that entry and exit of a mark's calls execute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hooks {
    pub(super) begin: Begin,
    /// Ends a leaf call.
    pub(super) end_leaf: End,
    /// Ends any call.
    pub(super) end: End,
    /// Closes a poll without inner calls.
    pub(super) close_leaf: Close,
    /// Closes any poll.
    pub(super) close: Close,
}

/// The most events that a mark on the fast path can have.
pub(super) const FAST_EVENTS: usize = CounterSet::MOST;

const _: () = assert!(FAST_EVENTS == FRAME_EVENTS);

/// A mark on one thread: its cells, which all threads read, and what entry and exit need, which only this thread uses.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Plan {
    pub(super) hooks: Cell<Hooks>,
    set: *const EventSet,
    /// The cells of the first events. Set once the plan no longer moves, because they point into the plan.
    event_cells: [Cell<*const EventCells>; FAST_EVENTS],
    /// For each of these events, the range of its histogram after the last call on the slow path. Values in the range
    /// have a bucket.
    spans: [Cell<Span>; FAST_EVENTS],
    pub(super) cells: MarkCells,
    /// The hooks of measured calls, without options.
    pub(super) base_hooks: Cell<Hooks>,
    /// Two nodes of the call graph: the caller of the mark's last call, and that call's own.
    pub(super) last_nodes: [Cell<*const Node>; 2],
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
// SAFETY: the same as for `Send`.
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
    pub(super) unsafe fn new(
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
    pub(super) unsafe fn within_budget(self, member: *const Member) -> Self {
        let this = Self { member, lot: Cell::new(LOT), ..self };
        let context = this.member().map_or(0, |member| member.context);
        Self { context_inside: this.context_inside.max(context), ..this }
    }

    /// What chooses how many calls are measured, if the mark is within a budget.
    #[inline]
    pub(super) fn member(&self) -> Option<&Member> {
        // SAFETY: null, or `within_budget` requires that it lives as long as the plan is used.
        unsafe { self.member.as_ref() }
    }

    /// The plan to which this pointer of a [`Member`] refers.
    pub(super) fn of_member<'a>(pointer: *const ()) -> Option<&'a Self> {
        // SAFETY: CELLS: null, or the `pointer` of a plan, and plans live as long as the recorder is used.
        unsafe { pointer.cast::<Self>().as_ref() }
    }

    /// The plan of an open call.
    #[inline]
    pub(super) fn of<'a>(frame: FrameRef) -> &'a Self {
        // SAFETY: CELLS: the frame holds the `pointer` of a plan, and plans live as long as the recorder is used.
        unsafe { &*frame.plan().cast() }
    }

    /// The pointer that frames hold.
    #[inline]
    pub(super) fn pointer(&self) -> *const () {
        ptr::from_ref(self).cast()
    }

    /// The slot in which calls find the plan; 0 if it has none.
    pub(super) fn slot(&self) -> u32 {
        self.variant.map_or_else(|| self.cells.mark.own_slot(), |variant| variant.slot)
    }

    /// Sets the pointers to event cells. The plan must not move from now on.
    pub(super) fn set_event_cells(&self) {
        for (pointer, cells) in self.event_cells.iter().zip(&self.cells.events) {
            pointer.set(cells);
        }
    }

    /// Gives skipped calls a plan: one without events, whose calls only have frames.
    ///
    /// # Safety
    ///
    /// It lives as long as this plan is used.
    pub(super) unsafe fn set_skipped(&self, plan: *const Self) {
        self.skipped.set(plan);
    }

    /// The plan of the calls that are skipped, if samples of them are noted. It has no events.
    #[inline]
    pub(super) fn skipped(&self) -> Option<&Self> {
        // SAFETY: null, or `set_skipped` requires that it lives as long as this plan is used.
        unsafe { self.skipped.get().as_ref() }
    }

    /// Whether the call that begins is measured. So many calls were skipped before it.
    #[inline]
    pub(super) fn is_drawn(&self, skipped: u64) -> bool {
        self.draws.is_next(skipped)
    }

    /// Draws the next call to be measured.
    pub(super) fn draw(&self, random: &Cell<u64>) {
        self.draws.draw(self.cells.weight, random);
    }

    /// The number of calls that are skipped from now on because the call just drawn was drawn for them, too.
    pub(super) fn rest(&self) -> u64 {
        self.draws.rest(self.cells.weight)
    }

    /// Skips that many calls, and draws one of the block after them.
    pub(super) fn begin_block_after(&self, rest: u64, random: &Cell<u64>) {
        self.draws.begin_block(self.cells.skipped.load(Relaxed) + rest, self.cells.weight, random);
    }

    /// Within a budget: whether all calls are measured from now on.
    pub(super) fn is_complete(&self) -> bool {
        self.cells.weight == 1 && self.is_drawn(self.cells.skipped.load(Relaxed))
    }

    /// The [context](budget::context) of calls directly inside a call with this plan.
    #[inline]
    pub(super) fn context_inside(&self) -> usize {
        self.context_inside
    }

    /// Counts a call that is measured completely. Returns whether the budget is to be looked at.
    #[inline]
    pub(super) fn ends_lot(&self) -> bool {
        let left = self.lot.get() - 1;
        self.lot.set(left);
        left == 0
    }

    pub(super) fn begin_lot(&self) {
        self.lot.set(LOT);
    }

    /// Whether `every` measures the call that begins with its first poll.
    pub(super) fn is_poll_drawn(&self) -> bool {
        self.draws.is_next_counted()
    }

    /// The number of calls that a measured one counts as.
    #[inline]
    pub(super) fn weight(&self) -> u64 {
        self.cells.weight.into()
    }

    #[inline]
    pub(super) fn set(&self) -> &EventSet {
        // SAFETY: `new` requires that the set lives as long as the plan is used.
        unsafe { &*self.set }
    }

    /// The cells of the first `N` events.
    ///
    /// # Safety
    ///
    /// The plan has `N` events or more, and [`set_event_cells`](Self::set_event_cells) was called.
    #[inline]
    pub(super) unsafe fn event_cells<const N: usize>(&self) -> [&EventCells; N] {
        // SAFETY: `set_event_cells` stored pointers to the first events' cells, which are part of the plan.
        array::from_fn(|n| unsafe { &*self.event_cells[n].get() })
    }

    /// Whether the histograms of the first `N` events have buckets for these values.
    #[inline]
    pub(super) fn has_room<const N: usize>(&self, costs: &[u64; N]) -> bool {
        // Evaluates every term, to avoid a branch for each event.
        (0..N).fold(true, |has_room, n| has_room & self.spans[n].get().has(costs[n]))
    }

    /// Updates the range of event `n`'s histogram.
    pub(super) fn update_span(&self, n: usize) {
        if let Some(span) = self.spans.get(n) {
            span.set(self.cells.events[n].values.span());
        }
    }

    /// Resets the ranges of all histograms, which are empty.
    pub(super) fn reset_spans(&self) {
        self.spans.iter().for_each(|span| span.set(Span::NOTHING));
    }

    /// Publishes the probe overhead of the event set in the mark's cells.
    pub(super) fn publish_overhead(&self) {
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

/// An event set: events that marks of a thread share, and how they are read.
#[derive(Debug)]
#[repr(C)]
pub(super) struct EventSet {
    /// The counters, as the fast path reads them.
    pub(super) counters: CounterSet,
    pub(super) overhead: OverheadTable,
    /// The event slots of the set's events. If `time` is among them, it is first.
    pub(super) slot_indices: [usize; EVENT_SLOTS],
    slots: [*const EventSlot; EVENT_SLOTS],
    count: usize,
    pub(super) mode: CallMode,
    /// The calls that measure the overhead of the set's probe.
    pub(super) calibration_calls: &'static CalibrationCalls,
    /// The hooks of marks with this set, without options: for marks without `every`, and for marks with it.
    pub(super) base_hooks: Cell<Hooks>,
    pub(super) weighted_hooks: Cell<Hooks>,
    /// The probe overhead, and what it depends on. `None` before it is measured.
    pub(super) measured_overhead: RefCell<Option<MeasuredOverhead>>,
    pub(super) overhead_key: RefCell<Option<OverheadKey>>,
    /// The slot whose counter reads the thread's group, if several events of the set are in the group; else null.
    reader: *const EventSlot,
    /// The values of the set's off-CPU events, as of the thread's last [`OffCpu::catch_up`].
    off_cpu: [*const Cell<u64>; FRAME_EVENTS],
    /// The number of off-CPU events, also of those without a pointer.
    off_cpu_events: usize,
    /// Where samples of calls are noted; null if they are not sampled.
    sampled: Cell<*const SampledThread>,
}

impl EventSet {
    /// An event set with these slots. Its marks have `hooks` until others are bound.
    ///
    /// # Safety
    ///
    /// The slots live as long as the set and do not move.
    pub(super) unsafe fn new(
        slot_indices: &[usize],
        slots: &EventSlots,
        mode: CallMode,
        calibration_calls: &'static CalibrationCalls,
        hooks: Hooks,
    ) -> Self {
        let mut set = Self {
            counters: CounterSet::new(),
            overhead: OverheadTable::new(),
            slot_indices: [0; EVENT_SLOTS],
            slots: [ptr::null(); EVENT_SLOTS],
            count: slot_indices.len(),
            mode,
            calibration_calls,
            base_hooks: Cell::new(hooks),
            weighted_hooks: Cell::new(hooks),
            measured_overhead: RefCell::default(),
            overhead_key: RefCell::default(),
            reader: ptr::null(),
            off_cpu: [ptr::null(); FRAME_EVENTS],
            sampled: Cell::new(ptr::null()),
            off_cpu_events: slot_indices.iter().filter(|&&n| slots[n].switches().is_some()).count(),
        };
        for (n, &index) in slot_indices.iter().enumerate() {
            (set.slots[n], set.slot_indices[n]) = (&raw const *slots[index], index);
        }
        // For a single event, its own reading is cheaper.
        let is_read_together = set.events().filter(|event| event.slot().is_grouped()).count() > 1;
        if let Some(reader) = slots.reader().filter(|_| is_read_together) {
            set.reader = reader;
        }
        for (value, index) in set.off_cpu.iter_mut().zip(slot_indices.iter().filter_map(|&n| slots[n].off_cpu_value()))
        {
            *value = index;
        }
        set
    }

    /// A set of no event, whose calls are sampled as those of this set.
    pub(super) fn without_events(&self, hooks: Hooks) -> Self {
        // SAFETY: there is no slot.
        let set = unsafe { Self::new(&[], &EventSlots::default(), self.mode, self.calibration_calls, hooks) };
        set.sampled.set(self.sampled.get());
        set
    }

    /// Notes samples of the set's calls there.
    ///
    /// # Safety
    ///
    /// It is about this thread, and lives as long as the set.
    pub(super) unsafe fn sample(&self, sampled: *const SampledThread) {
        self.sampled.set(sampled);
    }

    /// Where samples of calls are noted, if they are.
    #[inline]
    pub(super) fn sampled(&self) -> Option<&SampledThread> {
        // SAFETY: null, or `sample` requires that it lives as long as the set.
        unsafe { self.sampled.get().as_ref() }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The event slots of the set's events.
    pub(super) fn used_slot_indices(&self) -> &[usize] {
        &self.slot_indices[..self.count]
    }

    /// Whether the set has these slots and calls in this mode.
    pub(super) fn matches(&self, slot_indices: &[usize], mode: CallMode) -> bool {
        self.mode == mode && self.used_slot_indices() == slot_indices
    }

    pub(super) fn events(&self) -> impl DoubleEndedIterator<Item = SetEvent<'_>> {
        let one = |n| SetEvent { n, slot_index: self.slot_indices[n], set: self };
        (0..self.count).map(one)
    }

    /// Whether `time` is among the events. It is the first one then.
    pub(super) fn has_time(&self) -> bool {
        self.events().next().is_some_and(|event| event.slot().is_ticks())
    }

    /// The number of off-CPU events. They are the last ones.
    pub(super) fn off_cpu_events(&self) -> usize {
        self.off_cpu_events
    }

    /// The thread's context switches, if the set has off-CPU events.
    #[inline]
    pub(super) fn switches(&self) -> Option<&OffCpu> {
        if self.off_cpu_events == 0 { None } else { self.find_switches() }
    }

    #[inline(never)]
    fn find_switches(&self) -> Option<&OffCpu> {
        self.events().rev().find_map(|event| event.slot().switches())
    }

    /// The event of the time between polls, if the set has it.
    pub(super) fn suspended(&self) -> Option<SetEvent<'_>> {
        self.events().next_back().filter(|event| event.slot().is_suspended())
    }

    /// The value of each of the first `W` off-CPU events, as of the thread's last [`OffCpu::catch_up`].
    ///
    /// # Safety
    ///
    /// The set has `W` off-CPU events, and at most [`FRAME_EVENTS`] events.
    #[inline]
    pub(super) unsafe fn off_cpu_values<const W: usize>(&self) -> [u64; W] {
        // SAFETY: `new` stored pointers to cells of the thread's `OffCpu`. Its slots own it until `EventSlots::close`,
        // after which no call begins or ends.
        array::from_fn(|n| unsafe { &*self.off_cpu[n] }.get())
    }

    /// Replaces the sum of locks in a call's frame by the lock of each counter's page. If the set has remembered other
    /// pages since entry, the counters are unmeasured in this call.
    pub(super) fn split_locks(&self, frame: FrameRef) {
        let locks = frame.locks.replace(LOCKS_SPLIT);
        if locks == LOCKS_SPLIT {
            return;
        }
        let is_known = locks == self.counters.locks();
        for (n, event) in (usize::from(self.has_time())..FRAME_EVENTS).enumerate() {
            frame.set_lock(event, if is_known { self.counters.lock(n) } else { Region::NOT_BEGUN });
        }
    }

    /// Whether the set reads events through the thread's group.
    pub(super) fn has_group(&self) -> bool {
        !self.reader.is_null()
    }

    /// Reads the thread's group. `None` if the set does not use it.
    pub(super) fn read_group(&self) -> Option<GroupRead> {
        self.reader().map(Counter::read_group)
    }

    /// As [`read_group`](Self::read_group), to begin calls.
    pub(super) fn read_group_to_begin(&self) -> Option<GroupRead> {
        self.reader().map(Counter::read_group_to_begin)
    }

    fn reader(&self) -> Option<&Counter> {
        // SAFETY: null, or a slot that lives as long as the set, which `new` requires.
        unsafe { self.reader.as_ref() }?.counter()
    }

    /// Lets the fast path read what the counters remember now. Returns `false` if it cannot.
    pub(super) fn remember_counters(&self) -> bool {
        let counters = self.events().filter_map(|event| event.slot().counter());
        // SAFETY: `new` requires that slots, and so counters and switches, live as long as the set. `count` is at most
        // `FAST_EVENTS`, which is what a `CounterSet` can hold.
        self.count <= FAST_EVENTS && unsafe { self.counters.remember(counters, self.switches()) }
    }
}

/// One event of a set.
#[derive(Clone, Copy)]
pub(super) struct SetEvent<'a> {
    /// The event's index in the set.
    pub(super) n: usize,
    /// The event's slot on the thread.
    pub(super) slot_index: usize,
    pub(super) set: &'a EventSet,
}

impl<'a> SetEvent<'a> {
    pub(super) fn slot(self) -> &'a EventSlot {
        // SAFETY: `EventSet::new` stored a pointer to a slot that lives as long as the set.
        unsafe { &*self.set.slots[self.n] }
    }

    /// Whether the thread's group reads it, together with other events of the set.
    pub(super) fn is_grouped(self) -> bool {
        self.set.has_group() && self.slot().is_grouped()
    }

    /// Reads the event at entry. Returns `false` if the kernel touched the counter since the last reading.
    pub(super) fn begin(self, frame: FrameRef) -> bool {
        let Some(counter) = self.slot().counter() else {
            self.begin_without_counter(frame);
            return true;
        };
        let mut region = frame.region(self.n);
        let is_begun = counter.begin_unchanged(&mut region);
        frame.set_region(self.n, region);
        is_begun
    }

    /// What the event counted since entry. `None` if the kernel touched the counter, if ticks ran backwards, or if
    /// records of context switches were lost.
    pub(super) fn end(self, frame: FrameRef) -> Option<u64> {
        let Some(counter) = self.slot().counter() else { return self.end_without_counter(frame) };
        counter.end_unchanged(&frame.region(self.n))
    }

    // Not inlined, because the slow path reads counters, whose values include its instructions.
    #[inline(never)]
    fn begin_without_counter(self, frame: FrameRef) {
        match &self.slot().source {
            Source::Ticks => frame.raw(self.n).set(clock::ticks()),
            Source::Suspended => frame.set_region(self.n, Region::from_parts([start::ticks(), 0, 0, 0])),
            Source::OffCpu { switches, kind } => {
                frame.set_region(self.n, Region::from_parts([kind.cell(switches).get(), 0, 0, 0]));
            }
            Source::Counter { .. } => {}
        }
    }

    #[inline(never)]
    fn end_without_counter(self, frame: FrameRef) -> Option<u64> {
        match &self.slot().source {
            // Ticks run backwards on CPUs whose tick counters differ. That is no time.
            Source::Ticks => clock::ticks().checked_sub(frame.raw(self.n).get()),
            // A call of one poll. See `poll` for others.
            Source::Suspended => Some(0),
            Source::OffCpu { switches, kind } => {
                let [begun, lock, ..] = frame.region(self.n).parts();
                (lock != Region::NOT_BEGUN).then(|| kind.cell(switches).get() - begun)
            }
            Source::Counter { .. } => None,
        }
    }
}

/// The frame's node in the call graph. `None` for a frame without one, which the graph's root has for a caller.
pub(super) fn node_of(frame: &Frame) -> Option<&Node> {
    // SAFETY: CELLS: nodes live as long as the thread's cells. Frames without a node hold null.
    unsafe { frame.node.get().as_ref() }
}
