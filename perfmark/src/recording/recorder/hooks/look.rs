//! Notes which call the samples of this thread belong to.

use std::ptr;

use crate::recording::cells::{CALLS, Known, Node};
use crate::recording::recorder::thread::{FrameRef, Plan, Recorder};
use crate::recording::sampling::{SampledThread, TOO_DEEP, UNKNOWN};
use crate::settings::recording::is_off;

/// Notes that samples since the last look belong to the innermost open call, if there are any. For calls of this plan.
#[inline]
pub(crate) fn look(plan: &Plan, recorder: &Recorder) {
    if let Some(sampled) = plan.set().sampled() {
        look_now(sampled, recorder);
        plan.watch.update(sampled);
    }
}

/// Notes that a call of this plan begins without a frame: the samples after the last look are not known to be in the
/// innermost call that has one.
pub(crate) fn begin_too_deep(plan: &Plan, recorder: &Recorder) {
    look(plan, recorder);
    if let (Some(sampled), Some(innermost)) = (plan.set().sampled(), recorder.stack.innermost()) {
        sampled.begin_too_deep(innermost.number());
    }
}

/// As [`look`], for any call.
pub(crate) fn look_now(sampled: &SampledThread, recorder: &Recorder) {
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
    // Calls of calibration, which have the lowest numbers: perfmark's own work. After recording has ended, no memory
    // can be mapped for a path.
    if recorder.stack.serial.get() < CALLS || is_off() {
        return UNKNOWN;
    }
    let is_sampled = |frame: &FrameRef| is_of(sampled, *frame);
    let unsampled = || recorder.stack.iter().filter(|frame| !is_sampled(frame)).map(|frame| frame.number()).max();
    let innermost = recorder.stack.innermost();
    if sampled.may_be_in_older(innermost.map_or(0, |frame| frame.number()), || unsampled().unwrap_or(0)) {
        return UNKNOWN;
    }
    match innermost {
        None => ptr::null(),
        Some(frame) if sampled.is_around_too_deep(frame.number()) => TOO_DEEP,
        Some(frame) if is_sampled(&frame) => node(sampled, frame, recorder),
        // It began after sampling had stopped, or before it began.
        Some(_) => UNKNOWN,
    }
}

/// The node of an open call: its path of marks.
fn node(sampled: &SampledThread, innermost: FrameRef, recorder: &Recorder) -> *const Node {
    let (Some(graph), Some(arena)) = (recorder.graph().or_else(|| sampled.paths()), recorder.arena()) else {
        return UNKNOWN;
    };
    let known = |frame: FrameRef| {
        let mark = frame.plan().cells.mark;
        Known { key: ptr::from_ref(mark).addr(), mark, event: &|_| None }
    };
    let path = if recorder.graph().is_some() {
        match innermost.node.get() {
            // The node of the call around, or null. Calls that are not recorded have none before there is a sample in
            // them.
            around if innermost.plan().is_of_skipped() || recorder.is_unrecorded(innermost) => {
                graph.callee(around, known(innermost), arena)
            }
            node if node.is_null() => graph.nowhere(),
            node => node,
        }
    } else {
        // Sampled calls that were open at the last note keep their nodes, so this is done once for each call in which
        // there is a sample.
        let noted = sampled.replace_noted(recorder.stack.serial.get());
        let done = recorder.stack.iter().find(|frame| frame.number() <= noted && is_of(sampled, *frame));
        let mut caller = done.map_or(ptr::null(), |frame| frame.noted().get());
        recorder.stack.visit_above(done, |frame| {
            caller = graph.callee(caller, known(frame), arena);
            if is_of(sampled, frame) {
                frame.noted().set(caller);
            }
        });
        caller
    };
    // There is no room for another path.
    if ptr::eq(path, graph.nowhere()) { graph.without_callers(known(innermost), arena) } else { path }
}

/// Whether the call is sampled there.
fn is_of(sampled: &SampledThread, frame: FrameRef) -> bool {
    frame.plan().set().sampled().is_some_and(|of| ptr::eq(of, sampled))
}
