//! The open calls of a thread: a bounded stack, not in the guards.
//!
//! A guard holds only the serial number of its frame. So one that is dropped late, out of order, or in a forked child,
//! finds that its frame is gone, and one that was forgotten is noticed by the next one below it.
//!
//! All frames have one size, with room for the few events that nearly all marks have. A call of more events takes
//! several blocks of that size, of which the topmost is its frame.
//!
//! Two invariants hold here, and are named wherever code rests on them:
//!
//! - FRAMES: the memory of a thread's frames is mapped, all blocks of it, until the thread ends. So a [`FrameRef`], which only a
//!   [`Stack`] makes and which cannot leave its thread, may be read at any time.
//! - ZEROES: in a block that is part of no open call, what calls inside cost (`inner`, `cost`, `callers` and `early`) is zero, and so is `more`. So entry
//!   writes nothing there, and exit writes only if there were calls inside.
#![allow(unsafe_code, reason = "frames are found by pointers into one mapping")]

use std::cell::Cell;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use perfmark_rdpmc::{Delta, Region};

use super::call_token::{PANICKING, SERIAL, Token};
use super::counters::EVENT_SLOTS;
use crate::graph::Node;
use crate::switched::ROOM;

/// Events that a frame has room for.
pub(super) const FRAME_EVENTS: usize = 4;

/// Frames begin within so many bytes, of which the kernel gives memory only to those that were ever in use.
const STACK_BYTES: usize = 1 << 19;

/// Of the room for frames: so one bit of a frame's address says whether the frame is beyond it.
pub(super) const STACK_ALIGNMENT: usize = 2 * STACK_BYTES;

/// Frames of a thread, at most.
const MAX_FRAMES: usize = STACK_BYTES.div_ceil(size_of::<Frame>());

const _: () = assert!(MAX_FRAMES <= ROOM);

/// An open call.
#[repr(C, align(64))]
pub(super) struct Frame {
    /// The mark's plan, whose type is not known here.
    plan: Cell<*const ()>,
    /// Its token, perhaps with [`PANICKING`].
    pub(super) serial: Cell<u64>,
    /// Calls of the mark that were open before.
    pub(super) open_before: Cell<u64>,
    below: Cell<*const Self>,
    /// The locks of its counters' pages where it began, added up; [`APART`] where `at` says more of each event.
    pub(super) locks: Cell<u64>,
    /// What each event began with: the counter's bits, or the ticks. Of a [`Region`] that is the first part.
    pub(super) begun: [Cell<u64>; FRAME_EVENTS],
    /// Of the calls inside that ended, directly or not, those that had calls inside themselves. Where costs are kept:
    /// estimates among the calls directly inside.
    pub(super) inner_callers: Cell<u64>,
    /// Of the calls inside that ended, directly or not, those that were left by `return` or `?`.
    pub(super) inner_early: Cell<u64>,
    /// Its node in the call graph, where there is one.
    pub(super) node: Cell<*const Node>,
    /// Of each event, the second part of its region: a lock, or why there is none. After `set_counted`, what kind of
    /// value `begun` holds. Of a poll that was closed, what calls inside cost.
    pub(super) aux: [Cell<u64>; FRAME_EVENTS],
    region_times: [[Cell<u64>; 2]; FRAME_EVENTS],
    /// Its blocks but for this one.
    extra_blocks: Cell<usize>,
    /// What the marked calls inside cost that ended, in each of the thread's slots. It wraps.
    pub(super) inner_cost: [Cell<u64>; EVENT_SLOTS],
    /// What their probes cost in each slot, where that is kept.
    pub(super) inner_overhead: [Cell<u64>; EVENT_SLOTS],
}

/// What no locks add up to: so the fast path leaves the call's end to the slow one.
pub(super) const LOCKS_SPLIT: u64 = u64::MAX;

/// The room that frames are in. The first one is no call's: it is where the frame below the outermost call would be,
/// and takes what outermost calls cost.
pub(super) type FrameSpace = [Frame; MAX_FRAMES];

/// A frame on this thread's stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameRef(NonNull<Frame>);

impl Deref for FrameRef {
    type Target = Frame;

    #[inline]
    fn deref(&self) -> &Frame {
        // SAFETY: FRAMES.
        unsafe { self.0.as_ref() }
    }
}

impl FrameRef {
    /// The frame at a place that is above a stack's bottom, by no more than [`BYTES`]. `None` if it is beyond the room
    /// for frames.
    #[inline]
    fn within(frame: *const Frame) -> Option<Self> {
        // SAFETY: FRAMES; it is not null, as it is above a frame.
        (frame.addr() & STACK_BYTES == 0).then(|| Self(unsafe { NonNull::new_unchecked(frame.cast_mut()) }))
    }

    /// The frame below it, which may be no call's.
    #[inline]
    pub(super) fn below(self) -> Self {
        // SAFETY: set by `open`, to a frame.
        Self(unsafe { NonNull::new_unchecked(self.below.get().cast_mut()) })
    }

    /// The block in which event `n` is, and its index there.
    fn block(&self, n: usize) -> (&Frame, usize) {
        // SAFETY: FRAMES: a call has as many blocks as its events need, this one the topmost.
        (unsafe { self.0.sub(n / FRAME_EVENTS).as_ref() }, n % FRAME_EVENTS)
    }

    /// Where event `n` began, in a frame that is [`APART`].
    pub(super) fn region(self, n: usize) -> Region {
        let (block, n) = self.block(n);
        let [enabled, running] = &block.region_times[n];
        Region::from_parts([block.begun[n].get(), block.aux[n].get(), enabled.get(), running.get()])
    }

    pub(super) fn set_region(self, n: usize, region: Region) {
        let (block, n) = self.block(n);
        let [raw, aux, enabled, running] = region.parts();
        block.begun[n].set(raw);
        block.aux[n].set(aux);
        block.region_times[n][0].set(enabled);
        block.region_times[n][1].set(running);
    }

    /// What event `n` began with.
    pub(super) fn raw(&self, n: usize) -> &Cell<u64> {
        let (block, n) = self.block(n);
        &block.begun[n]
    }

    /// Keeps what event `n` counted, where until now it was kept where that began.
    pub(super) fn set_counted(self, n: usize, counted: Delta) {
        let (raw, aux) = match counted {
            Delta::Exact(value) => (value, EXACT),
            Delta::Scaled { estimate, .. } => (estimate, SCALED),
            Delta::Unmeasured => (0, UNMEASURED),
        };
        let (block, n) = self.block(n);
        block.begun[n].set(raw);
        block.aux[n].set(aux);
    }

    /// What event `n` counted, and whether that is scaled. `None` if it was not measured, or not read yet.
    pub(super) fn counted(self, n: usize) -> Option<(u64, bool)> {
        let (block, n) = self.block(n);
        let aux = block.aux[n].get();
        matches!(aux, EXACT | SCALED).then(|| (block.begun[n].get(), aux == SCALED))
    }

    /// Whether event `n` is still kept where it began.
    pub(super) fn is_unread(self, n: usize) -> bool {
        let (block, n) = self.block(n);
        block.aux[n].get() < UNMEASURED
    }
}

/// In the second part of a region: no lock's value, but what the first part is.
const EXACT: u64 = u64::MAX;
const SCALED: u64 = EXACT - 1;
const UNMEASURED: u64 = EXACT - 2;

impl Frame {
    /// The mark's plan, for the plan's own accessor.
    #[inline]
    pub(super) fn plan(&self) -> *const () {
        self.plan.get()
    }

    /// Its serial number.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.serial.get() & SERIAL
    }

    /// Whether a panic was in progress when the call began.
    pub(super) fn began_in_panic(&self) -> bool {
        self.serial.get() & PANICKING != 0
    }

    /// Adds what a call inside cost, in one slot.
    #[inline]
    pub(super) fn add_inner_cost(&self, slot: usize, cost: u64) {
        let sum = &self.inner_cost[slot];
        sum.set(sum.get().wrapping_add(cost));
    }

    /// Adds what probes inside cost, in each slot.
    #[inline]
    pub(super) fn add_overhead(&self, overhead: &[Cell<u64>; EVENT_SLOTS]) {
        self.add_overhead_of_first::<EVENT_SLOTS>(overhead);
    }

    /// The same in the first slots.
    #[inline]
    pub(super) fn add_overhead_of_first<const COUNT: usize>(&self, overhead: &[Cell<u64>; EVENT_SLOTS]) {
        for (sum, cost) in self.inner_overhead.iter().zip(overhead).take(COUNT) {
            sum.set(sum.get().wrapping_add(cost.get()));
        }
    }

    /// Gives what calls inside cost to the frame below, as this one ends: ZEROES. Of `inner`, that is left to whoever
    /// knows what this one cost.
    pub(super) fn pass_overhead_on(&self, below: &Self) {
        below.add_overhead(&self.inner_overhead);
        self.inner_overhead.iter().for_each(|sum| sum.set(0));
        self.pass_early_on(below);
    }

    /// Counts in the frame below, as this one ends, the calls inside that were left by `return` or `?`.
    #[inline]
    pub(super) fn pass_early_on(&self, below: &Self) {
        below.inner_early.set(below.inner_early.get() + self.inner_early.take());
    }

    /// Gives all that calls inside cost to the frame below, as nothing is known of this one itself: ZEROES.
    pub(super) fn pass_on(&self, below: &Self) {
        for (slot, sum) in self.inner_cost.iter().enumerate() {
            below.add_inner_cost(slot, sum.take());
        }
        self.pass_overhead_on(below);
        below.inner_callers.set(below.inner_callers.get() + self.inner_callers.take());
    }
}

/// Where frames are, and which of them are open. Zeroes are not set up.
#[repr(C)]
pub(super) struct Stack {
    /// The innermost call's frame, or the one that is no call's.
    top: Cell<*const Frame>,
    /// The number of the call begun last. Calls that are skipped have one, too: the call around them has them inside
    /// all the same.
    pub(super) serial: Cell<u64>,
    /// The frame that is no call's.
    bottom: Cell<*const Frame>,
}

impl Stack {
    /// Empties the stack, whose frames are in that space from now on, and whose calls have the numbers behind `number`.
    pub(super) fn set_up(&self, space: NonNull<FrameSpace>, number: u64) {
        let bottom = space.as_ptr().cast::<Frame>().cast_const();
        self.bottom.set(bottom);
        debug_assert_eq!(bottom.addr() % STACK_ALIGNMENT, 0);
        self.top.set(bottom);
        self.serial.set(number);
    }

    /// Forgets all frames.
    pub(super) fn clear(&self) {
        self.top.set(self.bottom.get());
    }

    /// Counts a call that gets no frame, as it is not measured.
    #[inline]
    pub(super) fn skip(&self) {
        self.serial.set(self.serial.get() + 1);
    }

    /// The innermost call's frame, or the one that is no call's. `None` if the stack is not set up.
    #[inline]
    pub(super) fn top(&self) -> Option<FrameRef> {
        NonNull::new(self.top.get().cast_mut()).map(FrameRef)
    }

    /// The frame of the call with that token, if it is the call begun last. Then it is the innermost: whatever removes
    /// frames otherwise, or counts a call without one, raises the number.
    ///
    /// # Safety
    ///
    /// The token is that of a call which [was given a frame](has_frame).
    #[inline]
    pub(super) unsafe fn begun_last(&self, token: Token) -> Option<FrameRef> {
        let (top, serial) = (self.top.get(), self.serial.get());
        // SAFETY: this function's contract: a stack that is not set up has no number but 0.
        (serial == token).then(|| FrameRef(unsafe { NonNull::new_unchecked(top.cast_mut()) }))
    }

    /// The innermost call's frame.
    pub(super) fn innermost(&self) -> Option<FrameRef> {
        self.top().filter(|_| self.top.get() != self.bottom.get())
    }

    /// The frame for a call that begins, with room for [`EVENTS`]. `None` if the stack is full.
    #[inline]
    pub(super) fn next(&self) -> Option<FrameRef> {
        FrameRef::within(self.top.get().wrapping_add(1))
    }

    /// The same, with room for so many events.
    pub(super) fn next_for(&self, events: usize) -> Option<FrameRef> {
        let extra_blocks = events.saturating_sub(1) / FRAME_EVENTS;
        let frame = FrameRef::within(self.top.get().wrapping_add(1 + extra_blocks))?;
        frame.extra_blocks.set(extra_blocks);
        Some(frame)
    }

    /// Opens a frame that [`next`](Self::next) gave, and returns its number.
    #[inline]
    pub(super) fn open(&self, frame: FrameRef, plan: *const (), open_before: u64) -> u64 {
        // All loads before the first store: so the compiler takes several at once.
        let (top, serial) = (self.top.get(), self.serial.get() + 1);
        frame.plan.set(plan);
        frame.serial.set(serial);
        frame.open_before.set(open_before);
        frame.below.set(top);
        self.top.set(frame.0.as_ptr());
        self.serial.set(serial);
        serial
    }

    /// Removes the innermost frame, which has one block, and below which is that one.
    #[inline]
    pub(super) fn pop_to(&self, below: FrameRef) {
        self.top.set(below.0.as_ptr());
    }

    /// Removes the innermost frame.
    pub(super) fn pop(&self, frame: FrameRef) {
        frame.extra_blocks.set(0);
        self.pop_to(frame.below());
    }

    /// All frames, the innermost first.
    pub(super) fn iter(&self) -> impl Iterator<Item = FrameRef> + use<> {
        let (mut next, bottom) = (self.innermost(), self.bottom.get());
        // The one below is asked for before the frame is given away, which may be removed.
        std::iter::from_fn(move || {
            let frame = next?;
            next = Some(frame.below()).filter(|below| !ptr::eq(below.0.as_ptr(), bottom));
            Some(frame)
        })
    }

    /// Removes the frames that are not kept, wherever they are: they are around those above them no more. Each goes
    /// through `remove` before, together with the frame below.
    pub(super) fn retain(&self, mut is_kept: impl FnMut(FrameRef) -> bool, remove: impl Fn(FrameRef, FrameRef)) {
        let mut above: Option<FrameRef> = None;
        for frame in self.iter() {
            if is_kept(frame) {
                above = Some(frame);
                continue;
            }
            let below = frame.below();
            remove(frame, below);
            frame.extra_blocks.set(0);
            // Its blocks are not used again before all above it are gone, or are moved.
            match above {
                Some(above) => above.below.set(below.0.as_ptr()),
                None => self.pop_to(below),
            }
        }
        self.close_gaps();
    }

    /// Moves the frames down to where there are none any more.
    fn close_gaps(&self) {
        // So that each names the one above it.
        let (mut next, mut bottom) = (None, None);
        for frame in self.iter() {
            bottom = Some(frame);
            frame.below.set(next.replace(frame).map_or(ptr::null(), |above: FrameRef| above.0.as_ptr()));
        }
        self.clear();
        while let (Some(FrameRef(from)), Some(FrameRef(top))) = (bottom, self.top()) {
            // SAFETY: FRAMES; the bits of blocks that are in use go down, over such that are not, or over the same.
            unsafe {
                let extra_blocks = from.as_ref().extra_blocks.get();
                bottom = NonNull::new(from.as_ref().below.get().cast_mut()).map(FrameRef);
                let to = top.add(1);
                if to.add(extra_blocks) != from {
                    ptr::copy(from.sub(extra_blocks).as_ptr(), to.as_ptr(), extra_blocks + 1);
                    // ZEROES, of those that were not written over.
                    let gap = to.add(extra_blocks + 1).max(from.sub(extra_blocks));
                    gap.as_ptr().write_bytes(0, from.add(1).offset_from(gap).cast_unsigned());
                }
                let to = FrameRef(to.add(extra_blocks));
                to.below.set(top.as_ptr());
                self.top.set(to.0.as_ptr());
            }
        }
    }

    /// The frames above `frame`, the innermost first.
    pub(super) fn above(&self, frame: FrameRef) -> impl Iterator<Item = FrameRef> {
        self.iter().take_while(move |above| *above != frame)
    }
}
