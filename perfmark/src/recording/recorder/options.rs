//! The hooks of marks with options: `every` and `fence`.

use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::clock::fence;

use super::call_token::{NO_FRAME, SKIPPED, Token};
use super::plan::{Hooks, Plan};
use super::stack::FrameRef;
use super::state::{HeldRecorder, Recorder};

/// The hooks of marks with `fence`. A call's value excludes instructions before the call and includes all in the call.
pub(super) const FENCED: Hooks = Hooks {
    begin: begin_fenced,
    end_leaf: end_leaf_fenced,
    end: end_fenced,
    close_leaf: close_leaf_fenced,
    close: close_fenced,
};

fn begin_fenced(plan: &Plan, recorder: HeldRecorder) -> Token {
    fence();
    let token = (plan.base_hooks().begin)(plan, recorder);
    fence();
    token
}

fn end_leaf_fenced(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    fence();
    (plan.base_hooks().end_leaf)(plan, frame, recorder);
}

fn end_fenced(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    fence();
    (plan.base_hooks().end)(plan, frame, recorder);
}

fn close_leaf_fenced(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    fence();
    (plan.base_hooks().close_leaf)(plan, frame, recorder)
}

fn close_fenced(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    fence();
    (plan.base_hooks().close)(plan, frame, recorder)
}

/// The hooks of a mark's measured calls.
pub(super) fn measured(plan: &Plan) -> Hooks {
    if plan.set().mode.is_fenced { FENCED } else { plan.base_hooks() }
}

/// Begins a call of a mark with `every`: measures the call if it is drawn, and otherwise counts it as skipped.
pub(super) fn begin_every(plan: &Plan, recorder: HeldRecorder) -> Token {
    let skipped = &plan.cells.skipped;
    let skipped_before = skipped.load(Relaxed);
    if plan.is_drawn(skipped_before) {
        return begin_drawn(plan, recorder);
    }
    skipped.store(skipped_before + 1, Relaxed);
    recorder.stack.skip();
    recorder.release();
    NO_FRAME
}

/// Begins a call that is measured. It also adds the overhead of the calls skipped for it, because its weight makes up
/// for them.
#[inline(never)]
fn begin_drawn(plan: &Plan, recorder: HeldRecorder) -> Token {
    plan.draw(&recorder.random);
    add_draw_overhead(plan, &recorder);
    (measured(plan).begin)(plan, recorder)
}

/// Begins the first poll of a call of a mark with `every`: measures the call if it is drawn. A skipped call is counted
/// when it ends.
pub(super) fn begin_first_poll_of_every(plan: &Plan, recorder: HeldRecorder) -> Token {
    if plan.is_poll_drawn() {
        return begin_drawn(plan, recorder);
    }
    recorder.stack.skip();
    recorder.release();
    SKIPPED
}

/// Adds the overhead of a drawn call or poll to the call around: of the draw and of the calls skipped for it.
pub(super) fn add_draw_overhead(plan: &Plan, recorder: &HeldRecorder) {
    if let (skipped @ 1.., Some(around)) = (plan.weight() - 1, recorder.stack.top()) {
        plan.set().overhead.add_draw_overhead(&around, skipped);
    }
}
