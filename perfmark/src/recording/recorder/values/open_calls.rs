//! The cost of a thread's open calls so far, as if they ended now.

use perfmark_rdpmc::Delta;

use crate::recording::recorder::event_slots::EVENT_SLOTS;
use crate::recording::recorder::thread::{FrameRef, InnerCalls, Recorder, SetEvent};
use crate::recording::recorder::values::off_cpu::with_off_cpu;

/// What an open call has cost in one event.
pub(crate) struct OpenCost<'a> {
    pub(crate) event: SetEvent<'a>,
    /// With and without calls inside.
    pub(crate) net: u64,
    pub(crate) own: u64,
    /// The own cost of calls of thinned marks inside, without those inside a call of a mark that is not thinned. 0 if
    /// the thread has no thinned marks.
    pub(crate) thinned: u64,
}

/// Calls `visit` for each open call with events, from the innermost, with its cost so far, until that returns
/// `false`.
pub(crate) fn visit_open(
    recorder: &Recorder,
    visit: &mut dyn FnMut(FrameRef, &mut dyn Iterator<Item = OpenCost<'_>>) -> bool,
) {
    let (tracks_overhead, serial) = (recorder.tracks_overhead.get(), recorder.stack.serial.get());
    // What the open calls further inside contribute, as if they ended now: their self values, their probe overhead,
    // the number of callers, and the number of early exits.
    let (mut added, mut overhead_inside, mut callers, mut early) = ([0_u64; EVENT_SLOTS], [0_u64; EVENT_SLOTS], 0, 0);
    let (has_thinned, mut thinned) = (recorder.has_thinned.get(), [0_u64; EVENT_SLOTS]);
    for frame in recorder.stack.iter() {
        let plan = frame.plan();
        for (slot, thinned) in thinned.iter_mut().enumerate().filter(|_| has_thinned) {
            *thinned = thinned.wrapping_add(frame.thinned_inside(slot));
        }
        let thinned_inside = thinned;
        let locks = frame.locks.get();
        plan.set().split_locks(frame);
        let mut inner = InnerCalls::of(&frame, serial);
        inner.callers = inner.callers.wrapping_add(callers);
        inner.early += early;
        early = inner.early;
        let skipped = recorder.skipped_inside(frame);
        let ticks = with_off_cpu(plan.set().switches(), &recorder.stack, || plan.set().ticks());
        let group = plan.set().read_group();
        let inside = added;
        let mut costs = plan.set().events().filter_map(|event| {
            let slot = event.slot_index;
            if event.slot().is_suspended() {
                // A poll that runs is not suspended, whatever calls inside were.
                return Some(OpenCost { event, net: 0, own: 0, thinned: 0 });
            }
            let (opened, region) = (event.slot().counter(), || frame.region(event.n));
            let counted = match (&group, opened) {
                (Some(group), Some(counter)) if event.is_grouped() => group.end(counter, &region()),
                _ if event.slot().reads_ticks() => {
                    event.ticks_until(ticks, frame).map_or(Delta::Unmeasured, Delta::Exact)
                }
                _ => event
                    .end(frame)
                    .map_or_else(|| opened.map_or(Delta::Unmeasured, |counter| counter.end(&region())), Delta::Exact),
            };
            let (Delta::Exact(counted) | Delta::Scaled { estimate: counted, .. }) = counted else { return None };
            let of_skipped = skipped.wrapping_mul(plan.set().overhead.skipped[slot].get());
            let overhead = plan.set().overhead.of_call(&frame, event.n, slot, inner, tracks_overhead);
            let overhead = overhead.wrapping_add(of_skipped).wrapping_add(overhead_inside[slot]);
            let net = counted.wrapping_sub(overhead);
            let own = net.wrapping_sub(frame.inner_cost[slot].get().wrapping_add(inside[slot]));
            added[slot] = added[slot].wrapping_add(own);
            thinned[slot] = thinned[slot].wrapping_add(own);
            Some(OpenCost { event, net, own, thinned: thinned_inside[slot] })
        });
        let goes_on = plan.set().len() == 0 || visit(frame, &mut costs);
        // Those that were not visited count, too.
        costs.for_each(drop);
        // The call may end on the fast path. Those that depend on context switches no longer do.
        if plan.set().switches().is_none() {
            frame.locks.set(locks);
        }
        if !goes_on {
            return;
        }
        if !plan.passes_thinned_on() {
            thinned = [0; EVENT_SLOTS];
        }
        for (slot, added) in added.iter_mut().enumerate() {
            *added = added.wrapping_add(frame.inner_cost[slot].get());
        }
        if tracks_overhead {
            let overhead = &plan.set().overhead;
            for (slot, sum) in overhead_inside.iter_mut().enumerate() {
                *sum = sum.wrapping_add(overhead.total[slot].get()).wrapping_add(frame.inner_overhead[slot].get());
                if !inner.is_empty() {
                    *sum = sum.wrapping_add(overhead.caller_extra[slot].get());
                }
            }
        } else if !inner.is_empty() {
            callers = inner.callers + 1;
        }
    }
}
