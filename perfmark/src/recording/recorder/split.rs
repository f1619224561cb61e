//! How much of a call is its own, if calls of thinned marks inside it were skipped.
//!
//! In gaps between bursts, a call's cost without its measured calls inside is its own cost and that of the skipped
//! calls. The mark's own part of it is taken to be the same as in bursts, where all are measured.

use super::thread::plan::Plan;
use super::thread::stack::FrameRef;
use super::thread::state::Recorder;
use crate::recording::cells::histogram::add;

/// Calls further out than this many do not note bursts: walking the stack would take too long.
const DEPTH: usize = 32;

/// Notes in the open calls that a burst begins.
pub(super) fn note_begin_of_burst(recorder: &Recorder) {
    recorder.burst_began.set(recorder.stack.serial.get());
    let burst = recorder.bursts.complete();
    if burst == 0 {
        return;
    }
    let mut depth = 0;
    recorder.visit_open(|frame, costs| {
        frame.begin_burst(burst);
        for cost in costs {
            frame.begin_own(cost.event.n, cost.own);
        }
        depth += 1;
        depth < DEPTH
    });
}

/// Notes in the open calls that the burst ends.
pub(super) fn note_end_of_burst(recorder: &Recorder) {
    let burst = recorder.bursts.complete();
    if burst == 0 {
        return;
    }
    let (mut depth, began) = (0, recorder.burst_began.get());
    recorder.visit_open(|frame, costs| {
        let noted = frame.burst() == burst;
        let began_in_it = frame.number() > began;
        if noted || began_in_it {
            frame.end_burst(began_in_it);
            for cost in costs {
                frame.end_own(cost.event.n, cost.own);
            }
        }
        depth += 1;
        depth < DEPTH || noted
    });
}

/// Adds to its cells which part of a call that ends was in gaps, and what it cost in bursts. `own` is its cost in event
/// `n` without measured calls inside.
pub(super) fn add_split(plan: &Plan, frame: FrameRef, recorder: &Recorder, n: usize, own: u64) {
    if !recorder.has_thinned.get() {
        return;
    }
    let cells = &plan.cells.events[n];
    let in_bursts = frame.own_in_bursts(n, own, recorder.bursts.complete());
    let has_skipped = recorder.skipped_inside(frame) > 0;
    if has_skipped {
        add(&cells.in_gaps, own.wrapping_sub(in_bursts.unwrap_or(0)));
    }
    if frame.has_thinned_inside() {
        add(&cells.thinned_inside, frame.thinned(n));
    }
    // The others with calls of thinned marks inside were in a burst from entry to exit.
    let is_in_burst = frame.has_thinned_inside() && !has_skipped;
    if let Some(own) = in_bursts.or_else(|| is_in_burst.then_some(own)) {
        add(&cells.in_bursts, own);
    }
}
