//! What threads record, and everybody may read: histograms, totals, the call graph, and the list of all threads' cells.

pub(crate) mod histogram;
pub(crate) mod graph;
mod switched;
mod mark_cells;
mod event_cost;
pub(crate) mod registry;

pub(crate) use event_cost::EventCost;
pub(crate) use graph::{Graph, Known, Node};
pub(crate) use histogram::{Span, add};
pub(crate) use mark_cells::*;
pub(crate) use switched::{CALLS, RANGES, ROOM, Switched};
