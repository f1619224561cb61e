//! What one thread recorded: written by it alone, readable by all.
#![allow(unsafe_code, reason = "a list that readers walk while its owner adds to it")]

use std::iter;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

use crate::arena::Arena;
use crate::events::EventId;
use crate::histogram::{Cells, Frozen};
use crate::mark::Mark;

/// One event's figures over one mark's calls on one thread.
#[derive(Debug)]
pub(crate) struct EventCells {
    pub(crate) event: EventId,
    /// Where the thread's recorder keeps the event's counter.
    pub(crate) slot: usize,
    /// Every measured call.
    pub(crate) values: Cells,
    /// Of these, the ones scaled.
    pub(crate) scaled: AtomicU64,
    /// The sum over calls without another call of the same mark around them.
    pub(crate) total: AtomicU64,
    /// The sum without marked calls inside.
    pub(crate) own: AtomicU64,
}

impl EventCells {
    pub(crate) fn new(event: EventId, slot: usize) -> Self {
        let zero = || AtomicU64::new(0);
        Self { event, slot, values: Cells::new(), scaled: zero(), total: zero(), own: zero() }
    }
}

/// One mark's figures on one thread.
#[derive(Debug)]
pub(crate) struct MarkCells {
    pub(crate) mark: &'static Mark,
    /// Calls begun.
    pub(crate) entered: AtomicU64,
    /// Calls ended, in every way.
    pub(crate) finished: AtomicU64,
    /// Calls that a panic ended.
    pub(crate) unwound: AtomicU64,
    pub(crate) events: Box<[EventCells]>,
    next: *const Self,
}

impl MarkCells {
    pub(crate) fn new(mark: &'static Mark, events: Box<[EventCells]>) -> Self {
        let zero = || AtomicU64::new(0);
        Self { mark, entered: zero(), finished: zero(), unwound: zero(), events, next: ptr::null() }
    }

    /// Notes that a call ended: after what it left in the cells, so that a reader who sees the call sees that, too.
    #[inline]
    pub(crate) fn finish(&self) {
        self.finished.store(self.finished.load(Relaxed) + 1, Release);
    }

    /// Adds what is here to `totals`. Calls are read before values, so that a call that ends meanwhile is not taken for unmeasured.
    pub(crate) fn add_to(&self, totals: &mut Totals) {
        let finished = self.finished.load(Acquire);
        totals.calls += finished;
        totals.unwound += self.unwound.load(Relaxed);
        totals.in_flight += self.entered.load(Relaxed).saturating_sub(finished);
        for cells in &self.events {
            let figures = totals.event(cells.event);
            cells.values.add_to(&mut figures.values);
            figures.scaled += cells.scaled.load(Relaxed);
            figures.total = figures.total.saturating_add(cells.total.load(Relaxed));
            figures.own = figures.own.saturating_add(cells.own.load(Relaxed));
        }
    }
}

/// The figures of every mark that one thread called.
#[derive(Debug)]
pub(crate) struct ThreadCells {
    first: AtomicPtr<MarkCells>,
    /// Where the owning thread's histograms grow. Dropped after the list, which points into it.
    pub(crate) arena: Arena,
}

// SAFETY: the list's nodes are `Sync` but for `next`, which is written before a node is published and never after; of the arena, only
// the owning thread takes pieces.
unsafe impl Sync for ThreadCells {}
// SAFETY: the same.
unsafe impl Send for ThreadCells {}

impl ThreadCells {
    pub(crate) fn new() -> Self {
        Self { first: AtomicPtr::new(ptr::null_mut()), arena: Arena::new() }
    }

    /// Adds a mark's cells. Only the owning thread may call it; the pointer is good as long as `self`.
    pub(crate) fn add(&self, mut cells: MarkCells) -> *const MarkCells {
        cells.next = self.first.load(Relaxed);
        let cells = Box::into_raw(Box::new(cells));
        self.first.store(cells, Release);
        cells
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &MarkCells> {
        // SAFETY: null, or a node that lives as long as the list.
        let deref = |cells: *const MarkCells| unsafe { cells.as_ref() };
        iter::successors(deref(self.first.load(Acquire)), move |cells| deref(cells.next))
    }
}

impl Drop for ThreadCells {
    fn drop(&mut self) {
        let mut next = self.first.load(Acquire).cast_const();
        while !next.is_null() {
            // SAFETY: made by Box::into_raw in `add`, reachable from here alone.
            let cells = unsafe { Box::from_raw(next.cast_mut()) };
            next = cells.next;
        }
    }
}

/// One mark's figures, merged over threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) calls: u64,
    pub(crate) unwound: u64,
    pub(crate) in_flight: u64,
    pub(crate) events: Vec<(EventId, Figures)>,
}

/// One event's figures over one mark's calls, merged over threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) values: Frozen,
    pub(crate) scaled: u64,
    pub(crate) total: u64,
    pub(crate) own: u64,
}

impl Totals {
    fn event(&mut self, id: EventId) -> &mut Figures {
        let at = self.events.iter().position(|(event, _)| *event == id).unwrap_or_else(|| {
            self.events.push((id, Figures::default()));
            self.events.len() - 1
        });
        &mut self.events[at].1
    }
}
