//! The ends of marks with options: `every` and `fence`.
#![allow(unsafe_code, reason = "frames and plans are found by pointers that live as long as the thread's recorder")]

use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::clock::fence;

use super::frames::{Header, NO_FRAME};
use super::long;
use super::plan::{Begin, Ends, Plan, Sums};
use super::probe::PAID;
use super::sources::SLOTS;
use super::thread::{Call, Recorder, put_back};
use crate::histogram::add;

/// The ends of marks with fences: nothing that stands before the call is in its figures, and all that stands in it is.
pub(super) const FENCED: Ends = Ends { begin: begin_fenced, end_leaf: end_leaf_fenced, end: end_fenced, ..long::ENDS };

/// # Safety
///
/// As [`Begin`](super::plan::Begin) has it.
unsafe fn begin_fenced(recorder: *mut Recorder, plan: *const Plan) -> Call {
    fence();
    // SAFETY: the caller's word.
    let call = unsafe { ((*plan).set().plain.get().begin)(recorder, plan) };
    fence();
    call
}

/// # Safety
///
/// As [`End`](super::plan::End) has it.
unsafe fn end_leaf_fenced(recorder: *mut Recorder, header: *mut Header) {
    fence();
    // SAFETY: the caller's word.
    unsafe { ((*(*header).plan).set().plain.get().end_leaf)(recorder, header) }
}

/// # Safety
///
/// As [`End`](super::plan::End) has it.
unsafe fn end_fenced(recorder: *mut Recorder, header: *mut Header) {
    fence();
    // SAFETY: the caller's word.
    unsafe { ((*(*header).plan).set().plain.get().end)(recorder, header) }
}

/// Begins a call of a mark of which one in some is measured, with so many events, on a thread of so many slots.
pub(super) fn every(events: usize, slots: usize) -> Begin {
    match events {
        _ if slots > PAID => begin_every::<SLOTS, 0>,
        1 => begin_every::<PAID, 1>,
        2 => begin_every::<PAID, 2>,
        3 => begin_every::<PAID, 3>,
        4 => begin_every::<PAID, 4>,
        _ => begin_every::<PAID, 0>,
    }
}

/// Begins a call of a mark of which one call in some is measured: this one, or it is only counted.
///
/// # Safety
///
/// As [`Begin`](super::plan::Begin) has it; the plan has `N` events, or any number if that is 0.
unsafe fn begin_every<const PAID: usize, const N: usize>(recorder: *mut Recorder, plan: *const Plan) -> Call {
    // SAFETY: the caller's word.
    let (plan_, sums) = unsafe { (&*plan, &(*recorder).sums) };
    // SAFETY: the caller's word.
    unsafe {
        if plan_.is_next_measured() {
            return (plan_.set().measured.get().begin)(recorder, plan);
        }
        add(&plan_.cells.skipped, 1);
        skip::<PAID, N>(plan_, sums);
        put_back(recorder, NO_FRAME)
    }
}

/// Takes what is not measured, a call or a poll, for one like the last that was: so much of the calls around it is the mark's.
///
/// # Safety
///
/// As [`begin_every`].
pub(super) unsafe fn skip<const PAID: usize, const N: usize>(plan: &Plan, sums: &Sums) {
    let set = plan.set();
    sums.pay::<PAID>(&set.costs.skip);
    if N == 0 {
        set.at.iter().zip(&plan.cells.events).for_each(|(&at, cells)| sums.skip(at, cells.last.load(Relaxed)));
    } else {
        // SAFETY: the caller's word.
        let cells = unsafe { plan.event_cells::<N>() };
        for (n, cells) in cells.iter().enumerate() {
            sums.skip(set.at[n], cells.last.load(Relaxed));
        }
    }
}
