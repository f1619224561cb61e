//! What one thread recorded: written by it alone, readable by all.
#![allow(unsafe_code, reason = "a list that readers walk while its owner adds to it")]

use std::fmt::Debug;
use std::iter;
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::arena::Arena;
use crate::events::EventId;
use crate::graph::Graph;
use crate::histogram::{Cells, Frozen, add, whole};
use crate::mark::Mark;
use crate::switched::Switched;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};

/// One event's figures over one mark's calls on one thread.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct EventCells {
    /// Every measured call. First, so that the fast path adds nothing to find its rows.
    pub(crate) values: Cells,
    /// The sum over calls with another call of the same mark around them.
    pub(crate) nested: AtomicU64,
    /// The sum of what marked calls inside measured ones cost. It wraps: estimates of single calls can be negative.
    pub(crate) inside: AtomicU64,
    /// What was added for calls that were not counted, and how many these are.
    stood_in: SideSums,
    imputed: AtomicU64,
    /// What one of these is assumed to cost, with and without marked calls inside: a mean of the calls measured before
    /// it.
    means: [AtomicU64; 2],
    /// What calls cost that a panic ended.
    pub(crate) unwound: SideSums,
    /// Of the measured calls, the ones scaled.
    pub(crate) scaled: AtomicU64,
    /// Calls that ended and were not counted at all.
    pub(crate) unmeasured: AtomicU64,
    /// Of these, the ones with another call of the same mark around them.
    pub(crate) unmeasured_nested: AtomicU64,
    /// Of the first event: the mark's open calls that ended on other threads. Any thread may write it.
    pub(crate) elsewhere: AtomicU64,
    pub(crate) event: EventId,
    /// What the probe costs in this event, and how far that varies.
    pub(crate) probe: ProbeCells,
}

/// Sums over calls that are in no distribution. They wrap, as they are signed.
#[derive(Debug, Default)]
pub(crate) struct SideSums {
    /// Over calls with no other call of the same mark around them.
    total: AtomicU64,
    /// Without what marked calls inside cost.
    own: AtomicU64,
}

impl SideSums {
    /// Adds a call's cost, and its cost without marked calls inside. Only the thread that owns the cells may call it.
    pub(crate) fn add(&self, net: u64, own: u64, is_nested: bool) {
        if !is_nested {
            add(&self.total, net);
        }
        add(&self.own, own);
    }

    fn load(&self) -> InclusiveSelf {
        let sum = |cell: &AtomicU64| i128::from(cell.load(Relaxed).cast_signed());
        InclusiveSelf { total: sum(&self.total), own: sum(&self.own) }
    }
}

/// A total, in which calls inside recursive ones do not count again, and the part of it that is not of marked calls
/// inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InclusiveSelf {
    pub(crate) total: i128,
    pub(crate) own: i128,
}

impl InclusiveSelf {
    pub(crate) fn add(&mut self, other: Self, weight: u32) {
        self.total = self.total.saturating_add(other.total.saturating_mul(weight.into()));
        self.own = self.own.saturating_add(other.own.saturating_mul(weight.into()));
    }
}

/// What an open call cost so far in one event, weighted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCall {
    /// The mark's index.
    pub(crate) mark: u32,
    pub(crate) event: EventId,
    pub(crate) sums: InclusiveSelf,
}

/// What a mark's probe costs in one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probe {
    /// What it sees of itself: taken off each call.
    pub(crate) own: u64,
    /// What its caller sees of it: taken off the marked calls around.
    pub(crate) whole: u64,
    /// How far `own` varies: what is left of an empty call, in nine cases of ten.
    pub(crate) noise: u64,
    /// Whether it could not be measured: then nothing is taken off.
    pub(crate) is_unknown: bool,
}

/// The same on one thread; a cost of 2^32 and more, which none is, as one less.
#[derive(Debug, Default)]
pub(crate) struct ProbeCells {
    own: AtomicU32,
    whole: AtomicU32,
    noise: AtomicU32,
    is_unknown: AtomicBool,
}

impl ProbeCells {
    pub(crate) fn set(&self, probe: Probe) {
        for (cell, value) in [(&self.own, probe.own), (&self.whole, probe.whole), (&self.noise, probe.noise)] {
            cell.store(u32::try_from(value).unwrap_or(u32::MAX), Relaxed);
        }
        self.is_unknown.store(probe.is_unknown, Relaxed);
    }

    /// The larger of each.
    fn max(&self, other: Probe) -> Probe {
        let larger = |cell: &AtomicU32, other: u64| u64::from(cell.load(Relaxed)).max(other);
        Probe {
            own: larger(&self.own, other.own),
            whole: larger(&self.whole, other.whole),
            noise: larger(&self.noise, other.noise),
            is_unknown: self.is_unknown.load(Relaxed) || other.is_unknown,
        }
    }
}

impl EventCells {
    pub(crate) fn new(event: EventId) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            values: Cells::new(),
            nested: zero(),
            inside: zero(),
            scaled: zero(),
            unmeasured: zero(),
            unmeasured_nested: zero(),
            stood_in: SideSums::default(),
            imputed: zero(),
            means: [zero(), zero()],
            unwound: SideSums::default(),
            elsewhere: zero(),
            event,
            probe: ProbeCells::default(),
        }
    }
}

impl EventCells {
    /// Forgets all calls. Nobody else looks at them.
    fn clear(&self) {
        let Self { nested, inside, stood_in, imputed, means: [net, own], unwound, scaled, .. } = self;
        let Self { unmeasured, unmeasured_nested, elsewhere, .. } = self;
        self.values.clear();
        for cell in [nested, inside, imputed, net, own, scaled, unmeasured, unmeasured_nested, elsewhere] {
            cell.store(0, Relaxed);
        }
        for cell in [stood_in, unwound].into_iter().flat_map(|sums| [&sums.total, &sums.own]) {
            cell.store(0, Relaxed);
        }
    }

    /// Whether calls were made inside others of the mark.
    fn has_nested(&self) -> bool {
        [&self.nested, &self.unmeasured_nested].iter().any(|cell| cell.load(Relaxed) != 0)
    }

    /// As [`MarkCells::add_unmeasured`], for this event.
    pub(crate) fn add_unmeasured(&self, calls: u64, nested: bool) {
        add(&self.unmeasured, calls);
        if nested {
            add(&self.unmeasured_nested, calls);
        }
    }

    /// Adds to the sums the mean of the calls measured before on this thread, in place of a call that was not counted.
    /// If there are none, it adds nothing. Returns the mean without marked calls inside. To be called before the call
    /// is [added](Self::add_unmeasured).
    pub(crate) fn stand_in(&self, is_nested: bool) -> u64 {
        /// The mean is taken anew every so many calls, as it takes a walk over the histogram.
        const FRESH: u64 = 64;
        let [net, own] = &self.means;
        if net.load(Relaxed) == 0 || self.unmeasured.load(Relaxed).is_multiple_of(FRESH) {
            let (calls, sum) = self.values.so_far();
            if calls == 0 {
                return 0;
            }
            let mean = |sum: u64| sum.cast_signed().checked_div(calls.cast_signed()).map_or(0, i64::cast_unsigned);
            net.store(mean(sum), Relaxed);
            own.store(mean(sum.wrapping_sub(self.inside.load(Relaxed))), Relaxed);
        }
        let own = own.load(Relaxed);
        add(&self.imputed, 1);
        // Of a recursive function an inner call is not like an outer one.
        self.stood_in.add(net.load(Relaxed), own, is_nested || self.has_nested());
        own
    }

    /// Total and self of the measured calls.
    fn measured(&self, sum: i128) -> InclusiveSelf {
        let without = |part: &AtomicU64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low bits")]
            let low = (sum as u64).wrapping_sub(part.load(Relaxed));
            // Nearer to the middle than 2^63, as long as the sum is.
            whole(low, sum / 2)
        };
        InclusiveSelf { total: without(&self.nested), own: without(&self.inside) }
    }
}

/// One mark's figures on one thread.
#[derive(Debug)]
pub(crate) struct MarkCells {
    pub(crate) events: Box<[EventCells]>,
    /// Calls begun and not ended; of calls that are made of polls, the polls.
    pub(crate) open: AtomicU64,
    /// Where a call is made of polls: those that did not end it.
    pub(crate) pending: AtomicU64,
    /// Calls that were suspended here, without those that went on here. It wraps, as a call may go on elsewhere.
    pub(crate) suspended: AtomicU64,
    /// Calls that a panic ended.
    pub(crate) unwound: AtomicU64,
    /// Calls that were not to be measured.
    pub(crate) skipped: AtomicU64,
    /// Calls, measured in every event, whose self is an estimate, as calls were skipped or stood in for inside them.
    pub(crate) estimated: AtomicU64,
    /// A measured call counts as so many: one in so many is measured.
    pub(crate) weight: u32,
    pub(crate) mark: &'static Mark,
    /// Events that the mark is to record, and that this thread has not: its calls are unmeasured in these.
    missing: Box<[EventId]>,
}

impl MarkCells {
    pub(crate) fn new(mark: &'static Mark, events: Box<[EventCells]>, weight: u32) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            events,
            open: zero(),
            pending: zero(),
            suspended: zero(),
            unwound: zero(),
            skipped: zero(),
            estimated: zero(),
            weight,
            mark,
            missing: Box::default(),
        }
    }

    /// The same, where the thread has not these events.
    pub(crate) fn without(self, missing: Box<[EventId]>) -> Self {
        Self { missing, ..self }
    }

    /// Whether the thread has all events that the mark is to record.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Forgets all calls. Nobody else looks at them.
    fn clear(&self) {
        let Self { events, open, pending, suspended, unwound, skipped, estimated, .. } = self;
        events.iter().for_each(EventCells::clear);
        for cell in [open, pending, suspended, unwound, skipped, estimated] {
            cell.store(0, Relaxed);
        }
    }

    /// Notes calls that ended and were not counted in any event, and that had other calls of the mark around them if they are `nested`.
    pub(crate) fn add_unmeasured(&self, calls: u64, nested: bool) {
        for cells in &self.events {
            cells.add_unmeasured(calls, nested);
        }
    }

    /// Whether a call has another one of its mark around it, if so many were open before it: not if these ended on
    /// other threads.
    pub(crate) fn is_nested(&self, before: u64) -> bool {
        before > self.elsewhere().map_or(0, |elsewhere| elsewhere.load(Relaxed))
    }

    /// Calls open here that ended on other threads. There is an event always.
    pub(crate) fn elsewhere(&self) -> Option<&AtomicU64> {
        self.events.first().map(|cells| &cells.elsewhere)
    }

    /// A call made of polls is suspended.
    pub(crate) fn suspend(&self) {
        add(&self.pending, 1);
        add(&self.suspended, 1);
    }

    /// Notes calls that were open and never ended. Of polls, the call may go on elsewhere.
    pub(crate) fn abandon(&self, calls: u64, nested: bool) {
        if !self.mark.manner.is_polled {
            self.add_unmeasured(calls, nested);
        }
    }

    /// Adds what is here to `totals`. The first event is written last: every call seen there is seen in the others, too.
    pub(crate) fn add_to(&self, totals: &mut Totals) {
        let (unwound, skipped) = (self.unwound.load(Relaxed), self.skipped.load(Relaxed));
        totals.unwound += unwound;
        totals.skipped += skipped;
        let elsewhere = self.elsewhere().map_or(0, |elsewhere| elsewhere.load(Relaxed));
        let open = self.open.load(Relaxed).saturating_sub(elsewhere);
        totals.in_flight = totals.in_flight.wrapping_add(open).wrapping_add(self.suspended.load(Relaxed));
        let (mut calls, weight) = (unwound + skipped, self.weight);
        for (n, cells) in self.events.iter().enumerate() {
            let unmeasured = cells.unmeasured.load(Relaxed);
            let figures = totals.event(cells.event);
            let (measured, sum) = cells.values.add_to(&mut figures.values, weight.into());
            figures.sums.add(cells.measured(sum), weight);
            figures.sums.add(cells.stood_in.load(), weight);
            figures.imputed += cells.imputed.load(Relaxed) * u64::from(weight);
            figures.unwound.add(cells.unwound.load(), weight);
            figures.measured += measured;
            figures.scaled += cells.scaled.load(Relaxed);
            figures.is_recursive |= cells.has_nested();
            figures.unmeasured_nested += cells.unmeasured_nested.load(Relaxed);
            figures.estimated += self.estimated.load(Relaxed);
            figures.probe = cells.probe.max(figures.probe);
            if n == 0 {
                calls += measured + unmeasured;
            }
            figures.is_had = true;
            figures.add_calls(calls, unwound, skipped);
        }
        for &event in &self.missing {
            let figures = totals.event(event);
            figures.add_calls(calls, unwound, skipped);
            figures.is_recursive |= self.events.iter().any(EventCells::has_nested);
        }
        totals.calls += calls;
        if self.mark.manner.is_polled {
            totals.polls += calls + self.pending.load(Relaxed);
        }
    }
}

/// What holds a mark's cells, and perhaps what else their owning thread keeps beside them, for itself.
pub(crate) trait Holds: Debug + Send + Sync {
    fn cells(&self) -> &MarkCells;
}

/// A thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owner {
    /// The kernel's number of it, which a later thread may get.
    pub(crate) id: u32,
    /// From 1 on, and no other's.
    pub(crate) number: u64,
}

impl Owner {
    /// This thread.
    pub(crate) fn new() -> Self {
        static NUMBERS: AtomicUsize = AtomicUsize::new(1);
        let number = NUMBERS.fetch_add(1, Relaxed) as u64;
        // SAFETY: it has no arguments, and always succeeds.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let id = unsafe { libc::gettid() }.cast_unsigned();
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let id = number as u32;
        Self { id, number }
    }
}

/// The figures of every mark that one thread called.
#[derive(Debug)]
pub(crate) struct ThreadCells {
    first: AtomicPtr<Node>,
    pub(crate) owner: Owner,
    /// Who was called under whom, where that is asked for.
    pub(crate) graph: Option<Graph>,
    /// Its calls that ended on other threads.
    pub(crate) switched: Switched,
    /// Where the owning thread's histograms and nodes are. Dropped after what points into it.
    pub(crate) arena: Arena,
}

#[derive(Debug)]
struct Node {
    /// Made by `Box::into_raw`, as the owner has a pointer of its own.
    holder: *const dyn Holds,
    next: *const Self,
}

// SAFETY: the list's nodes are written before they are published and never after, and what they hold is `Sync`; of the arena, only
// the owning thread takes pieces.
unsafe impl Sync for ThreadCells {}
// SAFETY: the same.
unsafe impl Send for ThreadCells {}

impl ThreadCells {
    pub(crate) fn new(owner: Owner, graph: Option<Graph>, switched: Switched) -> Self {
        Self { first: AtomicPtr::new(ptr::null_mut()), owner, graph, switched, arena: Arena::new() }
    }

    /// Adds a mark's cells. Only the owning thread may call it; the pointer is good as long as `self`.
    pub(crate) fn add<T: Holds + 'static>(&self, holder: T) -> *const T {
        let holder: *const T = Box::into_raw(Box::new(holder));
        let node = Box::new(Node { holder, next: self.first.load(Relaxed) });
        self.first.store(Box::into_raw(node), Release);
        holder
    }

    /// Forgets all calls, which were retired before: from now on these are the cells of another thread.
    pub(crate) fn give_to(&mut self, owner: Owner, switched: Switched) {
        self.iter().for_each(MarkCells::clear);
        (self.owner, self.switched) = (owner, switched);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &MarkCells> {
        // SAFETY: null, or a node that lives as long as the list.
        let deref = |node: *const Node| unsafe { node.as_ref() };
        // SAFETY: as the node.
        iter::successors(deref(self.first.load(Acquire)), move |node| deref(node.next))
            .map(|node| unsafe { &*node.holder }.cells())
    }
}

impl Drop for ThreadCells {
    fn drop(&mut self) {
        let mut next = self.first.load(Acquire).cast_const();
        while !next.is_null() {
            // SAFETY: both made by Box::into_raw in `add`; the owner is gone, and the node is reachable from here alone.
            let node = unsafe {
                let node = Box::from_raw(next.cast_mut());
                drop(Box::from_raw(node.holder.cast_mut()));
                node
            };
            next = node.next;
        }
    }
}

/// One mark's figures, merged over threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) calls: u64,
    pub(crate) unwound: u64,
    pub(crate) skipped: u64,
    pub(crate) polls: u64,
    /// It wraps where calls end on other threads than they began on.
    pub(crate) in_flight: u64,
    pub(crate) events: Vec<(EventId, Figures)>,
}

/// One event's figures over one mark's calls, merged over threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Of the measured calls, each counted as often as its weight says.
    pub(crate) values: Frozen,
    pub(crate) measured: u64,
    /// Over all calls: those measured, weighted, and those that were stood in for.
    pub(crate) sums: InclusiveSelf,
    /// Of these, the ones that were stood in for, weighted.
    pub(crate) imputed: u64,
    /// Over calls that a panic ended, or that were dropped, weighted; and over calls that go on.
    pub(crate) unwound: InclusiveSelf,
    pub(crate) in_flight: InclusiveSelf,
    /// Whether any thread had the event.
    pub(crate) is_had: bool,
    /// Whether calls were made inside one another.
    pub(crate) is_recursive: bool,
    /// Calls while the mark was to record the event; of these, the ones that were not to be measured, and those that a panic ended, too.
    pub(crate) calls: u64,
    pub(crate) skipped: u64,
    pub(crate) left_out: u64,
    pub(crate) scaled: u64,
    pub(crate) unmeasured_nested: u64,
    pub(crate) estimated: u64,
    pub(crate) probe: Probe,
}

impl Figures {
    fn add_calls(&mut self, calls: u64, unwound: u64, skipped: u64) {
        self.calls += calls;
        self.left_out += unwound + skipped;
        self.skipped += skipped;
    }
}

impl Totals {
    pub(crate) fn event(&mut self, id: EventId) -> &mut Figures {
        let at = self.events.iter().position(|(event, _)| *event == id).unwrap_or_else(|| {
            self.events.push((id, Figures::default()));
            self.events.len() - 1
        });
        &mut self.events[at].1
    }
}

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_not_counted_is_imputed_the_mean_of_those_before_if_there_are_any() {
        let (arena, cells) = (Arena::new(), EventCells::new(EventId::default()));
        cells.stand_in(false);
        cells.add_unmeasured(1, false);
        assert_eq!((cells.imputed.load(Relaxed), cells.stood_in.load()), (0, InclusiveSelf::default()));
        for value in [10, 30] {
            cells.values.grow(value, &arena).expect("memory").add();
            cells.values.add_to_sum(value);
        }
        add(&cells.inside, 8);
        for _ in 0..3 {
            cells.stand_in(false);
            cells.add_unmeasured(1, false);
        }
        assert_eq!((cells.imputed.load(Relaxed), cells.stood_in.load()), (3, InclusiveSelf { total: 60, own: 48 }));
    }
}
