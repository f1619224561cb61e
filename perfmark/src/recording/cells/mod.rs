//! What threads record, and everybody may read: histograms, totals, the call graph, and the list of all threads' cells.

pub(crate) mod histogram;
pub(crate) mod graph;
pub(crate) mod switched;
mod mark_cells;
pub(crate) mod event_cost;
pub(crate) mod registry;

pub(crate) use mark_cells::*;
