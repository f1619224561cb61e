//! What the two ends of a mark's calls do on one thread: bound once, at the thread's first call of it.
#![allow(unsafe_code, reason = "points to what lives as long as the thread's recorder")]

use std::cell::{Cell, RefCell};

use perfmark_rdpmc::{Counter, clock};

use super::frames::{Header, Span};
use super::sources::Slot;
use super::thread::{Call, Recorder};
use crate::cells::MarkCells;

/// Begins a call. The recorder is this thread's, taken out of its `Thread`, into which it is put back at last.
pub(super) type Begin = unsafe fn(*mut Recorder, *const Plan) -> Call;
/// Ends the innermost call, whose header it is.
pub(super) type End = unsafe fn(*mut Recorder, *mut Header);

/// What a mark's two ends do.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) begin: Begin,
    /// Of a call in which no other was begun.
    pub(super) end_leaf: End,
    /// Of any call.
    pub(super) end: End,
}

/// A mark on one thread.
pub(super) struct Plan {
    pub(super) ends: Cell<Ends>,
    pub(super) cells: *const MarkCells,
    pub(super) events: Box<[Planned]>,
    /// Which of the thread's sets of events it has.
    pub(super) set: usize,
    /// What is seen from around of a probe, and of a caller's more, for each of the thread's slots, where the thread keeps costs.
    pub(super) costs: RefCell<Vec<(u64, u64)>>,
}

/// One of its events.
pub(super) struct Planned {
    slot: *const Slot,
    /// Where that is among the thread's.
    pub(super) at: usize,
    /// What the probe sees of itself.
    pub(super) own: Cell<u64>,
    /// What is seen from around of a probe with this set of events.
    pub(super) whole: Cell<u64>,
    /// What a caller's probe sees of itself.
    pub(super) own_caller: Cell<u64>,
    /// What is seen from around of a caller's probe more than of another.
    pub(super) extra: Cell<u64>,
}

impl Planned {
    /// The slot lives as long as the plan.
    pub(super) fn new(slot: &Slot, at: usize) -> Self {
        let zero = || Cell::new(0);
        Self { slot, at, own: zero(), whole: zero(), own_caller: zero(), extra: zero() }
    }

    #[inline]
    pub(super) fn slot(&self) -> &Slot {
        // SAFETY: it lives as long as the plan.
        unsafe { &*self.slot }
    }

    /// Reads at the beginning of a call; false where that takes the long way.
    #[inline]
    pub(super) fn begin(&self, span: &mut Span) -> bool {
        if let Some(counter) = self.slot().counter() {
            return counter.begin_unchanged(&mut span.region);
        }
        span.value = clock::ticks();
        true
    }

    /// What was counted since; None where that takes the long way.
    #[inline]
    pub(super) fn end(&self, span: &Span) -> Option<u64> {
        match self.slot().counter() {
            Some(counter) => counter.end_unchanged(&span.region),
            // Ticks that run backwards, on CPUs that do not agree, are no time.
            None => clock::ticks().checked_sub(span.value),
        }
    }

    /// Of an event that is a counter.
    ///
    /// # Safety
    ///
    /// It is one.
    #[inline]
    pub(super) unsafe fn known_counter(&self) -> &Counter {
        // SAFETY: the caller's word.
        unsafe { self.slot().counter().unwrap_unchecked() }
    }
}

/// What a call cost, without probes: less than nothing where these cost less than they usually do.
#[derive(Clone, Copy)]
pub(super) struct Net {
    /// Wraps.
    value: u64,
    is_less_than_nothing: bool,
}

impl Net {
    #[inline]
    pub(super) fn of(counted: u64, overhead: u64) -> Self {
        let (value, is_less_than_nothing) = counted.overflowing_sub(overhead);
        Self { value, is_less_than_nothing }
    }

    #[inline]
    pub(super) fn is_less_than_nothing(self) -> bool {
        self.is_less_than_nothing
    }

    /// What is shown: nothing for what is less.
    #[inline]
    pub(super) fn shown(self) -> u64 {
        if self.is_less_than_nothing { 0 } else { self.value }
    }

    /// How much more is shown than there is. It counts as something inside, so that what calls cost themselves adds up to what the outermost cost.
    #[inline]
    pub(super) fn lost(self) -> u64 {
        self.shown().wrapping_sub(self.value)
    }

    /// Notes in its slot that a call ended, which began with `before` there; and gives what the calls inside it cost.
    #[inline]
    pub(super) fn leave(self, slot: &Slot, before: u64) -> u64 {
        let inside = slot.inside.get().wrapping_sub(before);
        slot.inside.set(before.wrapping_add(self.value));
        inside
    }
}
