//! Snapshots: everything recorded, merged and converted to units, as plain data.

pub mod text;
pub(crate) mod path;
pub(crate) mod tree;
#[cfg(any(all(feature = "record", feature = "json"), feature = "serde"))]
mod of_event;
#[cfg(feature = "serde")]
mod limits;
pub(crate) mod samples;
#[cfg(feature = "record")]
pub(crate) mod origin;
#[cfg(feature = "serde")]
mod serde_format;
mod data;
pub(crate) mod quantile;
mod arithmetic;
#[cfg(feature = "record")]
mod known_calls;
mod graph;
mod sources;
mod sampled;
#[cfg(feature = "record")]
pub(crate) mod names;
#[cfg(feature = "symbols")]
pub mod symbols;

#[cfg(all(feature = "record", feature = "json"))]
pub(crate) use data::Schema;
pub use data::{Bucket, Event, Mark, Node, NodeValues, Overhead, Read, Snapshot, SourceText, Thread, Unit, Values};
#[cfg(all(feature = "record", feature = "json"))]
pub(crate) use of_event::OfEvent;
#[cfg(feature = "record")]
pub(crate) use sampled::ends_of_path;
#[cfg(feature = "record")]
pub use sampled::{HotFunction, HotLine, MarkedFunctions, SamplesByMark, StackFrame};
#[cfg(feature = "sampling")]
pub(crate) use samples::Counted;
pub use samples::{Frame, Location, Module, SampleTime, SampledPath, SampledStack, Samples, TimedThread};
#[cfg(all(feature = "record", any(feature = "html", feature = "json")))]
pub(crate) use sources::LinesOfFiles;
