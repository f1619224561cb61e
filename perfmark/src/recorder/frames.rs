//! The open calls of a thread: a bounded stack, not in the guards.
//!
//! A guard holds only the serial number of its frame. So one that is dropped late, out of order, or in a forked child, finds that its
//! frame is gone, and one that was forgotten is noticed by the next one below it.

use perfmark_rdpmc::Delta;

use super::sources::Begin;
use crate::cells::MarkCells;

/// Calls of marks inside one another, at most.
const DEPTH: usize = 512;
/// Events of all these together, at most.
const READINGS: usize = 4 * DEPTH;

/// One open call.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    serial: u64,
    pub(super) cells: *const MarkCells,
    /// Where its readings begin.
    first: usize,
    /// Whether a panic was under way when it began.
    pub(super) panicking: bool,
}

/// One event of one open call.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) begin: Begin,
    /// What the call cost, once it is ended.
    pub(super) delta: Delta,
    /// What the slot held for the call around this one.
    pub(super) outer: u64,
}

/// The stack. Zeroes are an empty one.
pub(super) struct Frames {
    depth: usize,
    readings: usize,
    serial: u64,
    open: [Frame; DEPTH],
    spans: [Span; READINGS],
}

impl Frames {
    /// Opens a frame and gives its serial number, which is never 0, and its spans; None if the stack is full.
    #[inline]
    pub(super) fn push(&mut self, cells: &MarkCells, panicking: bool) -> Option<(u64, &mut [Span])> {
        let first = self.readings;
        let end = first + cells.events.len();
        let frame = self.open.get_mut(self.depth)?;
        let spans = self.spans.get_mut(first..end)?;
        self.serial += 1;
        *frame = Frame { serial: self.serial, cells, first, panicking };
        self.depth += 1;
        self.readings = end;
        Some((self.serial, spans))
    }

    /// The frame of that serial number, and its spans, if it is the innermost.
    #[inline]
    pub(super) fn top(&mut self, serial: u64) -> Option<(Frame, &mut [Span])> {
        let frame = *self.open.get(self.depth.wrapping_sub(1))?;
        if frame.serial != serial {
            return None;
        }
        Some((frame, self.spans.get_mut(frame.first..self.readings)?))
    }

    /// Takes the innermost frame off.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Frame, &[Span])> {
        self.depth = self.depth.checked_sub(1)?;
        let frame = *self.open.get(self.depth)?;
        let end = std::mem::replace(&mut self.readings, frame.first);
        Some((frame, self.spans.get(frame.first..end)?))
    }

    /// Whether the frame of that serial number is on the stack, at whatever depth.
    pub(super) fn contains(&self, serial: u64) -> bool {
        self.open[..self.depth].iter().any(|frame| frame.serial == serial)
    }
}
