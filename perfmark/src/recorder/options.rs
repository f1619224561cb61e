//! The ends of marks with options: `every` and `fence`.
#![allow(unsafe_code, reason = "frames and plans are found by pointers that live as long as the thread's recorder")]

use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::clock::fence;

use super::frames::{Header, NO_FRAME};
use super::long;
use super::plan::{Ends, Plan, Sums};
use super::thread::{Call, Recorder, put_back};

/// The ends of marks with fences: nothing that stands before the call is in its figures, and all that stands in it is.
pub(super) const FENCED: Ends = Ends { begin: begin_fenced, end_leaf: end_leaf_fenced, end: end_fenced, ..long::ENDS };

/// # Safety
///
/// As [`Begin`](super::plan::Begin) has it.
unsafe fn begin_fenced(recorder: *mut Recorder, plan: *const Plan) -> Call {
    fence();
    // SAFETY: the caller's word.
    let call = unsafe { ((*plan).unfenced.get().begin)(recorder, plan) };
    fence();
    call
}

/// # Safety
///
/// As [`End`](super::plan::End) has it.
unsafe fn end_leaf_fenced(recorder: *mut Recorder, header: *mut Header) {
    fence();
    // SAFETY: the caller's word.
    unsafe { ((*(*header).plan).unfenced.get().end_leaf)(recorder, header) }
}

/// # Safety
///
/// As [`End`](super::plan::End) has it.
unsafe fn end_fenced(recorder: *mut Recorder, header: *mut Header) {
    fence();
    // SAFETY: the caller's word.
    unsafe { ((*(*header).plan).unfenced.get().end)(recorder, header) }
}

/// Begins a call of a mark of which one call in some is measured: this one, or it is only counted.
///
/// # Safety
///
/// As [`Begin`](super::plan::Begin) has it.
pub(super) unsafe fn begin_every(recorder: *mut Recorder, plan: *const Plan) -> Call {
    // SAFETY: the caller's word.
    let skipped = unsafe { &(*plan).cells.skipped };
    let before = skipped.load(Relaxed);
    // SAFETY: the caller's word.
    unsafe {
        if (*plan).is_drawn(before) {
            return begin_drawn(recorder, plan);
        }
        skipped.store(before + 1, Relaxed);
        (*recorder).stack.skip();
        put_back(recorder, NO_FRAME)
    }
}

/// Begins a call that is measured. What the calls cost that are skipped for it is paid with it, as its weight makes up for them.
///
/// # Safety
///
/// As [`Begin`](super::plan::Begin) has it.
#[inline(never)]
unsafe fn begin_drawn(recorder: *mut Recorder, plan: *const Plan) -> Call {
    // SAFETY: the caller's word.
    unsafe {
        (*plan).draw(&(*recorder).random);
        pay_draw(&(*recorder).sums, &*plan);
        ((*plan).measured().begin)(recorder, plan)
    }
}

/// Pays what it costs to draw a call, or a poll of it, and to skip those that it counts for.
pub(super) fn pay_draw(sums: &Sums, plan: &Plan) {
    if let skipped @ 1.. = plan.weight() - 1 {
        sums.pay_draw(&plan.set().costs, skipped);
    }
}
