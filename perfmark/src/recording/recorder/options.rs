//! The hooks of marks with options, `every` and `fence`, and of marks within a budget.

use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::clock::fence;

use super::look::has_moved;
use super::reached::reach;
use super::slow;
use super::thread::budget::{LOT, Member};
use super::thread::call_token::{FRAME_OF_SKIPPED, NO_FRAME, SKIPPED, Token};
use super::thread::plan::{Begin, Hooks, Plan};
use super::thread::stack::FrameRef;
use super::thread::state::{HeldRecorder, Recorder};

/// The hooks of marks with `fence`. A call's value excludes instructions before the call and includes all in the call.
const fn fenced<const IS_SAMPLED: bool>() -> Hooks {
    Hooks {
        begin: begin_fenced::<IS_SAMPLED>,
        end_leaf: end_leaf_fenced::<IS_SAMPLED>,
        end: end_fenced::<IS_SAMPLED>,
        close_leaf: close_leaf_fenced::<IS_SAMPLED>,
        close: close_fenced::<IS_SAMPLED>,
    }
}

/// The hooks that those of marks with `fence` call.
fn without_fence<const IS_SAMPLED: bool>(plan: &Plan) -> Hooks {
    if IS_SAMPLED { SAMPLED } else { plan.base_hooks.get() }
}

fn begin_fenced<const IS_SAMPLED: bool>(plan: &Plan, recorder: HeldRecorder) -> Token {
    reach(&recorder, || "begin with a fence".into());
    fence();
    let token = (without_fence::<IS_SAMPLED>(plan).begin)(plan, recorder);
    fence();
    token
}

fn end_leaf_fenced<const IS_SAMPLED: bool>(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    reach(&recorder, || "end a leaf with a fence".into());
    fence();
    (without_fence::<IS_SAMPLED>(plan).end_leaf)(plan, frame, recorder);
}

fn end_fenced<const IS_SAMPLED: bool>(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    reach(&recorder, || "end a caller with a fence".into());
    fence();
    (without_fence::<IS_SAMPLED>(plan).end)(plan, frame, recorder);
}

fn close_leaf_fenced<const IS_SAMPLED: bool>(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    reach(recorder, || "close a leaf's poll with a fence".into());
    fence();
    (without_fence::<IS_SAMPLED>(plan).close_leaf)(plan, frame, recorder)
}

fn close_fenced<const IS_SAMPLED: bool>(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    reach(recorder, || "close a caller's poll with a fence".into());
    fence();
    (without_fence::<IS_SAMPLED>(plan).close)(plan, frame, recorder)
}

/// The hooks of marks whose calls are sampled. Entry and exit first look whether there was a sample.
const SAMPLED: Hooks = Hooks {
    begin: begin_sampled,
    end_leaf: end_leaf_sampled,
    end: end_sampled,
    close_leaf: close_leaf_sampled,
    close: close_sampled,
};

fn begin_sampled(plan: &Plan, recorder: HeldRecorder) -> Token {
    if has_moved(plan.set()) {
        return slow::begin_after_sample(plan, recorder);
    }
    (plan.base_hooks.get().begin)(plan, recorder)
}

fn end_leaf_sampled(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    if has_moved(plan.set()) {
        return slow::end(plan, frame, recorder);
    }
    (plan.base_hooks.get().end_leaf)(plan, frame, recorder);
}

fn end_sampled(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    if has_moved(plan.set()) {
        return slow::end(plan, frame, recorder);
    }
    (plan.base_hooks.get().end)(plan, frame, recorder);
}

fn close_leaf_sampled(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    !has_moved(plan.set()) && (plan.base_hooks.get().close_leaf)(plan, frame, recorder)
}

fn close_sampled(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    !has_moved(plan.set()) && (plan.base_hooks.get().close)(plan, frame, recorder)
}

/// The hooks of a mark's measured calls.
pub(super) fn measured(plan: &Plan) -> Hooks {
    match (plan.set().mode.is_fenced, plan.set().sampled().is_some()) {
        (true, false) => fenced::<false>(),
        (true, true) => fenced::<true>(),
        (false, false) => plan.base_hooks.get(),
        (false, true) => SAMPLED,
    }
}

/// Begins a call of a mark with `every`: measures the call if it is drawn, and otherwise counts it as skipped.
pub(super) fn begin_every<const IS_SAMPLED: bool>(plan: &Plan, recorder: HeldRecorder) -> Token {
    let skipped_before = plan.cells.skipped.load(Relaxed);
    if plan.is_drawn(skipped_before) {
        begin_drawn(plan, recorder)
    } else {
        skip::<IS_SAMPLED>(plan, recorder, skipped_before)
    }
}

/// Counts a skipped call, after so many others. While calls are sampled, opens a frame, so that samples in the call
/// belong to it.
#[inline]
fn skip<const IS_SAMPLED: bool>(plan: &Plan, recorder: HeldRecorder, skipped_before: u64) -> Token {
    plan.cells.skipped.store(skipped_before + 1, Relaxed);
    if IS_SAMPLED && let Some(of_skipped) = plan.skipped() {
        return (of_skipped.base_hooks.get().begin)(of_skipped, recorder);
    }
    recorder.release();
    NO_FRAME
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
pub(super) fn begin_within_budget<const IS_SAMPLED: bool>(plan: &Plan, recorder: HeldRecorder) -> Token {
    if recorder.may_be_inside_drawn.get() {
        return begin_in_context(plan, recorder);
    }
    skip_or_draw::<false, IS_SAMPLED>(plan, recorder)
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
fn skip_or_draw<const IS_INSIDE: bool, const IS_SAMPLED: bool>(plan: &Plan, recorder: HeldRecorder) -> Token {
    let skipped_before = plan.cells.skipped.load(Relaxed);
    if plan.is_drawn(skipped_before) {
        return begin_drawn_within_budget::<IS_INSIDE>(plan, recorder);
    }
    skip::<IS_SAMPLED>(plan, recorder, skipped_before)
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
    let context = context_of_callees(&recorder);
    if context == 0 {
        recorder.may_be_inside_drawn.set(false);
        return (plan.hooks.get().begin)(plan, recorder);
    }
    let inner = plan.member().and_then(|member| member.inside(context)).and_then(Member::current);
    if inner.is_none() {
        // The next call sets it up.
        recorder.forget_plan(plan.slot());
    }
    let plan = inner.unwrap_or(plan);
    if !plan.is_complete() {
        return skip_or_draw::<true, true>(plan, recorder);
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
    if let Some(next) = member.choose(every) {
        begin_weight(next, rest, recorder);
        if member.context == 0 {
            recorder.use_plan(next);
        }
    } else {
        // The next call sets it up.
        member.rest.set(rest);
        recorder.forget_plan(member.slot);
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
    match (plan.is_complete(), plan.skipped()) {
        (true, _) => begin_complete,
        (false, None) => begin_within_budget::<false>,
        (false, Some(_)) => begin_within_budget::<true>,
    }
}

/// Begins the first poll of a call of a mark with `every`: measures the call if it is drawn. A skipped call is counted
/// when it ends.
pub(super) fn begin_first_poll_of_every(plan: &Plan, recorder: HeldRecorder) -> Token {
    reach(&recorder, || "begin a first poll that may be skipped".into());
    if plan.is_poll_drawn() { begin_drawn(plan, recorder) } else { skip_poll(plan, recorder) }
}

/// Begins a poll of a skipped call.
pub(super) fn skip_poll(plan: &Plan, recorder: HeldRecorder) -> Token {
    if let Some(of_skipped) = plan.skipped() {
        return (of_skipped.base_hooks.get().begin)(of_skipped, recorder);
    }
    recorder.release();
    SKIPPED
}

/// The hooks of skipped calls that have frames because they are sampled. They have no events.
pub(super) const SKIPPED_HOOKS: Hooks =
    Hooks { begin: begin_skipped, end_leaf: end_skipped, end: end_skipped, ..slow::HOOKS };

fn begin_skipped(plan: &Plan, recorder: HeldRecorder) -> Token {
    if has_moved(plan.set()) {
        return slow::begin_after_sample(plan, recorder);
    }
    let stack = &recorder.stack;
    let Some(frame) = stack.next() else { return slow::begin_on_full_stack(plan, recorder) };
    let context = context_of_callees(&recorder);
    let open_before = plan.cells.open.load(Relaxed);
    let token = stack.open(frame, plan, open_before) | FRAME_OF_SKIPPED;
    frame.serial.set(token);
    frame.begun[0].set(context as u64);
    if recorder.graph().is_some() {
        // Calls inside are calls of the call around.
        frame.node.set(frame.below().node.get());
    }
    plan.cells.open.store(open_before + 1, Relaxed);
    recorder.release();
    token
}

fn end_skipped(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    if plan.set().mode.is_polled || has_moved(plan.set()) {
        return slow::end(plan, frame, recorder);
    }
    if frame.number() != recorder.stack.serial.get() {
        // Calls inside are calls of the call around.
        frame.move_all_to(&frame.below());
    }
    plan.cells.open.store(frame.open_before.get(), Relaxed);
    recorder.stack.pop(frame);
    recorder.release();
}

/// The [context](super::thread::budget::context) of calls directly inside the innermost call. Inside a skipped call, it
/// is that of the call around, which its frame holds.
#[expect(clippy::cast_possible_truncation, reason = "a small number")]
fn context_of_callees(recorder: &Recorder) -> usize {
    let of = |frame: FrameRef| {
        if frame.plan().is_of_skipped() { frame.begun[0].get() as usize } else { frame.plan().context_inside() }
    };
    recorder.stack.innermost().map_or(0, of)
}

/// Adds the overhead of a drawn call or poll to the call around: of the draw and of the calls skipped for it.
pub(super) fn add_draw_overhead(plan: &Plan, recorder: &HeldRecorder) {
    if let (skipped @ 1.., Some(around)) = (plan.weight() - 1, recorder.stack.top()) {
        plan.set().overhead.add_draw_overhead(&around, skipped);
    }
}
