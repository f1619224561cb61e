//! The cost of a thread's open calls so far.

use perfmark_rdpmc::Delta;

use super::counters::EVENT_SLOTS;
use super::slow::with_off_cpu;
use super::thread::overhead::InnerCalls;
use super::thread::state::Recorder;
use crate::recording::cells::{InclusiveSelf, OpenCall};

impl Recorder {
    /// The cost of the open calls so far, from the innermost. Events that were not counted are left out. Of a call made
    /// of polls, this is the cost of the current poll.
    pub(super) fn in_flight(&self) -> Vec<OpenCall> {
        let (tracks_overhead, serial, mut open) = (self.tracks_overhead.get(), self.stack.serial.get(), Vec::new());
        // What the open calls further inside contribute, as if they ended now: their self values, their probe overhead,
        // the number of callers, and the number of early exits.
        let (mut added, mut overhead_inside, mut callers, mut early) =
            ([0_u64; EVENT_SLOTS], [0_u64; EVENT_SLOTS], 0, 0);
        for frame in self.stack.iter() {
            let plan = frame.plan();
            plan.set().split_locks(frame);
            let mut inner = InnerCalls::of(&frame, serial);
            inner.callers = inner.callers.wrapping_add(callers);
            inner.early += early;
            early = inner.early;
            let read_time = || plan.set().time().and_then(|event| event.end(frame));
            let time = with_off_cpu(plan.set().switches(), &self.stack, read_time);
            let group = plan.set().read_group();
            for event in plan.set().events() {
                let slot = event.slot_index;
                let (opened, region) = (event.slot().counter(), || frame.region(event.n));
                let counted = match (&group, opened) {
                    (Some(group), Some(counter)) if event.is_grouped() => group.end(counter, &region()),
                    _ if event.slot().is_ticks() => time.map_or(Delta::Unmeasured, Delta::Exact),
                    _ => event.end(frame).map_or_else(
                        || opened.map_or(Delta::Unmeasured, |counter| counter.end(&region())),
                        Delta::Exact,
                    ),
                };
                let (Delta::Exact(counted) | Delta::Scaled { estimate: counted, .. }) = counted else { continue };
                let overhead = plan.set().overhead.of_call(&frame, event.n, slot, inner, tracks_overhead);
                let net = counted.wrapping_sub(overhead).wrapping_sub(overhead_inside[slot]);
                let self_cost = net.wrapping_sub(frame.inner_cost[slot].get().wrapping_add(added[slot]));
                let weighted = |cost: u64| i128::from(cost.cast_signed()) * i128::from(plan.weight());
                open.push(OpenCall {
                    mark: plan.cells.mark.index(),
                    event: event.slot().event,
                    sums: InclusiveSelf {
                        total: if plan.cells.is_nested(frame.open_before.get()) { 0 } else { weighted(net) },
                        own: weighted(self_cost),
                    },
                });
                added[slot] = added[slot].wrapping_add(self_cost.wrapping_mul(plan.weight()));
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
        open
    }
}
