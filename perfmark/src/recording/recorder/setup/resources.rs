//! The resources of a thread's recorder: plans, counters, event sets and cells.
#![allow(unsafe_code, reason = "plans are found by pointers")]

use std::io;

use super::samplings::Samplings;
use crate::platform::sync::Arc;
use crate::recording::cells::{Graph, ThreadCells};
use crate::recording::recorder::event_slots::EventSlots;
use crate::recording::recorder::thread::{
    EventSet, Plan, Thinning,
    memory::{Owned, RecorderPtr},
};
use crate::settings::recording::settings;

/// The most marks that resources may have to be reused by another thread.
const MAX_MARKS: usize = 64;

/// The resources of a thread's recorder. The thread's first calls of marks create them.
pub(crate) struct Resources {
    /// Its memory is owned by `cells`.
    pub(crate) recorder: RecorderPtr,
    /// They are owned by `cells` and live equally long.
    pub(crate) plans: Vec<*const Plan>,
    pub(crate) slots: Box<EventSlots>,
    /// The event sets of the thread's marks.
    #[allow(clippy::vec_box, reason = "pointers to them are kept")]
    pub(crate) sets: Vec<Box<EventSet>>,
    /// What chooses which marks are thinned.
    pub(crate) thinning: Box<Thinning>,
    pub(crate) cells: Arc<ThreadCells>,
    pub(crate) samplings: Samplings,
}

impl Resources {
    /// Empty resources of this recorder, or of a new one.
    pub(crate) fn new(existing: Option<RecorderPtr>) -> io::Result<Self> {
        let graph = settings().has_call_graph.then(Graph::new).transpose()?;
        let recorder = existing.map_or_else(RecorderPtr::allocate, Ok)?;
        // SAFETY: threads use the recorder no longer than its cells, whose destructor drops this.
        let memory = Box::new(unsafe { Owned::new(recorder) });
        Ok(Self {
            recorder,
            plans: Vec::new(),
            slots: Box::default(),
            sets: Vec::new(),
            thinning: Box::new(Thinning::new()),
            cells: Arc::new(ThreadCells::new(graph, Some(memory))),
            samplings: Samplings::default(),
        })
    }

    pub(crate) fn plans<'a>(&self) -> impl Iterator<Item = &'a Plan> + use<'a, '_> {
        // SAFETY: `cells` owns the plans, and CELLS: it lives as long as the recorder is used.
        self.plans.iter().map(|&plan| unsafe { &*plan })
    }

    /// Those with this slot.
    pub(crate) fn plans_at<'a>(&self, slot: u32) -> impl Iterator<Item = &'a Plan> + use<'a, '_> {
        self.plans().filter(move |plan| plan.slot == slot)
    }

    /// Whether another thread can use the resources: they are small and have no counters, and no snapshot reads the
    /// cells at the moment.
    pub(crate) fn is_reusable(&mut self) -> bool {
        let is_plain = |plan: &Plan| plan.member().is_none() && plan.cells.is_complete();
        self.plans.len() <= MAX_MARKS
            && self.samplings.is_unused()
            && self.cells.arena.is_small()
            && self.cells.graph.is_none()
            && self.cells.switched.is_unused()
            && self.slots.iter().all(|slot| slot.is_ticks())
            && self.sets.iter().all(|set| set.overhead_key.borrow().is_some())
            && self.plans().all(is_plain)
            && Arc::get_mut(&mut self.cells).is_some()
    }
}
