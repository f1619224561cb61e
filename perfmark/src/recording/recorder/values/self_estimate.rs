//! Estimates a call's self if calls of thinned marks inside it were skipped.
//!
//! In gaps between bursts, a call's cost without its measured calls inside is its own cost and that of the skipped
//! calls. The mark's own part of the cost with all calls of thinned marks inside is taken to be the same as in bursts,
//! where all of these are measured. Bursts here are those in which all thinned marks take part; calls that are measured
//! in others, or beside a burst, are a known part of the gaps.

use super::open_calls::{OpenCost, visit_open};
use crate::recording::cells::EventCells;
use crate::recording::recorder::thread::thinning::learned::{BurstEdge, Learned};
use crate::recording::recorder::thread::{FrameRef, Plan, Recorder, SetEvent};

/// Calls further out than this many do not note bursts: walking the stack would take too long.
const DEPTH: usize = 32;

/// Notes in the open calls that a burst begins.
pub(crate) fn note_begin_of_burst(recorder: &Recorder) {
    recorder.burst_began.set(recorder.stack.serial.get());
    let burst = recorder.bursts.complete();
    if burst == 0 {
        return;
    }
    let Some((thinning, _)) = recorder.thinning() else { return };
    let (mut depth, edge) = (0, thinning.learned.begin(&recorder.bursts));
    visit_open(recorder, &mut |frame, costs| {
        frame.begin_burst(burst);
        let before = note_call(&thinning.learned, edge, frame);
        for cost in costs {
            frame.begin_costs(cost.event.n, [cost.own, cost.thinned]);
            note_cost(edge, &cost, before);
        }
        depth += 1;
        depth < DEPTH
    });
}

/// Notes in the open calls that the burst ends.
pub(crate) fn note_end_of_burst(recorder: &Recorder) {
    let burst = recorder.bursts.complete();
    if burst == 0 {
        return;
    }
    let Some((thinning, slots)) = recorder.thinning() else { return };
    let (mut depth, edge, began) = (0, thinning.learned.end(&recorder.bursts), recorder.burst_began.get());
    visit_open(recorder, &mut |frame, costs| {
        let noted = frame.burst() == burst;
        let began_in_it = frame.number() > began;
        if noted || began_in_it {
            frame.end_burst(began_in_it);
            let before = note_call(&thinning.learned, edge, frame);
            for cost in costs {
                frame.end_costs(cost.event.n, [cost.own, cost.thinned]);
                note_cost(edge, &cost, before);
            }
        }
        depth += 1;
        depth < DEPTH || noted
    });
    thinning.learned.learn(slots);
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

/// Notes an open call in place of one inside it. If any call of its mark will do, returns the frame that has the cost
/// of calls before it. That is so for an outermost call whose mark is not thinned, if few calls are skipped outside of
/// such calls.
fn note_call(learned: &Learned, edge: &BurstEdge, frame: FrameRef) -> Option<FrameRef> {
    let (plan, below) = (frame.plan(), frame.below());
    let is_any = below.plan_ptr().is_null() && !plan.is_thinned() && !learned.has_calls_outside();
    edge.note_call(Some((plan.key(), if is_any { 0 } else { frame.number() })));
    is_any.then_some(below)
}

fn note_cost(edge: &BurstEdge, cost: &OpenCost<'_>, before: Option<FrameRef>) {
    let slot = cost.event.slot_index;
    edge.note_cost(slot, cost.net.wrapping_add(before.map_or(0, |before| before.inner_cost[slot].get())));
}

/// The parts of a call's cost in an event without measured calls inside.
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
        if !recorder.has_thinned.get() {
            return parts;
        }
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
