//! What samples show: their sums and differences, the functions in their stacks, and where most of them are.

mod sums;
#[cfg(feature = "record")]
mod stack;
#[cfg(feature = "record")]
mod marked_functions;
#[cfg(feature = "record")]
mod hot_functions;
#[cfg(feature = "record")]
mod hot_lines;

#[cfg(feature = "record")]
pub use hot_functions::HotFunction;
#[cfg(feature = "record")]
pub use hot_lines::{HotLine, SamplesByMark};
#[cfg(feature = "record")]
pub use marked_functions::MarkedFunctions;
#[cfg(feature = "record")]
pub(crate) use marked_functions::ends_of_path;
#[cfg(feature = "record")]
pub use stack::StackFrame;
