//! What the attribute's expansion calls, and the open calls for a snapshot.

pub(crate) mod in_flight;
pub(crate) mod enter;
mod packed_cost;
mod polled_call;
mod poll;
pub(crate) mod call;
pub(crate) mod generic;
pub(crate) mod future;
