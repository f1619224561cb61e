//! What a marked call executes at its ends, and what a thread keeps for it.

mod errno;
mod sources;
mod frames;
mod probe;
mod thread_end;
mod thread;

pub(crate) use probe::Token;
pub(crate) use thread::{enter, leave, own_work, prepare_process};
