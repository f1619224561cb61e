//! Which samplings a thread takes part in, and plans for its skipped calls.
#![allow(unsafe_code, reason = "event sets and plans refer to it by pointers")]

use std::ptr;
use std::sync::Arc as Shared;

use crate::compact::index_or_push;
use crate::platform::sync::Arc;
use crate::recording::cells::{MarkCells, ThreadCells};
use crate::recording::mark::Mark;
use crate::recording::recorder::event_slots::EventSlots;
use crate::recording::recorder::hooks::look::look_now;
use crate::recording::recorder::hooks::options::SKIPPED_HOOKS;
use crate::recording::recorder::thread::{EventSet, Plan, Recorder};
use crate::recording::sampling::{self, SampledThread};

/// Of one thread. Event sets and plans refer to it, so it lives as long as they do.
#[derive(Default)]
pub(crate) struct Samplings {
    /// By the samplings' numbers.
    sampled: Vec<(u8, Arc<SampledThread>)>,
    skipped: Vec<SkippedCalls>,
}

impl Samplings {
    /// Lets calls of an event set take part in the sampling of its mode, if there is one. `innermost` is the number of
    /// the innermost open call, or 0.
    pub(crate) fn add_set(&mut self, set: &EventSet, innermost: u64, cells: &ThreadCells) {
        let number = set.mode.sampling;
        if number == 0 {
            return;
        }
        let new = || {
            let sampled = SampledThread::new(innermost);
            sampling::attach(number, cells.owner.id, &sampled);
            (number, sampled)
        };
        let index = index_or_push(&mut self.sampled, |(known, _)| *known == number, new);
        // SAFETY: `self` lives as long as the set.
        unsafe { set.sample(&raw const *self.sampled[index].1) };
    }

    /// Lets calls that the plan skips have frames, if calls are sampled and some are skipped.
    pub(crate) fn add_plan(&mut self, plan: &Plan) {
        if !plan.is_thinned() {
            return;
        }
        let known = self.skipped.iter().position(|skipped| skipped.is_of(plan));
        let index = known.or_else(|| {
            self.skipped.push(SkippedCalls::new(plan.cells.mark, plan.set())?);
            Some(self.skipped.len() - 1)
        });
        if let Some(index) = index {
            // SAFETY: `self` lives as long as the plan.
            unsafe { self.skipped[index].give_frames(plan) };
        }
    }

    /// Samples the thread that uses the resources of another one from now on.
    pub(crate) fn attach(&self, cells: &ThreadCells) {
        for (number, sampled) in &self.sampled {
            sampled.reuse();
            sampling::attach(*number, cells.owner.id, sampled);
        }
    }

    /// Ends what the thread has in its samplings.
    pub(crate) fn detach(&self, cells: &Arc<ThreadCells>) {
        for (_, sampled) in &self.sampled {
            if let Some(number) = sampling::detach(sampled, cells) {
                sampling::collect(number..=number);
            }
        }
    }

    /// Notes which call the thread's samples until now belong to.
    pub(crate) fn look(&self, recorder: &Recorder) {
        self.sampled.iter().for_each(|(_, sampled)| look_now(sampled, recorder));
    }

    /// Whether another thread can use it: a ring of samples belongs to its thread.
    pub(crate) fn is_unused(&self) -> bool {
        self.sampled.iter().all(|(_, sampled)| sampled.is_unused())
    }
}

/// What skipped calls of a mark need to have frames, so that samples of them are noted. Nothing is measured.
pub(crate) struct SkippedCalls {
    plan: Shared<Plan>,
    _no_events: Box<EventSet>,
}

impl SkippedCalls {
    /// Of a mark that has this event set. `None` if its calls are not sampled.
    pub(crate) fn new(mark: &'static Mark, set: &EventSet) -> Option<Self> {
        let sampled = set.sampled()?;
        let slots = EventSlots::default();
        // SAFETY: the set has no slot. BINDING: these hooks suit all plans.
        let no_events = Box::new(unsafe { EventSet::new(&[], &slots, set.mode, set.calibration_calls, SKIPPED_HOOKS) });
        // SAFETY: `sampled` is about this thread. Calls use `no_events` no longer than `set`, and `sampled` lives as
        // long as that.
        unsafe { no_events.sample(sampled) };
        let cells = MarkCells::new(mark, [].into(), 1);
        // SAFETY: the event set is kept with the plan.
        let plan = Shared::new(unsafe { Plan::new(cells, &no_events, 0, ptr::null()) });
        sampled.add_skipped(plan.clone());
        Some(Self { plan, _no_events: no_events })
    }

    /// Whether it is of the plan's mark and mode, which includes the sampling.
    fn is_of(&self, plan: &Plan) -> bool {
        ptr::eq(plan.cells.mark, self.plan.cells.mark) && plan.set().mode == self.plan.set().mode
    }

    /// Lets calls that the plan skips have frames.
    ///
    /// # Safety
    ///
    /// `self` lives as long as the plan.
    pub(crate) unsafe fn give_frames(&self, plan: &Plan) {
        // SAFETY: this function's contract.
        unsafe { plan.set_skipped(&raw const *self.plan) };
    }
}
