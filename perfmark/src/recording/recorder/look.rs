//! Notes which call the samples of this thread belong to.

use std::ptr;

use super::plan::{EventSet, Plan, node_of};
use super::stack::FrameRef;
use super::state::Recorder;
use crate::recording::cells::graph::{Known, Node};
use crate::recording::cells::sampled::{SampledThread, UNKNOWN};
use crate::recording::cells::switched::CALLS;

/// Whether there was a sample since the last look.
///
/// # Safety
///
/// Calls of the set are sampled.
#[inline]
#[allow(unsafe_code, reason = "saves a branch")]
pub(super) unsafe fn has_moved(set: &EventSet) -> bool {
    // SAFETY: this function's contract.
    let sampled = unsafe { set.sampled().unwrap_unchecked() };
    sampled.moved().is_some()
}

/// Notes that samples since the last look belong to the innermost open call, if there are any. For calls of this set.
#[inline]
pub(super) fn look(set: &EventSet, recorder: &Recorder) {
    if let Some(sampled) = set.sampled()
        && let Some(head) = sampled.moved()
    {
        note(sampled, head, recorder);
    }
}

/// The same for a thread that calls no mark now.
#[cfg(feature = "sampling")]
pub(super) fn look_now(sampled: &SampledThread, recorder: &Recorder) {
    if let Some(head) = sampled.moved() {
        note(sampled, head, recorder);
    }
}

#[cold]
#[inline(never)]
fn note(sampled: &SampledThread, head: u64, recorder: &Recorder) {
    sampled.note(head, noted(sampled, recorder));
}

/// The node of the call to which samples since the last look belong.
fn noted(sampled: &SampledThread, recorder: &Recorder) -> *const Node {
    // Calls of calibration, which have the lowest numbers: perfmark's own work.
    if recorder.stack.serial.get() < CALLS {
        return UNKNOWN;
    }
    let is_sampled = |frame: &FrameRef| Plan::of(*frame).set().sampled().is_some_and(|of| ptr::eq(of, sampled));
    let unsampled = || recorder.stack.iter().filter(|frame| !is_sampled(frame)).map(|frame| frame.number()).max();
    let innermost = recorder.stack.innermost();
    if sampled.may_be_in_older(innermost.map_or(0, |frame| frame.number()), || unsampled().unwrap_or(0)) {
        return UNKNOWN;
    }
    match innermost {
        None => ptr::null(),
        Some(frame) if is_sampled(&frame) => node(sampled, frame, recorder),
        // It began after sampling had stopped, or before it began.
        Some(_) => UNKNOWN,
    }
}

/// The node of an open call: its path of marks.
fn node(sampled: &SampledThread, innermost: FrameRef, recorder: &Recorder) -> *const Node {
    if recorder.graph().is_some() {
        return node_of(&innermost).map_or(UNKNOWN, ptr::from_ref);
    }
    let (Some(paths), Some(arena)) = (sampled.paths(), recorder.arena()) else { return UNKNOWN };
    // Frames of sampled calls keep their nodes, so this is done once for each call in which there is a sample.
    let done = recorder.stack.iter().find(|frame| kept(*frame).is_some());
    let mut caller = done.and_then(kept).unwrap_or(ptr::null());
    recorder.stack.visit_above(done, |frame| {
        let plan = Plan::of(frame);
        let mark =
            Known { key: plan.pointer(), mark: plan.cells.mark, events: 0, event: &|_| unreachable!("no events") };
        caller = paths.callee(caller, mark, arena);
        if plan.set().sampled().is_some() {
            frame.node.set(caller);
        }
    });
    caller
}

/// The node that the frame of a sampled call keeps, if it has one. Frames of other calls may contain a former call's.
fn kept(frame: FrameRef) -> Option<*const Node> {
    let node = frame.node.get();
    (!node.is_null() && Plan::of(frame).set().sampled().is_some()).then_some(node)
}
