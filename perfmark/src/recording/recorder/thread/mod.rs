//! What a thread keeps: its recorder, the stack of open calls, and its plans of marks with their event sets. They own
//! each other, so these files import each other in any order.

pub(crate) mod tls;
pub(crate) mod call_token;
pub(crate) mod stack;
pub(crate) mod overhead;
pub(crate) mod state;
pub(crate) mod thinning;
pub(crate) mod event_set;
pub(crate) mod plan;
pub(crate) mod memory;
