//! The cost of the calling thread's open calls, for snapshots.

use crate::recording::cells::{InclusiveSelf, OpenCall};
use crate::recording::recorder::hooks::slow;
use crate::recording::recorder::thread::{Recorder, with_thread};
use crate::recording::recorder::values::open_calls::{OpenCost, visit_open};
use crate::recording::recorder::values::self_estimate::Parts;

/// The number of this thread and the cost of its open calls so far. `None` if the thread has recorded nothing, or in a
/// signal handler that interrupted entry or exit code. Must be called in the thread's
/// [own work](crate::recording::recorder::own_work).
pub(crate) fn in_flight() -> Option<(u64, Vec<OpenCall>)> {
    with_thread(|thread| {
        let recorder = thread.recorder().filter(|recorder| recorder.is_set_up() && !thread.interrupts_hook.get())?;
        // Calls that ended on another thread are no longer open.
        slow::remove_ended_elsewhere(&recorder);
        Some((recorder.cells()?.owner.number, of_open_calls(&recorder)))
    })
}

/// From the innermost call. Events that were not counted are left out. Of a call made of polls, this is the cost of the
/// current poll.
fn of_open_calls(recorder: &Recorder) -> Vec<OpenCall> {
    let mut open = Vec::new();
    visit_open(recorder, &mut |frame, costs| {
        let plan = frame.plan();
        let weighted = |cost: u64| i128::from(cost.cast_signed()) * i128::from(plan.weight());
        let is_nested = plan.cells.is_nested(frame.open_before.get());
        if recorder.is_unrecorded(frame) {
            return true;
        }
        open.extend(costs.map(|OpenCost { event, net, own, thinned }| {
            let parts = || Parts::new(plan, frame, recorder, event, [own, thinned], false);
            let of_skipped = if recorder.has_thinned.get() { parts().of_skipped() } else { 0 };
            let own = own.wrapping_sub(of_skipped);
            let total = if is_nested { 0 } else { weighted(net) };
            OpenCall {
                mark: plan.cells.mark.index(),
                event: event.slot().event,
                sums: InclusiveSelf { total, own: weighted(own) },
            }
        }));
        true
    });
    open
}
