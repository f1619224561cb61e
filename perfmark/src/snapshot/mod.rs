//! Snapshots: everything recorded, merged and converted to units, as plain data.

pub mod text;
pub(crate) mod path;
pub(crate) mod tree;
#[cfg(any(all(feature = "record", feature = "json"), feature = "serde"))]
mod of_event;
mod samples;
#[cfg(feature = "serde")]
mod serde_format;
mod data;
pub(crate) mod quantile;
mod arithmetic;
mod graph;
mod sample_sums;
#[cfg(feature = "record")]
pub(crate) mod names;
#[cfg(feature = "symbols")]
pub mod symbols;

pub use data::{Event, Mark, Node, NodeValues, Overhead, Read, Snapshot, Thread, Unit, Values};
#[cfg(all(feature = "record", feature = "json"))]
pub(crate) use of_event::OfEvent;
pub use samples::{Frame, Module, NamedAddress, SampledAddress, SampledPath, Samples};
