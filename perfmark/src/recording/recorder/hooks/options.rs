//! The hooks of marks with options: thinned marks, those with `fence`, and sampled ones.

use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::clock::fence;

use super::reached::reach;
use super::slow;
use crate::recording::cells::add;
use crate::recording::recorder::event_slots::EVENT_SLOTS;
use crate::recording::recorder::thread::{
    FRAME_OF_SKIPPED, FrameRef, HeldRecorder, Hooks, NO_FRAME, Plan, Recorder, SERIAL, Token, UNRECORDED, has_frame,
    thinning::bursts::Bursts,
};
use crate::recording::recorder::values::exclude_work::{Moment, exclude_work};
use crate::recording::recorder::values::self_estimate::{note_begin_of_burst, note_end_of_burst, restart_bursts};

/// The hooks of marks with `fence`. A call's value excludes instructions before the call and includes all in the call.
const FENCED: Hooks =
    Hooks { begin: begin_fenced, end_leaf: end_fenced::<true>, end: end_fenced::<false>, close: close_fenced };

fn begin_fenced(plan: &Plan, recorder: HeldRecorder) -> Token {
    reach(&recorder, || "begin with a fence".into());
    fence();
    let token = plan.unfenced_hooks().begin(recorder);
    fence();
    token
}

fn end_fenced<const IS_LEAF: bool>(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    reach(&recorder, || if IS_LEAF { "end a leaf with a fence" } else { "end a caller with a fence" }.into());
    fence();
    plan.unfenced_hooks().end(frame, recorder, IS_LEAF);
}

fn close_fenced(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    reach(recorder, || "close a poll with a fence".into());
    fence();
    plan.unfenced_hooks().close(frame, recorder)
}

/// The hooks of marks whose calls are sampled. Entry and exit first look whether there was a sample.
pub(crate) const SAMPLED: Hooks =
    Hooks { begin: begin_sampled, end_leaf: end_sampled::<true>, end: end_sampled::<false>, close: close_sampled };

fn begin_sampled(plan: &Plan, recorder: HeldRecorder) -> Token {
    if plan.watch.has_moved() {
        return slow::begin_after_sample(plan, recorder);
    }
    plan.base_hooks().begin(recorder)
}

fn end_sampled<const IS_LEAF: bool>(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    if plan.watch.has_moved() {
        return slow::end(plan, frame, recorder);
    }
    plan.base_hooks().end(frame, recorder, IS_LEAF);
}

fn close_sampled(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    !plan.watch.has_moved() && plan.base_hooks().close(frame, recorder)
}

/// The hooks of a mark's measured calls.
pub(crate) fn measured(plan: &Plan) -> Hooks {
    if plan.set().mode.is_fenced { FENCED } else { plan.set().unfenced_hooks() }
}

/// Begins a call of a thinned mark: counts it as skipped if the thread is in a gap, and else measures it. `IS_PLAIN`
/// calls are not sampled.
pub(crate) fn begin_thinned<const IS_PLAIN: bool>(plan: &Plan, recorder: HeldRecorder) -> Token {
    if recorder.bursts.gap.skips() { skip::<IS_PLAIN>(plan, recorder) } else { begin_in_burst(plan, recorder) }
}

/// Begins a skipped call, and counts it.
#[inline]
fn skip<const IS_PLAIN: bool>(plan: &Plan, recorder: HeldRecorder) -> Token {
    add(&plan.cells.skipped, 1);
    if !IS_PLAIN && let Some(of_skipped) = plan.skipped() {
        return of_skipped.base_hooks().begin(recorder);
    }
    recorder.release();
    NO_FRAME
}

/// Begins a call in a burst, or the call with which one begins or has ended.
#[inline(never)]
fn begin_in_burst(plan: &Plan, recorder: HeldRecorder) -> Token {
    let bursts = &recorder.bursts;
    let is_counted = bursts.count();
    if is_counted && !bursts.leaves_out(plan.cells.weight) {
        reach(&recorder, || "begin a call in a burst".into());
        bursts.count_measured();
        plan.count();
        return plan.begin_measured(recorder);
    }
    begin_beside(plan, recorder, is_counted)
}

/// Begins a call that the burst does not record: its mark takes no part in the burst, which counted the call if
/// `is_counted`; or the call comes before or after it.
#[inline(never)]
fn begin_beside(plan: &Plan, recorder: HeldRecorder, is_counted: bool) -> Token {
    let bursts = &recorder.bursts;
    let is_measured = if is_counted {
        // Inside others, all calls are measured: their self requires it.
        recorder.is_inside_burst()
    } else if bursts.must_choose() {
        return choose_next_burst(plan, recorder);
    } else if bursts.take_beside(|| recorder.is_inside_burst()) {
        true
    } else {
        return begin_or_end_burst(plan, recorder);
    };
    if let Some(frame) = recorder.stack.next_for(plan.set().len()).filter(|_| is_measured) {
        bursts.count_unrecorded();
        return begin_unrecorded(plan, recorder, frame);
    }
    bursts.gap.skip_one();
    skip::<false>(plan, recorder)
}

#[cold]
#[inline(never)]
fn choose_next_burst(plan: &Plan, recorder: HeldRecorder) -> Token {
    let (before, bursts) = (Moment::new(&recorder), &recorder.bursts);
    if let Some((thinning, _)) = recorder.thinning()
        && thinning.is_time(bursts)
    {
        thinning.adapt(&recorder);
        thinning.apply_to(bursts, false);
    }
    bursts.choose_next(recorder.stack.innermost().is_some(), &recorder.random);
    exclude_work(before.as_ref(), &recorder, false);
    leave_burst(&recorder);
    begin_in_burst(plan, recorder)
}

/// From here on, what is measured belongs to the gap.
#[inline(never)]
fn leave_burst(recorder: &HeldRecorder) {
    let before = Moment::new(recorder);
    note_end_of_burst(recorder);
    recorder.bursts.leave();
    exclude_work(before.as_ref(), recorder, true);
}

/// Begins a call of a mark that is not thinned because it is called rarely.
pub(crate) fn begin_rare(plan: &Plan, recorder: HeldRecorder) -> Token {
    plan.count();
    if recorder.bursts.count_rare() { begin_rare_and_adapt(plan, recorder) } else { plan.begin_measured(recorder) }
}

#[cold]
#[inline(never)]
fn begin_rare_and_adapt(plan: &Plan, recorder: HeldRecorder) -> Token {
    reach(&recorder, || "begin a call of a rare mark, and adapt".into());
    let before = Moment::new(&recorder);
    adapt_and_restart(&recorder);
    exclude_work(before.as_ref(), &recorder, false);
    plan.begin_measured(recorder)
}

/// Begins a call that is measured without being recorded. Its frame will be this one. It is counted at its end, and is
/// in no node of the call graph.
#[inline(never)]
fn begin_unrecorded(plan: &Plan, recorder: HeldRecorder, frame: FrameRef) -> Token {
    reach(&recorder, || "begin a call that is not recorded".into());
    let token = plan.begin_measured(recorder);
    // Again, because a signal handler may use the recorder meanwhile, and may fork.
    if let Some(recorder) = HeldRecorder::acquire().filter(|_| has_frame(token)) {
        if recorder.stack.innermost() == Some(frame) && frame.number() == token & SERIAL {
            frame.set_flag(UNRECORDED);
            if recorder.graph().is_some() {
                frame.node.set(frame.below().node.get());
            }
        }
        recorder.release();
    }
    token
}

#[cold]
#[inline(never)]
fn begin_or_end_burst(plan: &Plan, recorder: HeldRecorder) -> Token {
    reach(&recorder, || "begin a call with which a burst begins or ends".into());
    if recorder.thinning().is_none() {
        // A child that a signal handler forked inside this function has no recorder, and no burst that could change.
        return plan.begin_measured(recorder);
    }
    change_burst(&recorder);
    plan.hooks().begin(recorder)
}

/// Begins or ends a burst. The call that begins needs its memory on the stack no longer.
#[inline(never)]
fn change_burst(recorder: &HeldRecorder) {
    let (before, bursts) = (Moment::new(recorder), &recorder.bursts);
    let begins = if bursts.is_burst() {
        recorder.change_gap(Bursts::end);
        false
    } else if recorder.change_gap(Bursts::prolong_gap) {
        if recorder.thinning().is_some_and(|(thinning, _)| thinning.is_time_in_gap()) {
            adapt_and_restart(recorder);
        }
        false
    } else {
        bursts.begin(&recorder.random);
        true
    };
    exclude_work(before.as_ref(), recorder, begins);
    if begins {
        enter_burst(recorder);
    }
}

/// Adapts, and lets bursts be as frequent as they should from now on.
fn adapt_and_restart(recorder: &HeldRecorder) {
    if let Some((thinning, _)) = recorder.thinning() {
        thinning.adapt(recorder);
        restart_bursts(recorder);
    }
}

/// From here on, what is measured belongs to the burst. As in [`leave_burst`], other work is left out before: what the
/// two readings of a burst contain of their own work is about the same.
#[inline(never)]
fn enter_burst(recorder: &HeldRecorder) {
    let before = Moment::new(recorder);
    note_begin_of_burst(recorder);
    exclude_work(before.as_ref(), recorder, false);
}

/// The hooks of skipped calls that have frames because they are sampled. They have no events.
pub(crate) const SKIPPED_HOOKS: Hooks =
    Hooks { begin: begin_skipped, end_leaf: end_skipped, end: end_skipped, close: slow::HOOKS.close };

fn begin_skipped(plan: &Plan, recorder: HeldRecorder) -> Token {
    if plan.watch.has_moved() {
        return slow::begin_after_sample(plan, recorder);
    }
    let stack = &recorder.stack;
    let Some(frame) = stack.next() else { return slow::begin_on_full_stack(plan, recorder) };
    let open_before = plan.cells.open.load(Relaxed);
    let token = stack.open(frame, plan, open_before) | FRAME_OF_SKIPPED;
    frame.serial.set(token);
    frame.skipped_before().set(recorder.bursts.gap.position());
    if recorder.graph().is_some() {
        // Calls inside are calls of the call around.
        frame.node.set(frame.below().node.get());
    }
    plan.cells.open.store(open_before + 1, Relaxed);
    recorder.release();
    token
}

fn end_skipped(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    if plan.watch.has_moved() {
        return slow::end(plan, frame, recorder);
    }
    if frame.number() != recorder.stack.serial.get() {
        return end_skipped_caller(plan, frame, recorder);
    }
    plan.cells.open.store(frame.open_before.get(), Relaxed);
    recorder.stack.pop(frame);
    recorder.release();
}

/// Ends a skipped call with calls inside: they are calls of the call around.
#[inline(never)]
fn end_skipped_caller(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    let below = frame.below();
    frame.end_unthinned::<EVENT_SLOTS>(true, recorder.stack.serial.get());
    frame.move_all_to::<EVENT_SLOTS>(&below);
    plan.cells.open.store(frame.open_before.get(), Relaxed);
    recorder.stack.pop_to(below);
    recorder.release();
}
