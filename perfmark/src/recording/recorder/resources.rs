//! The resources of a thread's recorder: plans, counters, event sets and cells.
#![allow(unsafe_code, reason = "plans are found by pointers")]

use std::io;

use super::budget::Budget;
use super::counters::EventSlots;
#[cfg(feature = "sampling")]
use super::draws::Draws;
use super::plan::{EventSet, Plan};
#[cfg(feature = "sampling")]
use super::{options, slow};
use crate::platform::sync::Arc;
#[cfg(feature = "sampling")]
use crate::recording::cells::MarkCells;
use crate::recording::cells::graph::Graph;
#[cfg(feature = "sampling")]
use crate::recording::cells::sampled::SampledThread;
use crate::recording::cells::switched::Switched;
use crate::recording::cells::{Owner, ThreadCells};
#[cfg(feature = "sampling")]
use crate::recording::mark::Mark;
#[cfg(feature = "sampling")]
use crate::recording::sampling;
use crate::settings::recording::settings;

/// The most marks that resources may have to be reused by another thread.
const MAX_MARKS: usize = 64;

/// The resources of a thread's recorder. The thread's first calls of marks create them.
pub(super) struct Resources {
    /// They are owned by `cells` and live equally long.
    pub(super) plans: Vec<*const Plan>,
    pub(super) slots: EventSlots,
    /// The event sets of the thread's marks.
    #[allow(clippy::vec_box, reason = "pointers to them are kept")]
    pub(super) sets: Vec<Box<EventSet>>,
    /// The budgets of the thread's marks.
    #[allow(clippy::vec_box, reason = "pointers to them are kept")]
    pub(super) budgets: Vec<Box<Budget>>,
    pub(super) cells: Arc<ThreadCells>,
    /// The samplings that the thread took part in, with their numbers.
    #[cfg(feature = "sampling")]
    pub(super) sampled: Vec<(u8, Arc<SampledThread>)>,
    /// The plans of skipped calls whose samples are noted, and their event sets.
    #[cfg(feature = "sampling")]
    of_skipped: Vec<SkippedCalls>,
}

/// What skipped calls need to have frames, so that samples of them are noted. Nothing is measured.
#[cfg(feature = "sampling")]
pub(super) struct SkippedCalls {
    pub(super) plan: Box<Plan>,
    _no_events: Box<EventSet>,
}

#[cfg(feature = "sampling")]
impl SkippedCalls {
    /// Of a mark that has this event set.
    pub(super) fn new(mark: &'static Mark, set: &EventSet) -> Self {
        let hooks = if set.mode.is_polled { options::SKIPPED_POLL } else { slow::HOOKS };
        let no_events = Box::new(set.without_events(hooks));
        let cells = MarkCells::new(mark, [].into(), 1);
        // SAFETY: the event set is kept with the plan.
        let plan = Box::new(unsafe { Plan::new(cells, &no_events, None, Draws::default()) });
        Self { plan, _no_events: no_events }
    }
}

impl Resources {
    /// Empty resources of a thread that has no [owner](ThreadCells::give_to) yet.
    pub(super) fn new() -> io::Result<Self> {
        let graph = settings().has_call_graph.then(Graph::new).transpose()?;
        let cells = Arc::new(ThreadCells::new(Owner::default(), graph, Switched::new(0)));
        Ok(Self {
            plans: Vec::new(),
            slots: EventSlots::default(),
            sets: Vec::new(),
            budgets: Vec::new(),
            cells,
            #[cfg(feature = "sampling")]
            sampled: Vec::new(),
            #[cfg(feature = "sampling")]
            of_skipped: Vec::new(),
        })
    }

    pub(super) fn plans<'a>(&self) -> impl Iterator<Item = &'a Plan> + use<'a, '_> {
        // SAFETY: `cells` owns the plans, and CELLS: it lives as long as the recorder is used.
        self.plans.iter().map(|&plan| unsafe { &*plan })
    }

    /// A plan for skipped calls of a mark that has this event set.
    #[cfg(feature = "sampling")]
    pub(super) fn plan_of_skipped(&mut self, mark: &'static Mark, set: &EventSet) -> *const Plan {
        self.of_skipped.push(SkippedCalls::new(mark, set));
        &raw const *self.of_skipped[self.of_skipped.len() - 1].plan
    }

    /// Where samples of the thread's calls in this sampling are noted. `innermost` is the number of the innermost open
    /// call, or 0.
    #[cfg(feature = "sampling")]
    pub(super) fn sampled(&mut self, sampling: u8, innermost: u64) -> &SampledThread {
        let known = self.sampled.iter().position(|(number, _)| *number == sampling);
        let index = known.unwrap_or_else(|| {
            let sampled = SampledThread::new(innermost);
            sampling::attach(sampling, self.cells.owner.id, &sampled);
            self.sampled.push((sampling, sampled));
            self.sampled.len() - 1
        });
        &self.sampled[index].1
    }

    /// Samples the thread that uses the resources of another one from now on.
    #[cfg(feature = "sampling")]
    pub(super) fn attach(&self) {
        for (number, sampled) in &self.sampled {
            sampled.reuse();
            sampling::attach(*number, self.cells.owner.id, sampled);
        }
    }

    /// Ends what the thread has in its samplings.
    #[cfg(feature = "sampling")]
    pub(super) fn detach(&self) {
        for (_, sampled) in &self.sampled {
            if sampling::detach(sampled, &self.cells) {
                sampling::collect();
            }
        }
    }

    /// Whether another thread can use the resources: they are small and have no counters, and no snapshot reads the
    /// cells at the moment.
    pub(super) fn is_reusable(&mut self) -> bool {
        // A ring of samples belongs to its thread.
        #[cfg(feature = "sampling")]
        if self.sampled.iter().any(|(_, sampled)| !sampled.is_unused()) {
            return false;
        }
        // Not with `every`: its draws depend on the number of skipped calls in the cells, which reuse resets.
        let is_plain = |plan: &Plan| plan.cells.weight == 1 && plan.member().is_none() && plan.cells.is_complete();
        self.plans.len() <= MAX_MARKS
            && self.cells.arena.is_small()
            && self.cells.graph.is_none()
            && self.cells.switched.is_unused()
            && self.slots.iter().all(|slot| slot.is_ticks())
            && self.sets.iter().all(|set| set.overhead_key.borrow().is_some())
            && self.plans().all(is_plain)
            && Arc::get_mut(&mut self.cells).is_some()
    }
}
