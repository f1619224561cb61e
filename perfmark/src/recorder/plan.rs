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
    /// Which of the thread's slots the events are in.
    pub(super) set: Vec<usize>,
    /// What a caller sees of a probe, for each of the thread's slots, where the thread keeps costs.
    pub(super) costs: RefCell<Vec<u64>>,
}

/// One of its events.
pub(super) struct Planned {
    slot: *const Slot,
    /// What the probe sees of itself.
    pub(super) own: Cell<u64>,
    /// What the caller sees of a probe with this set of events.
    pub(super) whole: Cell<u64>,
}

impl Planned {
    /// The slot lives as long as the plan.
    pub(super) fn new(slot: &Slot) -> Self {
        Self { slot, own: Cell::new(0), whole: Cell::new(0) }
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
