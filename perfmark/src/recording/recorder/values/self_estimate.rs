//! Estimates a call's self if calls of thinned marks inside it were skipped.
//!
//! In gaps between bursts, a call's cost without its measured calls inside is its own cost and that of the skipped
//! calls. The mark's own part of the cost with all calls of thinned marks inside is taken to be the same as in bursts,
//! where all of these are measured. Bursts here are those in which all thinned marks take part; calls that are measured
//! in others, or beside a burst, are a known part of the gaps.

use std::cell::Cell;

use super::open_calls::visit_open;
use crate::recording::cells::EventCells;
use crate::recording::recorder::event_slots::EVENT_SLOTS;
use crate::recording::recorder::thread::thinning::learned::SHORTEST;
use crate::recording::recorder::thread::{FrameRef, Numbers, Plan, Recorder, SetEvent};
use crate::settings::recording::is_off;

/// Calls further out than this many do not note bursts: walking the stack would take too long.
const DEPTH: usize = 32;

/// With more open calls, nothing is learned, for that reason.
const MOST_OPEN: usize = 256;

/// Notes in the open calls that a burst begins.
pub(crate) fn note_begin_of_burst(recorder: &Recorder) {
    recorder.burst_began.set(recorder.stack.serial.get());
    let Some((thinning, slots)) = recorder.thinning() else { return };
    let burst = recorder.bursts.complete();
    if burst != 0 {
        let mut depth = 0;
        visit_open(recorder, &mut |frame, costs| {
            frame.begin_burst(burst);
            costs.for_each(|cost| frame.begin_costs(cost.event.n, [cost.own, cost.thinned]));
            depth += 1;
            depth < DEPTH
        });
        // As at the end, this comes after the costs are noted: about as much work is in both.
        thinning.learned.begin(until_now(recorder), slots);
    }
    if slots.iter().any(|slot| slot.is_ticks()) {
        thinning.preemption.begin();
    }
}

/// Notes in the open calls that the burst ends.
pub(crate) fn note_end_of_burst(recorder: &Recorder) {
    let burst = recorder.bursts.complete();
    if burst == 0 {
        return;
    }
    let Some((thinning, slots)) = recorder.thinning() else { return };
    let (mut depth, began) = (0, recorder.burst_began.get());
    visit_open(recorder, &mut |frame, costs| {
        let noted = frame.burst() == burst;
        let began_in_it = frame.number() > began;
        if noted || began_in_it {
            frame.end_burst(began_in_it);
            costs.for_each(|cost| frame.end_costs(cost.event.n, [cost.own, cost.thinned]));
        }
        depth += 1;
        depth < DEPTH || noted
    });
    thinning.learned.end(until_now(recorder), slots);
}

/// Lets bursts be as frequent as the thread's thinned marks need now. If they were not, the burst or gap in progress
/// ends.
pub(crate) fn restart_bursts(recorder: &Recorder) {
    let Some((thinning, _)) = recorder.thinning() else { return };
    if thinning.restarts(&recorder.bursts) {
        note_end_of_burst(recorder);
    }
    recorder.change_gap(|bursts| thinning.apply_to(bursts, true));
}

/// The number of calls of thinned marks, the number of skipped ones, and the probe overhead of all calls until now, for
/// each event slot. It wraps. `None` if the bursts around now are too short to learn from, if many calls are open, and
/// after recording has ended, when no system call is allowed.
fn until_now(recorder: &Recorder) -> Option<([u64; 2], Numbers)> {
    let (bursts, stack) = (&recorder.bursts, &recorder.stack);
    if bursts.length() < SHORTEST || is_off() {
        return None;
    }
    let mut overhead = [0_u64; EVENT_SLOTS];
    let mut add = |more: &Numbers| overhead.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
    let inner = |frame: FrameRef| frame.inner_overhead.each_ref().map(Cell::get);
    for (depth, frame) in stack.iter().enumerate() {
        if depth == MOST_OPEN {
            return None;
        }
        let of_set = &frame.plan().set().overhead;
        add(&inner(frame));
        add(&of_set.total.each_ref().map(Cell::get));
        if frame.number() < stack.serial.get() {
            add(&of_set.caller_extra.each_ref().map(Cell::get));
        }
    }
    add(&inner(stack.sentinel()?));
    Some(([bursts.calls(), bursts.skipped()], overhead))
}

/// The parts of a call's cost in an event without measured calls inside, on a thread that may thin marks.
pub(crate) struct Parts<'a> {
    cells: &'a EventCells,
    /// In gaps, if calls inside were skipped; and the own cost of measured calls of thinned marks inside, in gaps.
    in_gaps: u64,
    beside: u64,
    /// In bursts, if calls of thinned marks were inside; and the cost of these.
    in_bursts: u64,
    thinned: u64,
}

impl<'a> Parts<'a> {
    /// The first cost is the call's own until now, the second that of calls of thinned marks inside. `is_in_one` is
    /// whether all of the call was in one complete burst, with calls of thinned marks inside. It matters only if none
    /// was skipped.
    #[inline(never)]
    pub(crate) fn new(
        plan: &'a Plan,
        frame: FrameRef,
        recorder: &Recorder,
        event: SetEvent<'_>,
        [own, thinned]: [u64; 2],
        is_in_one: bool,
    ) -> Self {
        let cells = &plan.cells.events[event.n];
        let mut parts = Self { cells, in_gaps: 0, beside: 0, in_bursts: 0, thinned: 0 };
        let has_skipped = recorder.skipped_inside(frame) > 0;
        // Known if bursts began or ended in the call, or if all of it was in one. If neither is so, there was none in
        // the call, or it is too far out to have noted it.
        let in_bursts = frame.in_bursts(event.n, [own, thinned], recorder.bursts.complete());
        [parts.in_bursts, parts.thinned] =
            in_bursts.or((is_in_one && !has_skipped).then_some([own, thinned])).unwrap_or_default();
        if has_skipped {
            (parts.in_gaps, parts.beside) = (own.wrapping_sub(parts.in_bursts), thinned.wrapping_sub(parts.thinned));
        }
        parts
    }

    /// The estimated cost of the skipped calls inside.
    pub(crate) fn of_skipped(&self) -> u64 {
        self.cells.of_skipped(self.in_gaps, self.beside, self.in_bursts, self.thinned)
    }

    /// Adds a call that ends to its cells. Returns the estimated cost of the skipped calls inside.
    pub(crate) fn add(&self) -> u64 {
        self.cells.add_in_bursts(self.in_bursts, self.thinned);
        self.cells.of_skipped(self.in_gaps, self.beside, 0, 0)
    }
}
