//! What a marked call executes at its ends, and what a thread keeps for it.

mod frames;
mod probe;
mod sources;
mod thread;
mod thread_end;

pub(crate) use probe::Token;
pub(crate) use thread::{enter, leave, own_work};
