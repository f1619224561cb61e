//! Snapshots: everything recorded, merged and converted to units, as plain data.

#[cfg(any(all(feature = "record", feature = "json"), feature = "serde"))]
mod of_event;
#[cfg(feature = "serde")]
mod form;
mod data;
pub(crate) mod quantile;
mod arithmetic;
mod graph;

pub use data::{Event, Mark, Node, NodeValues, Probe, Read, Snapshot, Thread, Unit, Values};
#[cfg(all(feature = "record", feature = "json"))]
pub(crate) use of_event::OfEvent;
