//! The hooks of marks with options, `every` and `fence`, and of marks within a budget.

use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::clock::fence;

use super::budget::LOT;
use super::call_token::{NO_FRAME, SKIPPED, Token};
use super::memory::PlanPtr;
use super::plan::{Begin, Hooks, Plan};
use super::reached::reach;
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
    reach(&recorder, || "begin with a fence".into());
    fence();
    let token = (plan.base_hooks().begin)(plan, recorder);
    fence();
    token
}

fn end_leaf_fenced(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    reach(&recorder, || "end a leaf with a fence".into());
    fence();
    (plan.base_hooks().end_leaf)(plan, frame, recorder);
}

fn end_fenced(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    reach(&recorder, || "end a caller with a fence".into());
    fence();
    (plan.base_hooks().end)(plan, frame, recorder);
}

fn close_leaf_fenced(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    reach(recorder, || "close a leaf's poll with a fence".into());
    fence();
    (plan.base_hooks().close_leaf)(plan, frame, recorder)
}

fn close_fenced(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    reach(recorder, || "close a caller's poll with a fence".into());
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
    recorder.release();
    NO_FRAME
}

/// The same, while the calls are sampled: skipped calls have frames, so that their samples are theirs.
#[cfg(feature = "sampling")]
pub(super) fn begin_sampled_every(plan: &Plan, recorder: HeldRecorder) -> Token {
    let skipped = &plan.cells.skipped;
    let skipped_before = skipped.load(Relaxed);
    match plan.skipped() {
        Some(of_skipped) if !plan.is_drawn(skipped_before) => {
            skipped.store(skipped_before + 1, Relaxed);
            (of_skipped.base_hooks().begin)(of_skipped, recorder)
        }
        _ => begin_every(plan, recorder),
    }
}

/// Begins a call that is measured. It also adds the overhead of the calls skipped for it, because its weight makes up
/// for them.
#[inline(never)]
fn begin_drawn(plan: &Plan, recorder: HeldRecorder) -> Token {
    reach(&recorder, || "begin a drawn call".into());
    plan.draw(&recorder.random);
    add_draw_overhead(plan, &recorder);
    (measured(plan).begin)(plan, recorder)
}

/// Begins a call of a mark within a budget: the same as [`begin_every`], in each context.
pub(super) fn begin_within_budget(plan: &Plan, recorder: HeldRecorder) -> Token {
    if recorder.may_be_inside_drawn.get() {
        return begin_in_context(plan, recorder);
    }
    skip_or_draw::<false>(plan, recorder)
}

/// Begins a call of a mark that its budget lets measure completely.
pub(super) fn begin_complete(plan: &Plan, recorder: HeldRecorder) -> Token {
    reach(&recorder, || "begin a call within a budget that is measured completely".into());
    if recorder.may_be_inside_drawn.get() {
        return begin_in_context(plan, recorder);
    }
    measure_of_lot(plan, recorder)
}

#[inline]
fn skip_or_draw<const IS_INSIDE: bool>(plan: &Plan, recorder: HeldRecorder) -> Token {
    let skipped = &plan.cells.skipped;
    let skipped_before = skipped.load(Relaxed);
    if plan.is_drawn(skipped_before) {
        return begin_drawn_within_budget::<IS_INSIDE>(plan, recorder);
    }
    skipped.store(skipped_before + 1, Relaxed);
    recorder.release();
    NO_FRAME
}

#[inline]
fn measure_of_lot(plan: &Plan, recorder: HeldRecorder) -> Token {
    if plan.ends_lot() {
        return begin_last_of_lot(plan, recorder);
    }
    (measured(plan).begin)(plan, recorder)
}

/// Begins a call of a mark within a budget, perhaps inside a call that was drawn from several. There it uses the plan
/// of its context.
#[inline(never)]
fn begin_in_context(plan: &Plan, recorder: HeldRecorder) -> Token {
    reach(&recorder, || "begin a call within a budget inside a drawn one".into());
    let context = recorder.stack.top().and_then(|frame| Plan::of_member(frame.plan())).map_or(0, Plan::context_inside);
    if context == 0 {
        recorder.may_be_inside_drawn.set(false);
        return (plan.hooks.get().begin)(plan, recorder);
    }
    let inner = plan.member().and_then(|member| member.inside(context)).map(|member| member.current.get());
    let inner = inner.and_then(Plan::of_member);
    if inner.is_none() {
        // The next call sets it up.
        recorder.set_plan(plan.slot(), PlanPtr::NONE);
    }
    let plan = inner.unwrap_or(plan);
    if !plan.is_complete() {
        return skip_or_draw::<true>(plan, recorder);
    }
    if let Some(around) = recorder.stack.top() {
        plan.set().overhead.add_inside_overhead(&around);
    }
    measure_of_lot(plan, recorder)
}

/// Begins a drawn call of a mark within a budget, and draws the next one, perhaps one of more or fewer calls.
#[inline(never)]
fn begin_drawn_within_budget<const IS_INSIDE: bool>(plan: &Plan, recorder: HeldRecorder) -> Token {
    reach(&recorder, || "begin a drawn call within a budget".into());
    let weight = plan.cells.weight;
    let next = plan.member().map_or(weight, |member| member.count(weight, 1));
    if next != weight {
        change_weight(plan, &recorder, next, plan.rest());
    } else if weight == 1 {
        plan.hooks.set(Hooks { begin: begin_complete, ..plan.hooks.get() });
    } else {
        plan.draw(&recorder.random);
    }
    if plan.context_inside() > 0 {
        recorder.may_be_inside_drawn.set(true);
    }
    if IS_INSIDE {
        if let Some(around) = recorder.stack.top() {
            plan.set().overhead.add_inside_draw_overhead(&around, plan.weight() - 1);
        }
    } else {
        add_draw_overhead(plan, &recorder);
    }
    (measured(plan).begin)(plan, recorder)
}

/// Begins the last call of a lot that is measured completely.
#[cold]
#[inline(never)]
fn begin_last_of_lot(plan: &Plan, recorder: HeldRecorder) -> Token {
    reach(&recorder, || "begin the last call of a lot".into());
    plan.begin_lot();
    if let Some(next) = plan.member().map(|member| member.count(LOT, LOT)).filter(|&next| next > 1) {
        change_weight(plan, &recorder, next, 0);
    }
    (measured(plan).begin)(plan, recorder)
}

/// Lets the mark's calls in this context use another plan: one call in `every` is measured, after `rest` calls that are
/// skipped.
#[cold]
#[inline(never)]
fn change_weight(plan: &Plan, recorder: &HeldRecorder, every: u32, rest: u64) {
    reach(recorder, || "begin with another weight".into());
    let Some(member) = plan.member() else { return };
    let next = member.plan(every).get();
    member.current.set(next);
    if let Some(next) = Plan::of_member(next) {
        begin_weight(next, rest, recorder);
        if member.context == 0 {
            recorder.set_plan(member.slot, PlanPtr::of(next));
        }
    } else {
        // The next call sets it up.
        member.rest.set(rest);
        recorder.set_plan(member.slot, PlanPtr::NONE);
    }
}

/// Begins to measure calls of a mark within a budget with this plan, after `rest` calls that are skipped.
pub(super) fn begin_weight(plan: &Plan, rest: u64, recorder: &Recorder) {
    plan.begin_block_after(rest, &recorder.random);
    plan.begin_lot();
    plan.hooks.set(Hooks { begin: budgeted_begin(plan), ..plan.hooks.get() });
}

/// The hook with which calls of a mark within a budget begin.
pub(super) fn budgeted_begin(plan: &Plan) -> Begin {
    if plan.is_complete() { begin_complete } else { begin_within_budget }
}

/// Begins the first poll of a call of a mark with `every`: measures the call if it is drawn. A skipped call is counted
/// when it ends.
pub(super) fn begin_first_poll_of_every(plan: &Plan, recorder: HeldRecorder) -> Token {
    reach(&recorder, || "begin a first poll that may be skipped".into());
    if plan.is_poll_drawn() {
        return begin_drawn(plan, recorder);
    }
    recorder.release();
    SKIPPED
}

/// Adds the overhead of a drawn call or poll to the call around: of the draw and of the calls skipped for it.
pub(super) fn add_draw_overhead(plan: &Plan, recorder: &HeldRecorder) {
    if let (skipped @ 1.., Some(around)) = (plan.weight() - 1, recorder.stack.top()) {
        plan.set().overhead.add_draw_overhead(&around, skipped);
    }
}
