//! What a thread's first calls of marks made.
#![allow(unsafe_code, reason = "plans are found by pointers")]

use std::io;

use super::counters::EventSlots;
use super::plan::{EventSet, Plan};
use crate::cells::{Owner, ThreadCells};
use crate::config::config;
use crate::graph::Graph;
use crate::switched::Switched;
use crate::sync::Arc;

/// Marks of which another thread can use what was made, at most.
const MAX_MARKS: usize = 64;

/// What a thread's first calls of marks made, and only they change.
pub(super) struct Resources {
    /// They live as long as the cells.
    pub(super) plans: Vec<*const Plan>,
    pub(super) slots: EventSlots,
    /// The sets of events that its marks have.
    #[allow(clippy::vec_box, reason = "pointers to them are kept")]
    pub(super) sets: Vec<Box<EventSet>>,
    pub(super) cells: Arc<ThreadCells>,
}

impl Resources {
    /// Nothing yet, for a thread that is still to be [named](ThreadCells::give_to).
    pub(super) fn new() -> io::Result<Self> {
        let graph = config().has_call_graph.then(Graph::new).transpose()?;
        let cells = Arc::new(ThreadCells::new(Owner::default(), graph, Switched::new(0)));
        Ok(Self { plans: Vec::new(), slots: EventSlots::default(), sets: Vec::new(), cells })
    }

    pub(super) fn plans<'a>(&self) -> impl Iterator<Item = &'a Plan> + use<'a, '_> {
        // SAFETY: they live as long as the cells.
        self.plans.iter().map(|&plan| unsafe { &*plan })
    }

    /// Whether another thread can use it: it is small, has no counter, and no snapshot is reading its cells.
    pub(super) fn is_reusable(&mut self) -> bool {
        // Of calls that `every` skips the cells know which one is drawn next.
        let is_plain = |plan: &Plan| plan.cells.weight == 1 && plan.cells.is_complete();
        self.plans.len() <= MAX_MARKS
            && self.cells.arena.is_small()
            && self.cells.graph.is_none()
            && self.cells.switched.is_unused()
            && self.slots.iter().all(|slot| slot.counter().is_none())
            && self.sets.iter().all(|set| set.overhead_key.borrow().is_some())
            && self.plans().all(is_plain)
            && Arc::get_mut(&mut self.cells).is_some()
    }
}
