//! The open calls of a thread: a bounded stack, not in the guards.
//!
//! A guard holds only the serial number of its frame. So one that is dropped late, out of order, or in a forked child, finds that its
//! frame is gone, and one that was forgotten is noticed by the next one below it.
//!
//! A frame is a span for each event of its mark, and a header behind them, so that the innermost call's header is always found next to
//! the stack's end.
#![allow(unsafe_code, reason = "a stack of frames of different sizes")]

use std::sync::atomic::Ordering::Relaxed;
use std::{ptr, slice};

use perfmark_rdpmc::{Delta, Region};

use super::plan::{Plan, Planned};
use crate::switched::ROOM;

/// What a call holds: the serial number of its frame, perhaps with [`SLOW`]; 0 for a call that has none.
pub(crate) type Token = u64;

pub(super) const NO_FRAME: Token = 0;

/// In a token or in a header, not in both: the call ends by the long way.
pub(super) const SLOW: u64 = 1 << 63;
/// In a header: a panic was under way when the call's guard was made.
pub(super) const PANICKING: u64 = 1 << 62;
/// The rest: what is counted up at each call.
pub(super) const SERIAL: u64 = PANICKING - 1;

/// One event of one open call.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Span {
    /// Where the event's counter was.
    pub(super) region: Region,
    /// Where the tick counter was; on the way from the short way of ending to the long one, what was counted.
    pub(super) value: u64,
    /// What the thread's `inside` was in this event.
    pub(super) inside: u64,
    /// What the thread's `cost` was in this event, where it is kept.
    pub(super) cost: u64,
    /// On the long way of ending: what was counted, once it is read.
    pub(super) delta: Option<Delta>,
}

/// What stands behind a frame's spans.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Header {
    /// What the stack's `callers` was.
    pub(super) callers: u64,
    pub(super) serial: u64,
    pub(super) plan: *const Plan,
    /// Calls of the mark that were open before.
    pub(super) before: u64,
}

/// The calls that a call had inside, directly or not.
#[derive(Clone, Copy, Default)]
pub(super) struct Inside {
    pub(super) calls: u64,
    /// Of these, those that had calls inside themselves.
    pub(super) callers: u64,
}

impl Inside {
    /// Of the innermost call, whose header it is.
    #[inline]
    pub(super) fn of(stack: &Stack, header: &Header) -> Self {
        Self::since(stack.serial, stack.callers, header)
    }

    /// Of a call with that header, where the stack's numbers are these.
    #[inline]
    pub(super) fn since(serial: u64, callers: u64, header: &Header) -> Self {
        Self { calls: serial - (header.serial & SERIAL), callers: callers.wrapping_sub(header.callers) }
    }

    pub(super) fn is_none(self) -> bool {
        self.calls == 0
    }
}

/// Room for this many frames of four events.
const FRAMES: usize = 512;
const SPANS: usize = 4 * FRAMES;

/// Of the smallest frames, of one event each, there are no more than this.
const _: () = assert!(size_of::<Space>() / (size_of::<Span>() + size_of::<Header>()) <= ROOM);

/// Where frames are. Zeroes are not set up.
#[repr(C)]
pub(super) struct Stack {
    /// The end of the innermost frame.
    pub(super) end: *mut Span,
    /// Calls so far: those with a frame, and skipped ones.
    pub(super) serial: u64,
    /// Calls that ended so far after others had been begun in them. Where costs are kept by event: whether estimates are among what the innermost frame
    /// has inside, and that is so where it is another number than in the frame.
    pub(super) callers: u64,
    /// No frame ends beyond it.
    pub(super) limit: *mut Span,
    first: *mut Span,
}

/// The room that frames are in. The first word is no frame's: it stands where the header below the first frame would.
#[repr(C)]
pub(super) struct Space {
    nothing: Header,
    spans: [Span; SPANS],
    headers: [Header; FRAMES],
}

impl Stack {
    /// Empties the stack, whose frames are in that space from now on.
    pub(super) fn set_up(&mut self, space: *mut Space) {
        // SAFETY: within the space: the headers follow the spans.
        unsafe {
            self.first = (&raw mut (*space).spans).cast();
            self.limit = (&raw mut (*space).headers).add(1).cast();
        }
        self.end = self.first;
    }

    /// Forgets all frames.
    pub(super) fn clear(&mut self) {
        self.end = self.first;
    }

    /// Counts a call that gets no frame, as it is not measured: the call around it has it inside all the same.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.serial += 1;
    }

    /// Whether a frame of that many spans has no room.
    #[inline]
    pub(super) fn is_full(&self, spans: usize) -> bool {
        let end = self.end.wrapping_add(spans).cast::<Header>().wrapping_add(1);
        end > self.limit.cast()
    }

    /// The innermost frame. None if there is none.
    pub(super) fn innermost(&mut self) -> Option<Frame> {
        if self.end == self.first {
            return None;
        }
        // SAFETY: the end of the innermost frame.
        Some(unsafe { Frame::ending_at(self.end) })
    }

    /// All frames, the innermost first.
    pub(super) fn iter(&mut self) -> impl Iterator<Item = Frame> {
        let first = self.first;
        std::iter::successors(self.innermost(), move |frame| {
            let end = frame.spans;
            // SAFETY: a frame begins where the one below it ends.
            (end != first).then(|| unsafe { Frame::ending_at(end) })
        })
    }

    /// Takes off the frames that are not kept, wherever they are. They are no calls around those above them any more.
    ///
    /// # Safety
    ///
    /// Nothing refers to the stack's frames.
    pub(super) unsafe fn retain(&mut self, mut is_kept: impl FnMut(&Header) -> bool) {
        let (first, top) = (self.first, self.end);
        let length = |from: *mut Span, to: *mut Span| to.addr() - from.addr();
        // Those that are kept are moved to the top, and all of them down at last: a frame's size is known from its end alone.
        let (mut kept, mut end) = (top, top);
        while end != first {
            // SAFETY: a frame ends there; it has not been moved, and what was moved is above it.
            unsafe {
                let frame = Frame::ending_at(end);
                end = frame.spans;
                if is_kept(&*frame.header) {
                    let length = length(frame.spans, frame.end());
                    kept = kept.byte_sub(length);
                    ptr::copy(frame.spans.cast::<u8>(), kept.cast(), length);
                    continue;
                }
                let plan = (*frame.header).plan;
                let open = &(*plan).cells.open;
                open.store(open.load(Relaxed) - 1, Relaxed);
                let mut above = top;
                while above != kept {
                    let frame = Frame::ending_at(above);
                    above = frame.spans;
                    if ptr::eq((*frame.header).plan, plan) {
                        (*frame.header).before -= 1;
                    }
                }
            }
        }
        let length = length(kept, top);
        // SAFETY: from the first frame that is kept to the end of the last, within the stack's space.
        unsafe {
            ptr::copy(kept.cast::<u8>(), first.cast(), length);
            self.end = first.byte_add(length);
        }
    }
}

/// A frame on the stack.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) spans: *mut Span,
    pub(super) header: *mut Header,
}

impl Frame {
    /// A frame for a call of that many events, above `end`.
    #[inline]
    pub(super) fn above(end: *mut Span, spans: usize) -> Self {
        Self { spans: end, header: end.wrapping_add(spans).cast() }
    }

    /// The frame that ends there.
    ///
    /// # Safety
    ///
    /// It does, and its plan lives.
    pub(super) unsafe fn ending_at(end: *mut Span) -> Self {
        let header = end.cast::<Header>().wrapping_sub(1);
        // SAFETY: the caller's word.
        let spans = unsafe { &*(*header).plan }.set().len();
        Self { spans: header.cast::<Span>().wrapping_sub(spans), header }
    }

    #[inline]
    pub(super) fn end(&self) -> *mut Span {
        self.header.wrapping_add(1).cast()
    }

    /// The events, each with its span.
    ///
    /// # Safety
    ///
    /// It is on the stack, and nothing else refers to its spans.
    pub(super) unsafe fn events<'a>(&self) -> impl DoubleEndedIterator<Item = (Planned<'a>, &'a mut Span)> + use<'a> {
        // SAFETY: the caller's word; plans live as long as the thread's recorder.
        let (set, spans) = unsafe {
            let set = (*(*self.header).plan).set();
            (set, slice::from_raw_parts_mut(self.spans, set.len()))
        };
        spans.iter_mut().enumerate().map(move |(n, span)| (Planned { n, at: set.at[n], set }, span))
    }
}
