//! The call stack of a thread: one frame for each open call, in bounded memory.
//!
//! Frames are on this stack and not in the guards. A guard holds only the serial number of its frame. A guard that is
//! dropped late, out of order or in a forked child finds that its frame is gone. The frame of a guard that was
//! forgotten is removed when a call below it ends.
//!
//! All frames have one size, with room for the few events that nearly all marks have. A call with more events takes
//! several blocks of that size; the topmost block is its frame.
//!
//! Code elsewhere refers to two invariants of this file by name:
//!
//! - FRAMES: the memory of a thread's frames, including all blocks, is mapped until the thread ends. Only a [`Stack`]
//!   makes a [`FrameRef`], and it cannot leave its thread. Therefore a `FrameRef` may be read at any time.
//! - ZEROES: in a block that belongs to no open call, `inner_cost`, `inner_overhead` and `inner_early` are zero, and
//!   so is `inner_count`, unless the thread has thinned marks. So are `unthinned` and `unthinned_calls`. Therefore
//!   entry does not write them, and exit writes them only if there were inner calls.
//!
//! An inner call is a marked call inside another one, directly or not. A caller has inner calls, and a leaf has none.
#![allow(unsafe_code, reason = "frames are found by pointers into one mapping")]

use std::array;
use std::cell::Cell;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use perfmark_rdpmc::{Delta, Region};

use super::call_token::{PANICKING, SERIAL, Token};
use super::memory;
use super::plan::Plan;
use crate::recording::cells::{CALLS, Node, ROOM};
use crate::recording::recorder::event_slots::EVENT_SLOTS;

/// Events that fit into one block.
pub(crate) const FRAME_EVENTS: usize = 4;

/// Frames begin within this many bytes. The kernel provides memory only for those that were ever in use.
const STACK_BYTES: usize = 1 << 19;

/// The alignment of the frames' memory. With it, one bit of an address shows that a frame would be beyond that memory.
pub(crate) const STACK_ALIGNMENT: usize = 2 * STACK_BYTES;

/// The most frames that a thread can have.
const MAX_FRAMES: usize = STACK_BYTES.div_ceil(size_of::<Frame>());

const _: () = assert!(MAX_FRAMES <= ROOM);

/// The number of blocks below the frame of a call with this many events.
fn extra_blocks(events: usize) -> usize {
    events.saturating_sub(1) / FRAME_EVENTS
}

/// The state of one open call.
#[repr(C, align(64))]
pub(crate) struct Frame {
    plan: Cell<*const Plan>,
    /// The call's token, possibly with [`PANICKING`].
    pub(crate) serial: Cell<u64>,
    /// The number of calls of the mark that were open when this one began.
    pub(crate) open_before: Cell<u64>,
    below: Cell<*const Self>,
    /// The sum of the page locks of the call's counters at entry, or [`LOCKS_SPLIT`].
    pub(crate) locks: Cell<u64>,
    /// For each event, the counter's bits or the ticks at entry: the first part of its [`Region`].
    pub(crate) begun: [Cell<u64>; FRAME_EVENTS],
    /// [`inner_callers`](Self::inner_callers). If the thread has thinned marks,
    /// [`skipped_before`](Self::skipped_before).
    inner_count: Cell<u64>,
    /// Of the inner calls that ended, the number left by `return` or `?`.
    pub(crate) inner_early: Cell<u64>,
    /// The call's node in the call graph; of a skipped call, that of the call around. Null without a call graph.
    pub(crate) node: Cell<*const Node>,
    /// For each event, one of these:
    /// - from entry to exit, in a frame with [`LOCKS_SPLIT`]: the second part of its [`Region`], which is the lock of
    ///   the counter's page, or the reason why there is none;
    /// - in another frame: [`spare`](Self::spare);
    /// - after [`set_counted`](FrameRef::set_counted): the kind of the value in `begun`;
    /// - after [`set_poll_cost`](Self::set_poll_cost): the cost of inner calls.
    aux: [Cell<u64>; FRAME_EVENTS],
    region_times: [[Cell<u64>; 2]; FRAME_EVENTS],
    /// The cost of the inner calls that ended, for each event slot of the thread. It wraps.
    pub(crate) inner_cost: [Cell<u64>; EVENT_SLOTS],
    /// The probe overhead of those calls for each event slot, if the thread tracks overhead.
    pub(crate) inner_overhead: [Cell<u64>; EVENT_SLOTS],
}

/// The data of a frame that few calls need, in memory of its own: those in which a burst began or ended, those with
/// calls inside of marks that are not thinned, and those with a sample.
#[repr(C, align(8))]
pub(crate) struct Split {
    /// The burst whose begin was noted in this call, and whose end was not; or 0.
    burst: Cell<u64>,
    /// Without a call graph: the node of the call's path in notes.
    noted: Cell<*const Node>,
    /// For each event, at that begin: the call's cost without inner calls, or [`UNKNOWN`]; and the
    /// [own cost of thinned marks](FrameRef::thinned_inside) inside.
    at_begin: [[Cell<u64>; FRAME_EVENTS]; 2],
    /// The same in bursts that ended.
    in_bursts: [[Cell<u64>; FRAME_EVENTS]; 2],
    /// For each event slot: the part of `inner_cost` that comes from calls of marks that are not thinned. It includes
    /// all calls inside these. It wraps.
    unthinned: [Cell<u64>; EVENT_SLOTS],
    /// The number of those calls. It wraps.
    unthinned_calls: Cell<u64>,
    /// Makes the size three quarters of a frame's: see [`split_of`](memory::split_of).
    _padding: [u64; 7],
}

/// A split takes so many quarters of the size of a frame.
pub(crate) const SPLIT_QUARTERS: usize = 3;

const _: () = assert!(size_of::<Split>() * 4 == size_of::<Frame>() * SPLIT_QUARTERS);

/// The largest negative number, which no cost is.
const UNKNOWN: u64 = 1 << 63;

/// One for each frame.
pub(crate) type SplitSpace = [Split; MAX_FRAMES];

/// The bits of the number of skipped calls. Those above are flags: see [`Frame::skipped_inside`].
pub(crate) const SKIPPED: u64 = UNRECORDED - 1;
/// A call of a thinned mark that is in no cells: a recorded one around it requires its cost, or it comes before a
/// burst.
pub(crate) const UNRECORDED: u64 = 1 << 60;
/// A burst began or ended in this call, so it ends on the slow path.
pub(crate) const SPLIT: u64 = 1 << 61;

/// The locks are in `aux`, one for each event. No sum of locks has this value, so the call ends on the slow path.
pub(crate) const LOCKS_SPLIT: u64 = u64::MAX;

/// The memory of a thread's frames. The first frame is a sentinel, which collects the cost of outermost calls.
pub(crate) type FrameSpace = [Frame; MAX_FRAMES];

/// A frame on this thread's stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameRef(NonNull<Frame>);

impl Deref for FrameRef {
    type Target = Frame;

    #[inline]
    fn deref(&self) -> &Frame {
        // SAFETY: FRAMES: every reference is to a frame in mapped memory, and all of its fields are cells.
        unsafe { self.0.as_ref() }
    }
}

impl FrameRef {
    /// The frame at this address, which is at most [`STACK_BYTES`] above a stack's bottom. `None` beyond its memory.
    #[inline]
    fn within(frame: *const Frame) -> Option<Self> {
        // SAFETY: FRAMES: it is within the stack's memory, and not null because it is above another frame.
        (frame.addr() & STACK_BYTES == 0).then(|| Self(unsafe { NonNull::new_unchecked(frame.cast_mut()) }))
    }

    /// The plan of this open call. Not for the sentinel, which has none.
    #[inline]
    pub(crate) fn plan(&self) -> &Plan {
        // SAFETY: CELLS: `Stack::open` stored the pointer, and plans live as long as the recorder is used.
        unsafe { &*self.plan_ptr() }
    }

    /// The frame below this one: of a call, or the sentinel.
    #[inline]
    pub(crate) fn below(self) -> Self {
        // SAFETY: `Stack::open` and `Stack::retain` store the address of a frame there.
        Self(unsafe { NonNull::new_unchecked(self.below.get().cast_mut()) })
    }

    /// The block that holds event `n`, and the event's index in that block.
    fn block(&self, n: usize) -> (&Frame, usize) {
        // SAFETY: FRAMES: a call has as many adjacent blocks as its events need, and this one is the topmost.
        (unsafe { self.0.sub(n / FRAME_EVENTS).as_ref() }, n % FRAME_EVENTS)
    }

    #[inline]
    fn of_split(&self) -> &Split {
        // SAFETY: FRAMES: every frame is in the memory of a thread.
        unsafe { memory::split_of(self.0.as_ptr()).as_ref() }
    }

    /// Without a call graph: the node of the call's path in notes, if its samples are noted.
    pub(crate) fn noted(&self) -> &Cell<*const Node> {
        &self.of_split().noted
    }

    /// The burst that began in this call and has not ended; 0 if there is none.
    pub(crate) fn burst(self) -> u64 {
        if self.is_split() { self.of_split().burst.get() } else { 0 }
    }

    /// The entry state of event `n`, in a frame with [`LOCKS_SPLIT`].
    pub(crate) fn region(self, n: usize) -> Region {
        let (block, n) = self.block(n);
        let [enabled, running] = &block.region_times[n];
        Region::from_parts([block.begun[n].get(), block.aux[n].get(), enabled.get(), running.get()])
    }

    pub(crate) fn set_region(self, n: usize, region: Region) {
        let (block, n) = self.block(n);
        let [raw, aux, enabled, running] = region.parts();
        block.begun[n].set(raw);
        block.aux[n].set(aux);
        block.region_times[n][0].set(enabled);
        block.region_times[n][1].set(running);
    }

    /// The first part of event `n`'s region.
    pub(crate) fn raw(&self, n: usize) -> &Cell<u64> {
        let (block, n) = self.block(n);
        &block.begun[n]
    }

    /// Replaces the entry state of event `n` by what the event counted.
    pub(crate) fn set_counted(self, n: usize, counted: Delta) {
        let (raw, aux) = match counted {
            Delta::Exact(value) => (value, EXACT),
            Delta::Scaled { estimate, .. } => (estimate, SCALED),
            Delta::Unmeasured => (0, UNMEASURED),
        };
        let (block, n) = self.block(n);
        block.begun[n].set(raw);
        block.aux[n].set(aux);
    }

    /// What event `n` counted, and whether that is scaled. `None` if it is unmeasured or not read yet.
    pub(crate) fn counted(self, n: usize) -> Option<(u64, bool)> {
        let (block, n) = self.block(n);
        let aux = block.aux[n].get();
        matches!(aux, EXACT | SCALED).then(|| (block.begun[n].get(), aux == SCALED))
    }

    /// What the frame has besides for event `n`, and the event's index there. Zero at first.
    fn split(&self, n: usize) -> (&Split, usize) {
        // SAFETY: FRAMES: as in `block`, and every frame is in the memory of a thread.
        (unsafe { memory::split_of(self.0.sub(n / FRAME_EVENTS).as_ptr()).as_ref() }, n % FRAME_EVENTS)
    }

    /// Makes what the frame has besides zero, before its first use.
    fn prepare_split(self) {
        if self.flags() & SPLIT == 0 {
            self.of_split().burst.set(0);
            for n in 0..self.plan().set().len() {
                let (split, n) = self.split(n);
                split.in_bursts.iter().for_each(|costs| costs[n].set(0));
                split.at_begin[0][n].set(UNKNOWN);
            }
        }
    }

    /// What the call cost in bursts in event `n`, if a burst began or ended in it: without inner calls, and the own
    /// cost of thinned marks inside. `costs` are the same until now, and `burst` is the burst in progress.
    pub(crate) fn in_bursts(self, n: usize, costs: [u64; 2], burst: u64) -> Option<[u64; 2]> {
        let ((split, n), is_in_burst) = (self.split(n), burst != 0 && self.burst() == burst);
        let begun = is_in_burst && split.at_begin[0][n].get() != UNKNOWN;
        self.is_split().then(|| {
            array::from_fn(|kind| {
                let since = if begun { costs[kind].wrapping_sub(split.at_begin[kind][n].get()) } else { 0 };
                split.in_bursts[kind][n].get().wrapping_add(since)
            })
        })
    }

    /// The own cost of measured calls of thinned marks inside, in this slot, without those inside a call of a mark that
    /// is not thinned. It wraps. Only if the thread has thinned marks.
    #[inline]
    pub(crate) fn thinned_inside(self, slot: usize) -> u64 {
        self.inner_cost[slot].get().wrapping_sub(self.of_split().unthinned[slot].get())
    }

    /// Notes that this burst begins in the call. Costs until now are noted by [`begin_costs`](Self::begin_costs).
    pub(crate) fn begin_burst(self, burst: u64) {
        self.prepare_split();
        (0..self.plan().set().len()).for_each(|n| self.begin_costs(n, [UNKNOWN, 0]));
        self.set_flag(SPLIT);
        self.of_split().burst.set(burst);
    }

    pub(crate) fn begin_costs(self, n: usize, costs: [u64; 2]) {
        let (split, n) = self.split(n);
        split.at_begin.iter().zip(costs).for_each(|(at_begin, cost)| at_begin[n].set(cost));
    }

    /// Leaves so much out of the burst that was noted.
    pub(crate) fn exclude_from_burst(self, n: usize, cost: u64) {
        let (split, n) = self.split(n);
        let own = &split.at_begin[0][n];
        if own.get() != UNKNOWN {
            add(own, cost);
        }
    }

    /// Notes that the burst ends in the call, which `began_in_it` or before.
    pub(crate) fn end_burst(self, began_in_it: bool) {
        self.prepare_split();
        if began_in_it {
            (0..self.plan().set().len()).for_each(|n| self.begin_costs(n, [0, 0]));
        }
        self.set_flag(SPLIT);
        self.of_split().burst.set(0);
    }

    /// What the call cost until the end of the burst: as [`in_bursts`](Self::in_bursts) returns it.
    pub(crate) fn end_costs(self, n: usize, costs: [u64; 2]) {
        let (split, n) = self.split(n);
        if split.at_begin[0][n].get() != UNKNOWN {
            for ((in_bursts, at_begin), cost) in split.in_bursts.iter().zip(&split.at_begin).zip(costs) {
                add(&in_bursts[n], cost.wrapping_sub(at_begin[n].get()));
            }
        }
        split.at_begin[0][n].set(UNKNOWN);
    }

    /// From now on, counts the calls inside that are not of thinned marks. All those so far, `count` of them, are such
    /// calls, with all of `inner_cost`.
    pub(crate) fn begin_unthinned(self, count: u64) {
        let split = self.of_split();
        split.unthinned.iter().zip(&self.inner_cost).for_each(|(sum, cost)| sum.set(cost.get()));
        split.unthinned_calls.set(count);
    }

    /// Adds the cost of calls inside that are not of thinned marks.
    #[inline]
    pub(crate) fn add_unthinned(self, slot: usize, cost: u64) {
        add(&self.of_split().unthinned[slot], cost);
    }

    /// Counts such calls.
    #[inline]
    pub(crate) fn count_unthinned(self, calls: u64) {
        add(&self.of_split().unthinned_calls, calls);
    }

    /// Ends a call: adds the cost and the number of its inner calls of marks that are not thinned to the frame below.
    /// These are the ones that it noted, if it `passes_on`; otherwise all inner calls, and the call itself, but without
    /// its own cost. `serial` is the number of the call that began last. Only the first `COUNT` slots have costs. Keeps
    /// ZEROES.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "many calls of a burst execute it")]
    pub(crate) fn end_unthinned<const COUNT: usize>(self, passes_on: bool, serial: u64) {
        let below = self.below();
        let (split, calls) = (self.of_split(), self.of_split().unthinned_calls.take());
        below.count_unthinned(if passes_on { calls } else { serial - self.number() + 1 });
        let below = below.of_split();
        if passes_on {
            return move_sums::<COUNT>(&split.unthinned, &below.unthinned);
        }
        let sums: [u64; COUNT] = array::from_fn(|n| below.unthinned[n].get().wrapping_add(self.inner_cost[n].get()));
        below.unthinned.iter().zip(sums).for_each(|(to, sum)| to.set(sum));
        split.unthinned.iter().take(COUNT).for_each(|sum| sum.set(0));
    }

    /// Whether calls of thinned marks were measured inside, when `serial` is the number of the call that began last.
    #[inline]
    pub(crate) fn has_thinned_inside(self, serial: u64) -> bool {
        serial - self.number() != self.of_split().unthinned_calls.get()
    }

    /// Whether the frame still holds the entry state of event `n`.
    pub(crate) fn is_unread(self, n: usize) -> bool {
        let (block, n) = self.block(n);
        block.aux[n].get() < UNMEASURED
    }
}

/// Values of `aux` after `set_counted`. No lock has such a value.
const EXACT: u64 = u64::MAX;
const SCALED: u64 = EXACT - 1;
const UNMEASURED: u64 = EXACT - 2;

/// Adds to a number, which wraps.
#[inline]
fn add(number: &Cell<u64>, by: u64) {
    number.set(number.get().wrapping_add(by));
}

/// Adds the sums of the first `COUNT` slots to others and sets them to zero. All loads come before the first store, so
/// that the compiler can combine them.
#[inline]
fn move_sums<const COUNT: usize>(from: &[Cell<u64>; EVENT_SLOTS], to: &[Cell<u64>; EVENT_SLOTS]) {
    let sums: [u64; COUNT] = array::from_fn(|n| to[n].get().wrapping_add(from[n].get()));
    to.iter().zip(sums).for_each(|(to, sum)| to.set(sum));
    from.iter().take(COUNT).for_each(|from| from.set(0));
}

impl Frame {
    /// A pointer to the mark's plan; null in a frame that was never opened.
    #[inline]
    pub(crate) fn plan_ptr(&self) -> *const Plan {
        self.plan.get()
    }

    /// The serial number, without flags.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.serial.get() & SERIAL
    }

    /// Whether a panic was in progress when the call began.
    pub(crate) fn began_in_panic(&self) -> bool {
        self.serial.get() & PANICKING != 0
    }

    /// Of the inner calls that ended, the number that had inner calls themselves. Only if the thread does not track
    /// overhead.
    #[inline]
    pub(crate) fn inner_callers(&self) -> &Cell<u64> {
        &self.inner_count
    }

    /// If the thread has thinned marks: the [position](super::thinning::gap::Gap::position) when the call began, set
    /// back as that was since, minus the call's flags.
    #[inline]
    pub(crate) fn skipped_before(&self) -> &Cell<u64> {
        &self.inner_count
    }

    #[inline]
    fn flags(&self) -> u64 {
        // The number without flags may be negative.
        (self.skipped_before().get().wrapping_add(UNRECORDED / 2) & !SKIPPED).wrapping_neg()
    }

    /// Sets a flag: [`UNRECORDED`] or [`SPLIT`].
    #[inline]
    pub(crate) fn set_flag(&self, flag: u64) {
        let missing = flag & !self.flags();
        self.skipped_before().set(self.skipped_before().get().wrapping_sub(missing));
    }

    /// The call's node in the call graph. `None` without one.
    #[inline]
    pub(crate) fn graph_node(&self) -> Option<&Node> {
        // SAFETY: CELLS: null, or a node that lives as long as the thread's cells.
        unsafe { self.node.get().as_ref() }
    }

    /// The number of calls skipped inside this one, when the thread is at this position; with the call's flags.
    #[inline]
    pub(crate) fn skipped_inside(&self, position: u64) -> u64 {
        position.wrapping_sub(self.skipped_before().get())
    }

    /// Whether a burst began or ended in this call.
    pub(crate) fn is_split(&self) -> bool {
        self.flags() & SPLIT != 0
    }

    /// Whether the call is measured without being recorded.
    pub(crate) fn is_unrecorded(&self) -> bool {
        self.flags() & UNRECORDED != 0
    }

    /// Stores a number for event `n`. In a frame with [`LOCKS_SPLIT`], it is the lock of the event's counter page at
    /// entry.
    #[inline]
    pub(crate) fn set_spare(&self, n: usize, number: u64) {
        self.aux[n].set(number);
    }

    /// What [`set_spare`](Self::set_spare) stored.
    #[inline]
    pub(crate) fn spare(&self, n: usize) -> u64 {
        self.aux[n].get()
    }

    /// Stores what a poll cost in event `n`, when its frame is removed, in place of its entry state: without probe
    /// overhead, and the part of its inner calls.
    #[inline]
    pub(crate) fn set_poll_cost(&self, n: usize, net: u64, inner_cost: u64) {
        self.begun[n].set(net);
        self.aux[n].set(inner_cost);
    }

    /// What [`set_poll_cost`](Self::set_poll_cost) stored.
    #[inline]
    pub(crate) fn poll_cost(&self, n: usize) -> (u64, u64) {
        (self.begun[n].get(), self.aux[n].get())
    }

    /// Adds the cost of an inner call in one slot.
    #[inline]
    pub(crate) fn add_inner_cost(&self, slot: usize, cost: u64) {
        add(&self.inner_cost[slot], cost);
    }

    /// Adds the probe overhead of an inner call in the first `COUNT` slots.
    #[inline]
    pub(crate) fn add_overhead<const COUNT: usize>(&self, overhead: &[Cell<u64>; EVENT_SLOTS]) {
        for (sum, cost) in self.inner_overhead.iter().zip(overhead).take(COUNT) {
            add(sum, cost.get());
        }
    }

    /// Moves `inner_early` to the frame below when this call ends.
    #[inline]
    pub(crate) fn move_early_to(&self, below: &Self) {
        below.inner_early.set(below.inner_early.get() + self.inner_early.take());
    }

    /// Moves everything about inner calls to the frame below, to keep ZEROES. Only the first `COUNT` slots have sums.
    #[inline]
    pub(crate) fn move_all_to<const COUNT: usize>(&self, below: &Self) {
        move_sums::<COUNT>(&self.inner_cost, &below.inner_cost);
        move_sums::<COUNT>(&self.inner_overhead, &below.inner_overhead);
        self.move_early_to(below);
    }
}

/// A thread's open frames. All zeroes are a stack that is not set up.
#[repr(C)]
pub(crate) struct Stack {
    /// The innermost call's frame, or the sentinel.
    top: Cell<*const Frame>,
    /// The serial number of the call that began last. Calls without a frame take none, so that a call with only those
    /// inside ends as a leaf.
    pub(crate) serial: Cell<u64>,
    /// The sentinel.
    bottom: Cell<*const Frame>,
}

impl Stack {
    /// Empties the stack. Its frames are in `space`, and its calls have the numbers after `number`.
    pub(crate) fn set_up(&self, space: NonNull<FrameSpace>, number: u64) {
        let bottom = space.as_ptr().cast::<Frame>().cast_const();
        self.bottom.set(bottom);
        debug_assert_eq!(bottom.addr() % STACK_ALIGNMENT, 0);
        self.top.set(bottom);
        self.serial.set(number);
    }

    /// Whether the token's serial number is one of this stack's.
    pub(crate) fn numbered(&self, token: Token) -> bool {
        (self.serial.get() ^ token & SERIAL) < CALLS
    }

    /// Removes all frames without recording their calls.
    pub(crate) fn clear(&self) {
        self.top.set(self.bottom.get());
    }

    /// The innermost call's frame, or the sentinel. `None` if the stack is not set up.
    #[inline]
    pub(crate) fn top(&self) -> Option<FrameRef> {
        NonNull::new(self.top.get().cast_mut()).map(FrameRef)
    }

    /// The sentinel. `None` if the stack is not set up.
    pub(crate) fn sentinel(&self) -> Option<FrameRef> {
        NonNull::new(self.bottom.get().cast_mut()).map(FrameRef)
    }

    /// The frame of the call with this token, if it is the last that began with a frame. Then that frame is the
    /// innermost: a frame that is removed before its call ends belongs to a call that ends without its token.
    ///
    /// # Safety
    ///
    /// The token came from [`open`](Self::open), perhaps with flags, or it is one
    /// [without a frame](super::call_token::has_frame).
    #[inline]
    pub(crate) unsafe fn begun_last(&self, token: Token) -> Option<FrameRef> {
        let (top, serial) = (self.top.get(), self.serial.get());
        // SAFETY: `open` returns numbers from 1 on, and other tokens are no serial numbers. So the stack is set up, and
        // `top` is not null.
        (serial == token).then(|| FrameRef(unsafe { NonNull::new_unchecked(top.cast_mut()) }))
    }

    /// The innermost call's frame. `None` if no call is open.
    pub(crate) fn innermost(&self) -> Option<FrameRef> {
        self.top().filter(|_| self.top.get() != self.bottom.get())
    }

    /// The frame for a new call with at most [`FRAME_EVENTS`] events. `None` if the stack is full.
    #[inline]
    pub(crate) fn next(&self) -> Option<FrameRef> {
        FrameRef::within(self.top.get().wrapping_add(1))
    }

    /// The frame for a new call with this many events. `None` if the stack is full.
    pub(crate) fn next_for(&self, events: usize) -> Option<FrameRef> {
        FrameRef::within(self.top.get().wrapping_add(1 + extra_blocks(events)))
    }

    /// Opens a frame that [`next`](Self::next) or [`next_for`](Self::next_for) returned. Returns its serial number.
    #[inline]
    pub(crate) fn open(&self, frame: FrameRef, plan: &Plan, open_before: u64) -> u64 {
        // All loads come before the first store, so that the compiler can combine them.
        let (top, serial) = (self.top.get(), self.serial.get() + 1);
        frame.plan.set(plan);
        frame.serial.set(serial);
        frame.open_before.set(open_before);
        frame.below.set(top);
        self.top.set(frame.0.as_ptr());
        self.serial.set(serial);
        serial
    }

    /// Removes the innermost frame, which has one block and is above `below`.
    #[inline]
    pub(crate) fn pop_to(&self, below: FrameRef) {
        self.top.set(below.0.as_ptr());
    }

    /// Removes the innermost frame.
    pub(crate) fn pop(&self, frame: FrameRef) {
        self.pop_to(frame.below());
    }

    /// All frames, from the innermost.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FrameRef> + use<> {
        let (mut next, bottom) = (self.innermost(), self.bottom.get());
        // Reads the next frame before it returns this one, which may be removed.
        std::iter::from_fn(move || {
            let frame = next?;
            next = Some(frame.below()).filter(|below| !ptr::eq(below.0.as_ptr(), bottom));
            Some(frame)
        })
    }

    /// Removes the frames for which `is_kept` returns `false`, wherever they are on the stack. Before that, it calls
    /// `remove` with the frame.
    pub(crate) fn retain(&self, mut is_kept: impl FnMut(FrameRef) -> bool, remove: impl Fn(FrameRef)) {
        let mut above: Option<FrameRef> = None;
        for frame in self.iter() {
            if is_kept(frame) {
                above = Some(frame);
                continue;
            }
            let below = frame.below();
            remove(frame);
            // Its blocks are not reused before the frames above it are moved.
            match above {
                Some(above) => above.below.set(below.0.as_ptr()),
                None => self.pop_to(below),
            }
        }
        // Moves frames down into the gaps.
        let mut bottom = self.reverse_above(None);
        self.clear();
        while let (Some(frame @ FrameRef(from)), Some(FrameRef(top))) = (bottom, self.top()) {
            let extra_blocks = extra_blocks(frame.plan().set().len());
            // SAFETY: FRAMES: source and destination are blocks of this stack. Each block of the destination belongs to
            // the frame that moves, or to no open call.
            unsafe {
                bottom = NonNull::new(from.as_ref().below.get().cast_mut()).map(FrameRef);
                let to = top.add(1);
                if to.add(extra_blocks) != from {
                    ptr::copy(from.sub(extra_blocks).as_ptr(), to.as_ptr(), extra_blocks + 1);
                    // Splits are in the same order.
                    let splits = [from.sub(extra_blocks), to].map(|frame| memory::split_of(frame.as_ptr()).as_ptr());
                    ptr::copy(splits[0], splits[1], extra_blocks + 1);
                    // Restores ZEROES in the blocks that were not overwritten.
                    let gap = to.add(extra_blocks + 1).max(from.sub(extra_blocks));
                    let blocks = from.add(1).offset_from(gap).cast_unsigned();
                    gap.as_ptr().write_bytes(0, blocks);
                    memory::split_of(gap.as_ptr()).as_ptr().write_bytes(0, blocks);
                }
                let to = FrameRef(to.add(extra_blocks));
                to.below.set(top.as_ptr());
                self.top.set(to.0.as_ptr());
            }
        }
    }

    /// The frames above `frame`, from the innermost.
    pub(crate) fn above(&self, frame: FrameRef) -> impl Iterator<Item = FrameRef> {
        self.iter().take_while(move |above| *above != frame)
    }

    /// Reverses the links of the frames above `done`, or of all: each refers to the one above it, the innermost to
    /// none. Returns the outermost of them. The stack cannot be used until its links are restored.
    fn reverse_above(&self, done: Option<FrameRef>) -> Option<FrameRef> {
        let mut outermost = None;
        for frame in self.iter().take_while(|frame| Some(*frame) != done) {
            frame.below.set(outermost.replace(frame).map_or(ptr::null(), |above: FrameRef| above.0.as_ptr()));
        }
        outermost
    }

    /// Calls `visit` for the frames above `done`, or for all, from the outermost. `visit` must not use the stack.
    pub(crate) fn visit_above(&self, done: Option<FrameRef>, mut visit: impl FnMut(FrameRef)) {
        let mut outermost = self.reverse_above(done);
        let mut below = done.map_or(self.bottom.get(), |done| done.0.as_ptr());
        while let Some(frame) = outermost {
            outermost = NonNull::new(frame.below.replace(below).cast_mut()).map(FrameRef);
            below = frame.0.as_ptr();
            visit(frame);
        }
    }
}
