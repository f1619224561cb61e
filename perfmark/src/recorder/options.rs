//! The hooks of marks with options: `every` and `fence`.

use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::clock::fence;

use super::call_token::{NO_FRAME, SKIPPED, Token};
use super::plan::{Hooks, Plan};
use super::stack::FrameRef;
use super::state::{HeldRecorder, Recorder};

/// The hooks of marks with fences: nothing that comes before the call is in its values, and all that is in it is.
pub(super) const FENCED: Hooks = Hooks {
    begin: begin_fenced,
    end_leaf: end_leaf_fenced,
    end: end_fenced,
    close_leaf: close_leaf_fenced,
    close: close_fenced,
};

fn begin_fenced(plan: &Plan, recorder: HeldRecorder) -> Token {
    fence();
    let token = (plan.base_hooks.get().begin)(plan, recorder);
    fence();
    token
}

fn end_leaf_fenced(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    fence();
    (plan.base_hooks.get().end_leaf)(plan, frame, recorder);
}

fn end_fenced(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    fence();
    (plan.base_hooks.get().end)(plan, frame, recorder);
}

fn close_leaf_fenced(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    fence();
    (plan.base_hooks.get().close_leaf)(plan, frame, recorder)
}

fn close_fenced(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    fence();
    (plan.base_hooks.get().close)(plan, frame, recorder)
}

/// The hooks of a mark's measured calls.
pub(super) fn measured(plan: &Plan) -> Hooks {
    if plan.set().manner.is_fenced { FENCED } else { plan.base_hooks.get() }
}

/// Begins a call of a mark of which one call in some is measured: this one, or it is only counted.
pub(super) fn begin_every(plan: &Plan, recorder: HeldRecorder) -> Token {
    let skipped = &plan.cells.skipped;
    let before = skipped.load(Relaxed);
    if plan.is_drawn(before) {
        return begin_drawn(plan, recorder);
    }
    skipped.store(before + 1, Relaxed);
    recorder.stack.skip();
    recorder.release();
    NO_FRAME
}

/// Begins a call that is measured. What the calls cost that are skipped for it is paid with it, as its weight makes up
/// for them.
#[inline(never)]
fn begin_drawn(plan: &Plan, recorder: HeldRecorder) -> Token {
    plan.draw(&recorder.random);
    add_draw_overhead(plan, &recorder);
    (measured(plan).begin)(plan, recorder)
}

/// The same for the first poll of a call. Calls that are not measured are counted at their end.
pub(super) fn begin_first_poll_of_every(plan: &Plan, recorder: HeldRecorder) -> Token {
    if plan.is_poll_drawn() {
        return begin_drawn(plan, recorder);
    }
    recorder.stack.skip();
    recorder.release();
    SKIPPED
}

/// Pays what it costs to draw a call, or a poll of it, and to skip those that it counts for.
pub(super) fn add_draw_overhead(plan: &Plan, recorder: &HeldRecorder) {
    if let (skipped @ 1.., Some(around)) = (plan.weight() - 1, recorder.stack.top()) {
        plan.set().overhead.add_draw_overhead(&around, skipped);
    }
}
