//! What entry and exit of a mark's calls do on one thread: bound once, at the thread's first call of it.
#![allow(unsafe_code, reason = "refers to what lives as long as the thread's cells")]

use std::cell::{Cell, RefCell};
use std::mem::offset_of;
use std::{array, ptr};

use perfmark_rdpmc::{Counter, CounterSet, GroupRead, Region, clock};

use super::calibrate::Kinds;
use super::cost::{Cost, Costs, Key};
use super::counters::{SLOTS, Slot, Slots};
use super::draws::Draws;
use super::stack::{APART, Frame, FrameRef, Space, Token};
use super::state::{Recorder, Taken};
use crate::cells::{EventCells, Holds, MarkCells, Probe};
use crate::graph::Node;
use crate::histogram::Span;
use crate::mark::{self, Manner};
use crate::settings::Variant;

/// Begins a call, and puts the recorder back at last.
pub(super) type Begin = fn(&Plan, Taken) -> Token;

/// Ends the innermost call, whose frame it is, and puts the recorder back at last.
pub(super) type End = fn(&Plan, FrameRef, Taken);

/// Removes the innermost frame, which is of a poll, and lets it hold what each event cost, in `begun`, and what calls
/// inside it cost, in `at`. False, and nothing is done, where that takes the slow path.
pub(super) type Close = fn(&Plan, FrameRef, &Recorder) -> bool;

/// What entry and exit of a mark's calls execute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hooks {
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

/// Events of a mark whose calls go the fast path, at most.
pub(super) const FAST: usize = CounterSet::MOST;

const _: () = assert!(FAST == super::stack::EVENTS);

/// A mark on one thread: its cells, which all threads read, and what entry and exit need, which is this thread's alone.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Plan {
    pub(super) hooks: Cell<Hooks>,
    set: *const EventSet,
    /// Of its first events, once it is where it stays: while it is moved nothing may point into it.
    event_cells: [Cell<*const EventCells>; FAST],
    /// The range of each one's histogram when a call ended on the slow path last. Costs in it have a bucket.
    spans: [Cell<Span>; FAST],
    pub(super) cells: MarkCells,
    /// The hooks of its measured calls but for options.
    pub(super) plain: Cell<Hooks>,
    /// Where the mark's last call was in the call graph: under which node, and its own.
    pub(super) last: [Cell<*const Node>; 2],
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
    /// A mark with these cells, and with the events of that set.
    ///
    /// # Safety
    ///
    /// The set lives as long as calls are made.
    pub(super) unsafe fn new(
        cells: MarkCells,
        set: &EventSet,
        variant: Option<&'static Variant>,
        draws: Draws,
    ) -> Self {
        let nothing = [const { Cell::new(ptr::null()) }; FAST];
        let hooks = Cell::new(set.plain.get());
        let last = [const { Cell::new(ptr::dangling()) }; 2];
        let spans = [const { Cell::new(Span::NOTHING) }; FAST];
        Self { plain: hooks.clone(), hooks, set, event_cells: nothing, spans, cells, last, variant, draws }
    }

    /// The plan of an open call.
    #[inline]
    pub(super) fn of<'a>(frame: FrameRef) -> &'a Self {
        // SAFETY: a call's frame holds what `pointer` gave when it was opened, and plans live as long as the thread's
        // cells (CELLS).
        unsafe { &*frame.plan().cast() }
    }

    /// What a frame holds.
    #[inline]
    pub(super) fn pointer(&self) -> *const () {
        ptr::from_ref(self).cast()
    }

    /// Where its mark's calls find it; 0 where that is nowhere.
    pub(super) fn place(&self) -> u32 {
        self.variant.map_or_else(|| self.cells.mark.own_slot(), |variant| variant.slot)
    }

    /// It is where it stays.
    pub(super) fn settle(&self) {
        for (at, cells) in self.event_cells.iter().zip(&self.cells.events) {
            at.set(cells);
        }
    }

    /// Whether the call that begins is measured: the one drawn of each `every` calls in a row. `before` are the calls
    /// that were not, so far.
    #[inline]
    pub(super) fn is_drawn(&self, before: u64) -> bool {
        self.draws.is_next(before)
    }

    /// Draws the call to be measured next.
    pub(super) fn draw(&self, random: &Cell<u64>) {
        self.draws.draw(self.cells.weight, random);
    }

    /// Whether the call that begins with its first poll is measured.
    pub(super) fn is_poll_drawn(&self) -> bool {
        self.draws.is_next_counted()
    }

    /// How many calls a measured one counts as.
    #[inline]
    pub(super) fn weight(&self) -> u64 {
        self.cells.weight.into()
    }

    #[inline]
    pub(super) fn set(&self) -> &EventSet {
        // SAFETY: it lives as long as calls are made, which `new` asks for.
        unsafe { &*self.set }
    }

    /// The cells of its first `N` events.
    ///
    /// # Safety
    ///
    /// It has as many, and is settled.
    #[inline]
    pub(super) unsafe fn event_cells<const N: usize>(&self) -> [&EventCells; N] {
        // SAFETY: this function's contract; cells live as long as the plan.
        array::from_fn(|n| unsafe { &*self.event_cells[n].get() })
    }

    /// Whether the histogram of each of its first `N` events is known to have room for that cost.
    #[inline]
    pub(super) fn has_room<const N: usize>(&self, costs: &[u64; N]) -> bool {
        // Without a branch for each.
        (0..N).fold(true, |has_room, n| has_room & self.spans[n].get().has(costs[n]))
    }

    /// Takes note of what the histogram of its event `n` spans now.
    pub(super) fn note_span(&self, n: usize) {
        if let Some(span) = self.spans.get(n) {
            span.set(self.cells.events[n].values.span());
        }
    }

    /// Takes note that its histograms are empty.
    pub(super) fn forget_spans(&self) {
        self.spans.iter().for_each(|span| span.set(Span::NOTHING));
    }

    /// Takes note of what its probe costs, as far as its set knows.
    pub(super) fn note_cost(&self) {
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

/// Some events that marks of a thread have together, and how they are read.
#[derive(Debug)]
#[repr(C)]
pub(super) struct EventSet {
    /// Its counters, as the fast path reads them.
    pub(super) counters: CounterSet,
    pub(super) costs: Costs,
    /// The slots of its events, which are the thread's; `time` first.
    pub(super) at: [usize; SLOTS],
    slots: [*const Slot; SLOTS],
    count: usize,
    pub(super) manner: Manner,
    /// The calls by which its probes are measured.
    pub(super) kinds: &'static Kinds,
    /// The hooks of its marks but for options, and those of marks whose calls count as several.
    pub(super) plain: Cell<Hooks>,
    pub(super) weighted: Cell<Hooks>,
    /// All that is known of what its probes cost, and on what it depends; none before it is measured.
    pub(super) cost: RefCell<Option<Cost>>,
    pub(super) key: RefCell<Option<Key>>,
    /// The slot whose counter reads the thread's group, if several events of the set are in it; else null.
    reader: *const Slot,
}

impl EventSet {
    /// The events of these slots. Until others are bound, entry and exit are by `hooks`.
    ///
    /// # Safety
    ///
    /// The slots live as long as the set, and stay where they are.
    pub(super) unsafe fn new(at: &[usize], slots: &Slots, manner: Manner, kinds: &'static Kinds, hooks: Hooks) -> Self {
        let mut set = Self {
            counters: CounterSet::new(),
            costs: Costs::new(),
            at: [0; SLOTS],
            slots: [ptr::null(); SLOTS],
            count: at.len(),
            manner,
            kinds,
            plain: Cell::new(hooks),
            weighted: Cell::new(hooks),
            cost: RefCell::default(),
            key: RefCell::default(),
            reader: ptr::null(),
        };
        for (n, &at) in at.iter().enumerate() {
            (set.slots[n], set.at[n]) = (&raw const *slots[at], at);
        }
        // A reading of one event by itself is cheaper.
        let is_read_together = set.events().filter(|event| event.slot().is_grouped()).count() > 1;
        if let Some(reader) = slots.reader().filter(|_| is_read_together) {
            set.reader = reader;
        }
        set
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The slots of its events.
    pub(super) fn places(&self) -> &[usize] {
        &self.at[..self.count]
    }

    /// Whether it is these events, of calls that are made so.
    pub(super) fn is(&self, at: &[usize], manner: Manner) -> bool {
        self.manner == manner && self.places() == at
    }

    pub(super) fn events(&self) -> impl DoubleEndedIterator<Item = Planned<'_>> {
        let one = |n| Planned { n, at: self.at[n], set: self };
        (0..self.count).map(one)
    }

    /// Whether `time` is among its events: then it is the first one.
    pub(super) fn is_timed(&self) -> bool {
        self.events().next().is_some_and(|event| event.slot().counter().is_none())
    }

    /// Replaces the sum of locks, in the frame of a call with these events, by the lock of each counter's page. If the
    /// set has remembered other pages since, the counters are unmeasured in that call.
    pub(super) fn take_apart(&self, frame: FrameRef) {
        let locks = frame.locks.replace(APART);
        if locks == APART {
            return;
        }
        let is_known = locks == self.counters.locks();
        for (counter, at) in frame.at[self.is_timed().into()..].iter().enumerate() {
            at.set(if is_known { self.counters.lock(counter) } else { Region::NOT_BEGUN });
        }
    }

    /// Whether events of the set are read by the thread's group.
    pub(super) fn has_group(&self) -> bool {
        !self.reader.is_null()
    }

    /// Reads the thread's group. `None` if the set's events are not read so.
    pub(super) fn read_group(&self) -> Option<GroupRead> {
        // SAFETY: slots live as long as the set.
        let reader = unsafe { self.reader.as_ref() }?;
        reader.counter().map(Counter::read_group)
    }

    /// Lets the fast path read what its counters remember now. False where it cannot.
    pub(super) fn remember(&self) -> bool {
        let counters = self.events().filter_map(|planned| planned.slot().counter());
        // SAFETY: slots, and so counters, live as long as the set; and there are no more than it takes.
        self.count <= FAST && unsafe { self.counters.remember(counters) }
    }
}

/// One of a set's events.
#[derive(Clone, Copy)]
pub(super) struct Planned<'a> {
    /// Which.
    pub(super) n: usize,
    /// Its slot, which is the thread's.
    pub(super) at: usize,
    pub(super) set: &'a EventSet,
}

impl<'a> Planned<'a> {
    pub(super) fn slot(self) -> &'a Slot {
        // SAFETY: one of the set's, which live as long as it.
        unsafe { &*self.set.slots[self.n] }
    }

    /// Whether it is read together with others of the set, by the thread's group.
    pub(super) fn is_grouped(self) -> bool {
        self.set.has_group() && self.slot().is_grouped()
    }

    /// Reads at the beginning of a call; false where the kernel touched the counter since it was read last.
    pub(super) fn begin(self, frame: FrameRef) -> bool {
        let Some(counter) = self.slot().counter() else {
            frame.raw(self.n).set(clock::ticks());
            return true;
        };
        let mut region = frame.region(self.n);
        let is_begun = counter.begin_unchanged(&mut region);
        frame.set_region(self.n, region);
        is_begun
    }

    /// What was counted since; `None` where the kernel touched the counter.
    pub(super) fn end(self, frame: FrameRef) -> Option<u64> {
        match self.slot().counter() {
            Some(counter) => counter.end_unchanged(&frame.region(self.n)),
            // Ticks that run backwards, on CPUs that do not agree, are no time.
            None => clock::ticks().checked_sub(frame.raw(self.n).get()),
        }
    }
}

/// A mark's plan; null where the mark was not called on this thread.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Place(*const Plan);

impl Place {
    pub(super) fn of(plan: &Plan) -> Self {
        Self(plan)
    }

    /// The plan, if there is one.
    #[inline]
    pub(super) fn plan<'a>(self) -> Option<&'a Plan> {
        // SAFETY: what `of` was given lives as long as the thread's cells (CELLS).
        unsafe { self.0.as_ref() }
    }
}

/// What is mapped for a thread, at a multiple of [`ALIGNMENT`](super::stack::ALIGNMENT). Each recorder is a part of
/// one.
#[repr(C)]
pub(super) struct Home {
    pub(super) space: Space,
    pub(super) recorder: Recorder,
    /// By the mark's place.
    places: [Cell<Place>; mark::SLOTS],
}

impl Home {
    /// The one that the recorder is a part of.
    ///
    /// # Safety
    ///
    /// It is a part of one, for all of which the pointer is good.
    #[inline]
    pub(super) unsafe fn of(recorder: ptr::NonNull<Recorder>) -> *mut Self {
        // SAFETY: this function's contract.
        unsafe { recorder.byte_sub(offset_of!(Self, recorder)).as_ptr().cast() }
    }
}

/// A thread's plan of the mark with that place, if it was called there.
///
/// # Safety
///
/// It is the thread's recorder, as RECORDER has it.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "below `mark::SLOTS`")]
pub(super) unsafe fn place_of<'a>(recorder: ptr::NonNull<Recorder>, place: u64) -> &'a Cell<Place> {
    // SAFETY: this function's contract: it is a part of a home, for which the pointer is good. A place is below
    // `mark::SLOTS`.
    unsafe { &*(&raw const (*Home::of(recorder)).places).cast::<Cell<Place>>().add(place as usize) }
}

/// What a frame of the call graph's root has, too: see [`Frame::node`].
pub(super) fn node_of(frame: &Frame) -> Option<&Node> {
    // SAFETY: nodes live as long as the thread's cells (CELLS); the root's is null.
    unsafe { frame.node.get().as_ref() }
}
