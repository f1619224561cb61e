//! What a marked call executes at its ends, and what a thread keeps for it.

mod frames;
mod sources;
mod thread;
mod thread_end;

pub(crate) use thread::{Token, enter, leave, own_work};
