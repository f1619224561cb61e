//! The probe: what a marked call executes between finding its thread's state and returning to the program.
#![allow(unsafe_code, reason = "frames hold pointers to cells that live as long as the thread's")]

use std::sync::atomic::Ordering::Relaxed;
use std::thread::panicking;

use perfmark_rdpmc::Delta;

use super::frames::{Frame, Frames, Span};
use super::sources::Slot;
use crate::arena::Arena;
use crate::cells::{EventCells, MarkCells};
use crate::histogram::advance;

/// What a guard holds: the serial number of its frame, or this.
pub(crate) type Token = u64;

pub(super) const NO_FRAME: Token = 0;

/// Opens a frame; the counters are read last.
#[inline]
pub(super) fn begin(slots: &mut [Slot], cells: &MarkCells, frames: &mut Frames) -> Token {
    advance(&cells.entered, 1);
    let Some((serial, spans)) = frames.push(cells, panicking()) else {
        // Deeper than the stack: counted, and unmeasured.
        cells.finish();
        return NO_FRAME;
    };
    for (cells, span) in cells.events.iter().zip(&mut *spans) {
        span.outer = std::mem::take(&mut slots[cells.slot].inside);
    }
    for (cells, span) in cells.events.iter().zip(spans) {
        slots[cells.slot].begin(&mut span.begin);
    }
    serial
}

/// Closes the innermost frame if it is the token's; the counters are read first.
#[inline]
pub(super) fn end(slots: &mut [Slot], frames: &mut Frames, arena: &Arena, token: Token) -> bool {
    let Some((frame, spans)) = frames.top(token) else { return false };
    // SAFETY: a frame's cells live as long as the thread's.
    let cells = unsafe { &*frame.cells };
    for (cells, span) in cells.events.iter().zip(&mut *spans) {
        span.delta = slots[cells.slot].end(&span.begin);
    }
    let unwound = panicking() && !frame.panicking;
    let outermost = cells.entered.load(Relaxed).wrapping_sub(cells.finished.load(Relaxed)) == 1;
    for (cells, span) in cells.events.iter().zip(spans) {
        account(cells, span, &mut slots[cells.slot], arena, outermost, unwound);
    }
    if unwound {
        advance(&cells.unwound, 1);
    }
    cells.finish();
    frames.pop();
    true
}

/// Adds one event of a call to its cells, and to what the call around it has inside.
#[inline]
fn account(cells: &EventCells, span: &Span, slot: &mut Slot, arena: &Arena, outermost: bool, unwound: bool) {
    let inside = slot.inside;
    let value = match span.delta {
        Delta::Exact(value) => value,
        Delta::Scaled { estimate, .. } => {
            if !unwound {
                advance(&cells.scaled, 1);
            }
            estimate
        }
        Delta::Unmeasured => {
            slot.inside = span.outer.saturating_add(inside);
            return;
        }
    };
    slot.inside = span.outer.saturating_add(value);
    if unwound {
        return;
    }
    cells.values.add(value, arena);
    advance(&cells.own, value.saturating_sub(inside));
    if outermost {
        advance(&cells.total, value);
    }
}

/// A guard whose frame is not the innermost: the ones above it were never ended. They are counted, and unmeasured; or its own frame is
/// gone already, and there is nothing to do.
#[cold]
#[inline(never)]
pub(super) fn end_out_of_order(slots: &mut [Slot], frames: &mut Frames, arena: &Arena, token: Token) {
    if !frames.contains(token) {
        return;
    }
    while !end(slots, frames, arena, token) {
        let Some((frame, spans)) = frames.pop() else { return };
        abandon(slots, &frame, spans);
    }
}

fn abandon(slots: &mut [Slot], frame: &Frame, spans: &[Span]) {
    // SAFETY: a frame's cells live as long as the thread's.
    let cells = unsafe { &*frame.cells };
    for (cells, span) in cells.events.iter().zip(spans) {
        let slot = &mut slots[cells.slot];
        slot.inside = slot.inside.saturating_add(span.outer);
    }
    cells.finish();
}
