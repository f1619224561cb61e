//! The ends of calls where it is recorded who was called under whom: by the long way.
#![allow(unsafe_code, reason = "plans are found by pointers that live as long as the thread's recorder")]

use super::frames::SERIAL;
use super::long;
use super::plan::{Ends, Plan};
use super::thread::{Call, Recorder};
use crate::graph::Known;

pub(super) const ENDS: Ends = Ends { begin, ..long::ENDS };

/// Finds the call's node, which the long way of ending it [looks for](crate::graph::Graph::leave), and begins it.
///
/// # Safety
///
/// As [`Begin`](super::plan::Begin) has it.
unsafe fn begin(recorder: *mut Recorder, plan: *const Plan) -> Call {
    // SAFETY: the caller's word.
    let (recorder_, plan_) = unsafe {
        // They are around no call any more.
        long::forget_ended(recorder);
        (&mut *recorder, &*plan)
    };
    let events = &plan_.cells.events;
    let is_full = recorder_.stack.is_full(events.len());
    // SAFETY: a frame on the stack.
    let around = recorder_.stack.innermost().map(|frame| unsafe { (*frame.header).serial } & SERIAL);
    if let Some(graph) = recorder_.graph() {
        if is_full {
            graph.lose();
        } else {
            let event = |n: usize| events[n].event;
            let mark = Known { key: plan.cast(), mark: plan_.cells.mark, events: events.len(), event: &event };
            graph.enter(recorder_.stack.serial + 1, around, mark, recorder_.arena());
        }
    }
    // SAFETY: the caller's word.
    unsafe { long::begin(recorder, plan) }
}
