//! What this thread's open calls cost so far.
#![allow(unsafe_code, reason = "frames are found by pointers that live as long as the thread's recorder")]

use perfmark_rdpmc::Delta;

use super::frames::Inside;
use super::sources::SLOTS;
use super::thread::Recorder;
use crate::cells::{InclusiveSelf, OpenCall};

impl Recorder {
    /// What the open calls cost so far, the innermost first. What was not counted is left out. Of a call made of polls it is the
    /// poll that goes on.
    pub(super) fn in_flight(&mut self) -> Vec<OpenCall> {
        let (keeps_costs, mut open) = (self.keeps_costs(), Vec::new());
        // What the open calls further inside add, as if they ended now.
        let mut added = [0_u64; SLOTS];
        let Self { stack, sums, .. } = self;
        let (serial, callers) = (stack.serial, stack.callers);
        for frame in stack.iter() {
            // SAFETY: a frame of this thread's stack, which is taken, and whose plan lives as long as the recorder.
            let (header, plan, events) = unsafe { (*frame.header, &*(*frame.header).plan, frame.events()) };
            let probes = Inside::since(serial, callers, &header);
            for (planned, span) in events {
                let counted = planned.end(span).map_or_else(
                    || planned.slot().counter().map_or(Delta::Unmeasured, |counter| counter.end(&span.region)),
                    Delta::Exact,
                );
                let (Delta::Exact(counted) | Delta::Scaled { estimate: counted, .. }) = counted else { continue };
                let net = counted.wrapping_sub(planned.overhead(sums, span, probes, keeps_costs));
                let inside = sums.inside[planned.at].get().wrapping_sub(span.inside).wrapping_add(added[planned.at]);
                let own = net.wrapping_sub(inside);
                added[planned.at] = added[planned.at].wrapping_add(own.wrapping_mul(plan.weight()));
                let weighted = |cost: u64| i128::from(cost.cast_signed()) * i128::from(plan.weight());
                open.push(OpenCall {
                    mark: plan.cells.mark.index(),
                    event: planned.slot().event,
                    sums: InclusiveSelf {
                        total: if plan.cells.is_nested(header.before) { 0 } else { weighted(net) },
                        own: weighted(own),
                    },
                });
            }
        }
        open
    }
}
