//! The values that one thread records: written by it alone, readable by all.
#![allow(unsafe_code, reason = "readers walk a list while its owner adds to it")]

use std::any::Any;
use std::iter;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicPtr as StdAtomicPtr, AtomicUsize};

use super::graph::Graph;
use super::histogram::{Cells, Frozen, add, widened};
use super::switched::Switched;
use crate::compact::index_or_push;
use crate::platform::arena::Arena;
use crate::platform::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use crate::platform::thread_id::thread_id;
use crate::recording::events::EventId;
use crate::recording::mark::mark_settings::changes;
use crate::recording::mark::{Mark, entry};

/// One event's values over one mark's calls on one thread.
#[derive(Default)]
#[repr(C)]
pub(crate) struct EventCells {
    /// The histogram of measured calls. It is the first field, so that the fast path finds its rows without an
    /// addition.
    pub(crate) values: Cells,
    /// The sum over calls that are inside another call of the same mark.
    pub(crate) nested: AtomicU64,
    /// The sum of the costs of calls inside: measured ones, and an estimate for skipped ones. It wraps, as the sums
    /// below.
    pub(crate) inside: AtomicU64,
    /// What calls with those of thinned marks inside cost in bursts without calls inside, and the own cost of calls of
    /// thinned marks inside. Only the owner reads them.
    pub(crate) in_bursts: AtomicU64,
    pub(crate) thinned_inside: AtomicU64,
    /// The sums that were imputed for calls that were not counted, and the number of these calls.
    imputed_sums: SideSums,
    imputed: AtomicU64,
    /// The imputed cost of one call, with and without marked calls inside: the mean of the calls measured before it.
    means: [AtomicU64; 2],
    /// The cost of calls that a panic ended.
    pub(crate) unwound: SideSums,
    /// Of the measured calls, the number of scaled ones.
    pub(crate) scaled: AtomicU64,
    /// The number of calls that ended and were not counted at all.
    pub(crate) unmeasured: AtomicU64,
    /// Of these, the number of calls inside another call of the same mark.
    pub(crate) unmeasured_nested: AtomicU64,
    /// Used in the first event only: the number of the mark's open calls that ended on other threads. Any thread may
    /// write it.
    pub(crate) elsewhere: AtomicU64,
    pub(crate) event: EventId,
    /// If the values leave out calls in which the event counted nothing: the number of these at the last snapshot, else
    /// [`LEAVES_OUT_NONE`].
    zeroes: AtomicU64,
    /// The probe overhead in this event, and its variation.
    pub(crate) overhead: OverheadCells,
}

/// The larger sums. They are not added, because one of them may have begun as a copy of the other.
fn more_of(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    let sum = |[own, thinned]: [u64; 2]| own.wrapping_add(thinned).cast_signed();
    if sum(one) >= sum(other) { one } else { other }
}

/// Sums over calls that are in no distribution. They are signed and wrap.
#[derive(Debug, Default)]
pub(crate) struct SideSums {
    /// Over calls that are not inside another call of the same mark.
    total: AtomicU64,
    /// Without the cost of marked calls inside.
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

/// A total, in which the inner calls of a recursion do not count again, and a self, which is without marked calls
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

/// The cost of an open call in one event so far, weighted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCall {
    /// The mark's index.
    pub(crate) mark: u32,
    pub(crate) event: EventId,
    pub(crate) sums: InclusiveSelf,
}

/// A mark's probe overhead in one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overhead {
    /// The part inside the call's own readings: subtracted from each call.
    pub(crate) in_call: u64,
    /// All of it, which its caller measures: subtracted from the marked calls around it.
    pub(crate) total: u64,
    /// The variation of `in_call`: in nine cases of ten, at most this much remains of an empty call.
    pub(crate) noise: u64,
    /// That of a call that is skipped, which its caller measures.
    pub(crate) skipped: u64,
    /// Whether it could not be measured: nothing is then subtracted.
    pub(crate) is_unknown: bool,
}

/// A probe's overhead on one thread. A value of 2^32 or more, which does not occur, is stored as 2^32 - 1.
#[derive(Debug, Default)]
pub(crate) struct OverheadCells {
    in_call: AtomicU32,
    total: AtomicU32,
    noise: AtomicU32,
    skipped: AtomicU32,
    is_unknown: AtomicBool,
}

impl OverheadCells {
    pub(crate) fn set(&self, overhead: Overhead) {
        for (cell, value) in [
            (&self.in_call, overhead.in_call),
            (&self.total, overhead.total),
            (&self.noise, overhead.noise),
            (&self.skipped, overhead.skipped),
        ] {
            cell.store(u32::try_from(value).unwrap_or(u32::MAX), Relaxed);
        }
        self.is_unknown.store(overhead.is_unknown, Relaxed);
    }

    /// The overhead of so many measured calls, and so many skipped ones.
    fn of_calls(&self, measured: u64, skipped: u64) -> u64 {
        let of = |calls: u64, each: &AtomicU32| calls.saturating_mul(each.load(Relaxed).into());
        of(measured, &self.total).saturating_add(of(skipped, &self.skipped))
    }

    /// The larger of each.
    fn max(&self, other: Overhead) -> Overhead {
        let larger = |cell: &AtomicU32, other: u64| u64::from(cell.load(Relaxed)).max(other);
        Overhead {
            in_call: larger(&self.in_call, other.in_call),
            total: larger(&self.total, other.total),
            noise: larger(&self.noise, other.noise),
            skipped: larger(&self.skipped, other.skipped),
            is_unknown: self.is_unknown.load(Relaxed) || other.is_unknown,
        }
    }
}

/// The values leave out no call.
const LEAVES_OUT_NONE: u64 = u64::MAX;

/// A number beside which a smaller one has no fraction, since 1.5 times 2^52 has none in 64 bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

impl EventCells {
    pub(crate) fn new(event: EventId) -> Self {
        Self { event, zeroes: AtomicU64::new(LEAVES_OUT_NONE), ..Self::default() }
    }

    /// Cells of an event that counts nothing in most calls: these may be left out of its values.
    pub(crate) fn without_zeroes(self) -> Self {
        Self { zeroes: AtomicU64::new(0), ..self }
    }

    fn leaves_out_zeroes(&self) -> bool {
        self.zeroes.load(Relaxed) != LEAVES_OUT_NONE
    }

    /// The number of calls that the values leave out, if `ended` calls are in the mark's first event, which was read
    /// before, and so many are here.
    ///
    /// A call is counted here first. So while the owner adds calls, the difference is too small, but never too large.
    /// The largest one so far is the best: in the next snapshot, no number may be lower than in this one.
    fn left_out(&self, ended: u64, here: u64) -> u64 {
        if !self.leaves_out_zeroes() {
            return 0;
        }
        let zeroes = ended.saturating_sub(here);
        self.zeroes.fetch_max(zeroes, Relaxed).max(zeroes)
    }

    /// Forgets all calls. Nobody else may read them.
    fn clear(&self) {
        // Without `..`, so that no field is forgotten.
        let Self {
            values,
            nested,
            inside,
            in_bursts,
            thinned_inside,
            imputed_sums,
            imputed,
            means: [net, own],
            unwound,
            scaled,
            unmeasured,
            unmeasured_nested,
            elsewhere,
            event: _,
            zeroes,
            overhead: _,
        } = self;
        values.clear();
        if self.leaves_out_zeroes() {
            zeroes.store(0, Relaxed);
        }
        let sums = [nested, inside, in_bursts, thinned_inside, imputed, net, own];
        let counts = [scaled, unmeasured, unmeasured_nested, elsewhere];
        let side_sums = [imputed_sums, unwound].into_iter().flat_map(|sums| [&sums.total, &sums.own]);
        for cell in sums.into_iter().chain(counts).chain(side_sums) {
            cell.store(0, Relaxed);
        }
    }

    /// Whether calls were made inside other calls of the mark.
    fn has_nested(&self) -> bool {
        [&self.nested, &self.unmeasured_nested].iter().any(|cell| cell.load(Relaxed) != 0)
    }

    /// As [`MarkCells::add_unmeasured`], for this event.
    pub(crate) fn add_unmeasured(&self, calls: u64, nested: bool) {
        // A reader that sees these calls sees those that were counted in other events before.
        self.unmeasured.store(self.unmeasured.load(Relaxed).wrapping_add(calls), Release);
        if nested {
            add(&self.unmeasured_nested, calls);
        }
    }

    /// Imputes a call that was not counted. `so_far` returns the number of calls measured before, and their sum. See
    /// [`MarkCells::impute`].
    fn impute(&self, is_nested: bool, so_far: impl FnOnce() -> (u64, u64)) -> u64 {
        /// The mean is computed again after this many calls, because it requires reading the histogram.
        const FRESH: u64 = 64;
        let [net, own] = &self.means;
        if self.imputed.load(Relaxed) == 0 || self.unmeasured.load(Relaxed).is_multiple_of(FRESH) {
            let (calls, sum) = so_far();
            if calls == 0 {
                return 0;
            }
            let mean = |sum: u64| sum.cast_signed().checked_div(calls.cast_signed()).map_or(0, i64::cast_unsigned);
            net.store(mean(sum), Relaxed);
            own.store(mean(sum.wrapping_sub(self.inside.load(Relaxed))), Relaxed);
        }
        let own = own.load(Relaxed);
        add(&self.imputed, 1);
        // In a recursive function, an inner call does not cost the same as an outer one.
        self.imputed_sums.add(net.load(Relaxed), own, is_nested || self.has_nested());
        own
    }

    /// Adds what a call cost in bursts without calls inside, and the own cost of calls of thinned marks inside.
    #[inline]
    pub(crate) fn add_in_bursts(&self, own: u64, thinned: u64) {
        add(&self.in_bursts, own);
        add(&self.thinned_inside, thinned);
    }

    /// What [`add_in_bursts`](Self::add_in_bursts) added.
    fn in_bursts(&self) -> [u64; 2] {
        [&self.in_bursts, &self.thinned_inside].map(|sum| sum.load(Relaxed))
    }

    /// Begins with what other cells of the mark and the event learned in bursts, unless these cells know more.
    fn learn(&self, in_bursts: [u64; 2]) {
        let [own, thinned] = more_of(self.in_bursts(), in_bursts);
        self.in_bursts.store(own, Relaxed);
        self.thinned_inside.store(thinned, Relaxed);
    }

    /// The part of a call's cost that calls skipped inside it cost. In gaps between bursts, the call cost `in_gaps`
    /// without measured calls inside, and those of thinned marks among these cost `beside`. The part of thinned marks
    /// in both together is taken to be the same as in bursts, of this call and those before it. In a single call, the
    /// estimate may be negative; otherwise the sum over all calls would be too large.
    #[inline]
    pub(crate) fn of_skipped(&self, in_gaps: u64, beside: u64, own: u64, thinned: u64) -> u64 {
        let cost = |cost: u64| cost.cast_signed().max(0) as f64;
        let sum = |cell: &AtomicU64, of_call: u64| cost(cell.load(Relaxed).wrapping_add(of_call));
        let (own, thinned) = (sum(&self.in_bursts, own), sum(&self.thinned_inside, thinned));
        let beside = cost(beside);
        // Without a branch, so that it always takes equally long. If there was no burst, it is 0: that of no number.
        let of_skipped = (cost(in_gaps) + beside) * (thinned / (own + thinned)) - beside;
        // Rounded, because the sum over many calls of a few events each would otherwise be too small.
        #[expect(clippy::cast_possible_truncation, reason = "from `-beside` to `in_gaps`")]
        let of_skipped = ((of_skipped + ROUND) - ROUND) as i64;
        of_skipped.cast_unsigned()
    }

    /// Total and self of the measured calls, whose sum this is.
    fn measured(&self, sum: i128) -> InclusiveSelf {
        let without = |part: &AtomicU64| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low bits")]
            let low = (sum as u64).wrapping_sub(part.load(Relaxed));
            // It is nearer to half of the sum than 2^63, as long as the sum fits.
            widened(low, sum / 2)
        };
        InclusiveSelf { total: without(&self.nested), own: without(&self.inside) }
    }
}

/// One mark's values on one thread.
pub(crate) struct MarkCells {
    pub(crate) events: Box<[EventCells]>,
    /// The number of calls in flight; for calls that consist of polls, of polls.
    pub(crate) open: AtomicU64,
    /// The number of polls that did not end their call.
    pub(crate) pending: AtomicU64,
    /// The number of calls that were suspended here minus those that were resumed here. It wraps, because a call may be
    /// resumed on another thread.
    pub(crate) suspended: AtomicU64,
    /// The number of calls that a panic ended.
    pub(crate) unwound: AtomicU64,
    /// The number of calls that `every` or a budget skipped, without those that the marked function skipped itself.
    pub(crate) skipped: AtomicU64,
    /// The count of these; null without one.
    skipped_by_function: StdAtomicPtr<AtomicI64>,
    /// The number of calls, measured in every event, whose self is an estimate because calls inside them were skipped.
    pub(crate) estimated: AtomicU64,
    /// The number of calls that a measured call counts as: one in so many is measured.
    pub(crate) weight: u32,
    /// Whether calls are measured in bursts only.
    pub(crate) is_thinned: bool,
    pub(crate) mark: &'static Mark,
    /// Events that the mark records and that this thread does not have: its calls are unmeasured in these.
    pub(crate) missing: Box<[EventId]>,
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
            skipped_by_function: StdAtomicPtr::new(ptr::null_mut()),
            estimated: zero(),
            weight,
            is_thinned: false,
            mark,
            missing: Box::default(),
        }
    }

    /// The number of calls that `every` or a budget skipped.
    pub(crate) fn all_skipped(&self) -> u64 {
        // SAFETY: null, or `count_skipped_in` requires that it lives as long as the cells.
        let count = unsafe { self.skipped_by_function.load(Acquire).as_ref() };
        self.skipped.load(Relaxed) + count.map_or(0, entry::skipped_in)
    }

    /// Adds the calls that the marked function skips to those that are counted here.
    ///
    /// # Safety
    ///
    /// The count lives as long as the cells.
    pub(crate) unsafe fn count_skipped_in(&self, count: &AtomicI64) {
        self.skipped_by_function.store(ptr::from_ref(count).cast_mut(), Release);
    }

    /// Whether the thread has all events that the mark records.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Forgets all calls. Nobody else may read them.
    fn clear(&self) {
        // Without `..`, so that no field is forgotten. Cells of thinned marks are not reused.
        let Self {
            events,
            open,
            pending,
            suspended,
            unwound,
            skipped,
            skipped_by_function: _,
            estimated,
            weight: _,
            is_thinned: _,
            mark: _,
            missing: _,
        } = self;
        events.iter().for_each(EventCells::clear);
        for cell in [open, pending, suspended, unwound, skipped, estimated] {
            cell.store(0, Relaxed);
        }
    }

    /// Counts calls that ended and were not counted in any event. `nested` calls are inside other calls of the mark.
    pub(crate) fn add_unmeasured(&self, calls: u64, nested: bool) {
        for cells in self.events.iter().rev() {
            cells.add_unmeasured(calls, nested);
        }
    }

    /// The number of calls measured in event `n`, and the low 64 bits of their sum; for the thread that writes.
    pub(crate) fn so_far(&self, n: usize) -> (u64, u64) {
        let [first, cells] = [0, n].map(|n| &self.events[n]);
        let (measured, sum) = cells.values.so_far();
        if !cells.leaves_out_zeroes() {
            return (measured, sum);
        }
        let ended = first.values.so_far().0 + first.unmeasured.load(Relaxed);
        (ended.saturating_sub(cells.unmeasured.load(Relaxed)), sum)
    }

    /// Imputes a call that was not counted in event `n`: adds the mean of the calls measured before on this thread to
    /// the sums. If there are none, it adds nothing. Returns the mean without marked calls inside. It must be called
    /// before the call is [added](EventCells::add_unmeasured).
    pub(crate) fn impute(&self, n: usize, is_nested: bool) -> u64 {
        self.events[n].impute(is_nested, || self.so_far(n))
    }

    /// Whether a call is inside another one of its mark, if `before` calls were open before it. Calls that ended on
    /// other threads do not count.
    pub(crate) fn is_nested(&self, before: u64) -> bool {
        before > self.elsewhere().map_or(0, |elsewhere| elsewhere.load(Relaxed))
    }

    /// The number of calls open here that ended on other threads. `None` for those of skipped calls, which have no
    /// event.
    pub(crate) fn elsewhere(&self) -> Option<&AtomicU64> {
        self.events.first().map(|cells| &cells.elsewhere)
    }

    /// Counts a suspended call, which consists of polls.
    pub(crate) fn suspend(&self) {
        add(&self.pending, 1);
        add(&self.suspended, 1);
    }

    /// Counts open calls that never ended. A call that consists of polls may be resumed on another thread.
    pub(crate) fn abandon(&self, calls: u64, nested: bool) {
        if !self.mark.mode.is_polled {
            self.add_unmeasured(calls, nested);
        }
    }

    /// Begins other cells of the mark on the same thread with what these learned in bursts.
    pub(crate) fn teach(&self, other: &Self) {
        other.learn(|id| self.events.iter().find(|cells| cells.event == id).map(EventCells::in_bursts));
    }

    /// Begins with what other cells of the mark learned in bursts.
    pub(crate) fn learn(&self, in_bursts: impl Fn(EventId) -> Option<[u64; 2]>) {
        for cells in &self.events {
            if let Some(in_bursts) = in_bursts(cells.event) {
                cells.learn(in_bursts);
            }
        }
    }

    /// Adds these cells to `totals`. The first event is written last: every call that is visible there is visible in
    /// the others, too.
    pub(crate) fn add_to(&self, totals: &mut Totals) {
        let (unwound, skipped) = (self.unwound.load(Relaxed), self.all_skipped());
        totals.unwound += unwound;
        totals.skipped += skipped;
        let elsewhere = self.elsewhere().map_or(0, |elsewhere| elsewhere.load(Relaxed));
        let open = self.open.load(Relaxed).saturating_sub(elsewhere);
        totals.in_flight = totals.in_flight.wrapping_add(open);
        totals.suspended = totals.suspended.wrapping_add(self.suspended.load(Relaxed));
        // Those that are counted in events.
        let (mut ended, now) = (0, changes());
        for (n, cells) in self.events.iter().enumerate() {
            let unmeasured = cells.unmeasured.load(Acquire);
            let of_event = totals.event(cells.event);
            let (mut measured, sum) = cells.values.add_to(&mut of_event.values, self.weight.into());
            of_event.sums.add(cells.measured(sum), self.weight);
            of_event.sums.add(cells.imputed_sums.load(), self.weight);
            of_event.imputed += cells.imputed.load(Relaxed) * u64::from(self.weight);
            of_event.unwound.add(cells.unwound.load(), self.weight);
            if n == 0 {
                ended = measured + unmeasured;
            } else {
                let zeroes = cells.left_out(ended, measured + unmeasured);
                of_event.values.add_zeroes(zeroes.saturating_mul(self.weight.into()));
                measured += zeroes;
            }
            of_event.measured += measured;
            of_event.scaled += cells.scaled.load(Relaxed);
            of_event.is_recursive |= cells.has_nested();
            of_event.unmeasured_nested += cells.unmeasured_nested.load(Relaxed);
            of_event.estimated += self.estimated.load(Relaxed);
            of_event.overhead = cells.overhead.max(of_event.overhead);
            let cost = cells.overhead.of_calls(measured + unwound, skipped);
            of_event.cost_of_probes = of_event.cost_of_probes.saturating_add(cost);
            let (changes, known) = of_event.in_bursts;
            let new = if changes == now { more_of(known, cells.in_bursts()) } else { cells.in_bursts() };
            of_event.in_bursts = (now, new);
            of_event.is_had = true;
            of_event.add_calls(ended + unwound + skipped, unwound, skipped);
        }
        let calls = ended + unwound + skipped;
        for &event in &self.missing {
            let of_event = totals.event(event);
            of_event.add_calls(calls, unwound, skipped);
            of_event.is_recursive |= self.events.iter().any(EventCells::has_nested);
        }
        totals.calls += calls;
        if self.mark.mode.is_polled {
            totals.polls += calls + self.pending.load(Relaxed);
        }
    }
}

/// An owner of a mark's cells, perhaps with data that only the owning thread uses.
pub(crate) trait Holds: Send + Sync {
    fn cells(&self) -> &MarkCells;
}

/// A thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owner {
    /// The kernel's number, which a later thread may get.
    pub(crate) id: u32,
    /// A unique number, from 1 on.
    pub(crate) number: u64,
}

impl Owner {
    /// This thread.
    pub(crate) fn new() -> Self {
        static NUMBERS: AtomicUsize = AtomicUsize::new(1);
        let number = NUMBERS.fetch_add(1, Relaxed) as u64;
        Self { id: thread_id(), number }
    }
}

/// The cells of every mark that one thread called.
pub(crate) struct ThreadCells {
    first: AtomicPtr<Node>,
    pub(crate) owner: Owner,
    /// The call graph, if it is recorded.
    pub(crate) graph: Option<Graph>,
    /// Its calls that ended on other threads.
    pub(crate) switched: Switched,
    /// The memory of the owning thread's histograms and nodes. It is dropped after the fields that point into it.
    pub(crate) arena: Arena,
    /// The memory of the thread's recorder, to which marks' cells refer. It is dropped last.
    _memory: Option<Box<dyn Any>>,
}

struct Node {
    /// From `Box::into_raw`, because the owner also has a pointer.
    holder: *const dyn Holds,
    next: *const Self,
}

// SAFETY: the list's nodes are written before they are published and never afterwards, and their holders are `Sync`; of
// the arena, only the owning thread takes pieces; the recorder's memory is only dropped.
unsafe impl Sync for ThreadCells {}
// SAFETY: the last owner drops nodes and holders, which are `Send`, and memory that no thread uses then; any thread may
// do so.
unsafe impl Send for ThreadCells {}

impl ThreadCells {
    /// Empty cells with this call graph, and what they keep alive, of a thread that has no [owner](Self::give_to) yet.
    pub(crate) fn new(graph: Option<Graph>, memory: Option<Box<dyn Any>>) -> Self {
        Self {
            first: AtomicPtr::new(ptr::null_mut()),
            owner: Owner::default(),
            graph,
            switched: Switched::new(0),
            arena: Arena::new(),
            _memory: memory,
        }
    }

    /// Adds a mark's cells. Only the owning thread may call it; the pointer is valid as long as `self`.
    pub(crate) fn add<T: Holds + 'static>(&self, holder: T) -> *const T {
        let holder: *const T = Box::into_raw(Box::new(holder));
        let node = Box::new(Node { holder, next: self.first.load(Relaxed) });
        self.first.store(Box::into_raw(node), Release);
        holder
    }

    /// Forgets all calls, which were retired before, and makes these the cells of another thread.
    pub(crate) fn give_to(&mut self, owner: Owner, switched: Switched) {
        self.iter().for_each(MarkCells::clear);
        (self.owner, self.switched) = (owner, switched);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &MarkCells> {
        // SAFETY: null, or a node that lives as long as the list.
        let deref = |node: *const Node| unsafe { node.as_ref() };
        // SAFETY: a holder lives as long as its node.
        iter::successors(deref(self.first.load(Acquire)), move |node| deref(node.next))
            .map(|node| unsafe { &*node.holder }.cells())
    }
}

impl Drop for ThreadCells {
    fn drop(&mut self) {
        let mut next = self.first.load(Acquire).cast_const();
        while !next.is_null() {
            // SAFETY: both made by Box::into_raw in `add`; the owner is gone, and the node is reachable from here
            // alone.
            let node = unsafe {
                let node = Box::from_raw(next.cast_mut());
                drop(Box::from_raw(node.holder.cast_mut()));
                node
            };
            next = node.next;
        }
    }
}

/// One mark's values, merged over threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) calls: u64,
    pub(crate) unwound: u64,
    pub(crate) skipped: u64,
    pub(crate) polls: u64,
    /// The calls that are open on threads, and those that were suspended and not resumed or dropped. Both wrap if calls
    /// end or are resumed on other threads.
    pub(crate) in_flight: u64,
    pub(crate) suspended: u64,
    pub(crate) events: Vec<(EventId, EventTotals)>,
}

/// One event's values over one mark's calls, merged over threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventTotals {
    /// The histogram of the measured calls, each counted with its weight.
    pub(crate) values: Frozen,
    pub(crate) measured: u64,
    /// The sums over all measured and imputed calls, weighted.
    pub(crate) sums: InclusiveSelf,
    /// The number of imputed calls among the sums, weighted.
    pub(crate) imputed: u64,
    /// The sums over calls that a panic ended or that were dropped, and over calls in flight, weighted.
    pub(crate) unwound: InclusiveSelf,
    pub(crate) in_flight: InclusiveSelf,
    /// Whether any thread had the event.
    pub(crate) is_had: bool,
    /// Whether calls were nested.
    pub(crate) is_recursive: bool,
    /// The number of calls while the mark recorded the event. Of these, `skipped` were skipped; `left_out`
    /// also includes those that a panic ended.
    pub(crate) calls: u64,
    pub(crate) skipped: u64,
    pub(crate) left_out: u64,
    pub(crate) scaled: u64,
    pub(crate) unmeasured_nested: u64,
    pub(crate) estimated: u64,
    pub(crate) overhead: Overhead,
    /// The probe overhead of all calls, also of skipped ones.
    pub(crate) cost_of_probes: u64,
    /// What cells of a thread have [learned in bursts](EventCells::in_bursts), after so many changes of settings.
    in_bursts: (u32, [u64; 2]),
}

impl EventTotals {
    fn add_calls(&mut self, calls: u64, unwound: u64, skipped: u64) {
        self.calls += calls;
        self.left_out += unwound + skipped;
        self.skipped += skipped;
    }
}

impl Totals {
    /// What cells of a thread have [learned in bursts](EventCells::in_bursts) with the settings in force.
    pub(crate) fn in_bursts(&self, id: EventId) -> Option<[u64; 2]> {
        let (_, of_event) = self.events.iter().find(|(event, _)| *event == id)?;
        Some(of_event.in_bursts.1).filter(|_| of_event.in_bursts.0 == changes())
    }

    pub(crate) fn event(&mut self, id: EventId) -> &mut EventTotals {
        let at = index_or_push(&mut self.events, |(event, _)| *event == id, || (id, EventTotals::default()));
        &mut self.events[at].1
    }
}

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_ends_while_its_cells_are_read_counts_once_in_an_event_that_counted_nothing_before() {
        static MARK: Mark = Mark::hidden(0);
        let arena = Arena::new();
        let count = |cells: &EventCells, value| {
            cells.values.grow(value, &arena).expect("memory").add();
            cells.values.add_to_sum(value);
        };
        let known = crate::recording::events::events().expect("memory");
        let [time, off_cpu] = ["time", "off_cpu"].map(|name| known.id(&crate::settings::EventSpec::parse(name)));
        let cells = [EventCells::new(time), EventCells::new(off_cpu).without_zeroes()];
        let cells = MarkCells::new(&MARK, cells.into(), 3);
        let measured = || {
            let mut totals = Totals::default();
            cells.add_to(&mut totals);
            [time, off_cpu].map(|event| totals.event(event).measured)
        };
        (0..10).for_each(|_| count(&cells.events[0], 20));
        assert_eq!(measured(), [10, 10]);
        // It is here already, and in the first event not yet.
        count(&cells.events[1], 8);
        assert_eq!(measured(), [10, 11]);
        count(&cells.events[0], 20);
        assert_eq!(measured(), [11, 11]);
    }

    #[test]
    fn what_a_mark_took_includes_its_skipped_calls_at_what_each_took_in_its_cells() {
        static MARK: Mark = Mark::hidden(0);
        let (mut totals, arena) = (Totals::default(), Arena::new());
        // In the second cells, skipped calls have frames, because they are sampled.
        for (skipped, each) in [(1_000, 3), (10, 60)] {
            let cells = MarkCells::new(&MARK, [EventCells::new(EventId::default())].into(), 1);
            cells.events[0].overhead.set(Overhead { total: 40, skipped: each, ..Overhead::default() });
            cells.events[0].values.grow(20, &arena).expect("memory").add();
            cells.skipped.store(skipped, Relaxed);
            cells.add_to(&mut totals);
        }
        assert_eq!(totals.event(EventId::default()).cost_of_probes, 2 * 40 + 1_000 * 3 + 10 * 60);
    }

    #[test]
    fn the_cost_of_skipped_calls_is_rounded_so_that_few_events_are_not_lost() {
        let cells = EventCells::new(EventId::default());
        cells.add_in_bursts(49, 64);
        // 7.93 of 14, 4.53 of 8, and all of a gap without own cost.
        assert_eq!([14, 8, 0].map(|in_gaps| cells.of_skipped(in_gaps, 0, 0, 0)), [8, 5, 0]);
        let (of_long, expected) = (cells.of_skipped(1 << 60, 0, 0, 0), (1_u64 << 60) / 113 * 64);
        assert!(of_long.abs_diff(expected) <= 1 << 10, "{of_long}, not {expected}");
        assert_eq!(cells.of_skipped(0, 10, 0, 0).cast_signed(), -4, "measured calls beside a burst cost 4 of these");
        assert_eq!(EventCells::new(EventId::default()).of_skipped(14, 0, 0, 0), 0, "nothing is known yet");
    }
}
