//! What the expansion of the attribute calls.

mod in_flight;
pub(crate) mod enter;
mod packed_cost;
mod polled_call;
mod poll;
pub(crate) mod call;
pub(crate) mod generic;
pub(crate) mod future;
