//! What this thread's open calls cost so far.

use perfmark_rdpmc::Delta;

use super::cost::Inside;
use super::counters::SLOTS;
use super::plan::Plan;
use super::state::Recorder;
use crate::cells::{InclusiveSelf, OpenCall};

impl Recorder {
    /// What the open calls cost so far, the innermost first. What was not counted is left out. Of a call made of polls
    /// it is the poll that goes on.
    pub(super) fn in_flight(&self) -> Vec<OpenCall> {
        let (keeps_costs, serial, mut open) = (self.keeps_costs.get(), self.stack.serial.get(), Vec::new());
        // What the open calls further inside add, as if they ended now: their selfs, what their probes cost, how many
        // had calls inside, and how many calls in them were left early.
        let (mut added, mut cost, mut callers, mut early) = ([0_u64; SLOTS], [0_u64; SLOTS], 0, 0);
        for frame in self.stack.iter() {
            let plan = Plan::of(frame);
            plan.set().take_apart(frame);
            let mut inside = Inside::of(&frame, serial);
            inside.callers = inside.callers.wrapping_add(callers);
            inside.early += early;
            early = inside.early;
            let group = plan.set().read_group();
            for planned in plan.set().events() {
                let slot = planned.at;
                let (opened, region) = (planned.slot().counter(), || frame.region(planned.n));
                let counted = match (&group, opened) {
                    (Some(group), Some(counter)) if planned.is_grouped() => group.end(counter, &region()),
                    _ => planned.end(frame).map_or_else(
                        || opened.map_or(Delta::Unmeasured, |counter| counter.end(&region())),
                        Delta::Exact,
                    ),
                };
                let (Delta::Exact(counted) | Delta::Scaled { estimate: counted, .. }) = counted else { continue };
                let overhead = plan.set().costs.overhead(&frame, planned.n, slot, inside, keeps_costs);
                let net = counted.wrapping_sub(overhead).wrapping_sub(cost[slot]);
                let own = net.wrapping_sub(frame.inner[slot].get().wrapping_add(added[slot]));
                let weighted = |cost: u64| i128::from(cost.cast_signed()) * i128::from(plan.weight());
                open.push(OpenCall {
                    mark: plan.cells.mark.index(),
                    event: planned.slot().event,
                    sums: InclusiveSelf {
                        total: if plan.cells.is_nested(frame.before.get()) { 0 } else { weighted(net) },
                        own: weighted(own),
                    },
                });
                added[slot] = added[slot].wrapping_add(own.wrapping_mul(plan.weight()));
            }
            for (slot, added) in added.iter_mut().enumerate() {
                *added = added.wrapping_add(frame.inner[slot].get());
            }
            if keeps_costs {
                let costs = &plan.set().costs;
                for (slot, cost) in cost.iter_mut().enumerate() {
                    *cost = cost.wrapping_add(costs.whole[slot].get()).wrapping_add(frame.cost[slot].get());
                    if !inside.is_none() {
                        *cost = cost.wrapping_add(costs.extra[slot].get());
                    }
                }
            } else if !inside.is_none() {
                callers = inside.callers + 1;
            }
        }
        open
    }
}
