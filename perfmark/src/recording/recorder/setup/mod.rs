//! What a thread's first calls create, and what its end closes.

pub(crate) mod thread_end;
mod cold_stack;
mod samplings;
mod resources;
mod reuse;
pub(crate) mod calibrate;
pub(crate) mod at_first_call;
pub(crate) mod first_call;
