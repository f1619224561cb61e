//! What a marked call executes at its ends, and what a thread keeps for it.

mod identity;
mod cold_stack;
mod sources;
mod frames;
mod plan;
mod probe;
mod long;
mod graph;
mod options;
mod empty;
mod calibrate;
mod thread_end;
mod first_call;
mod account;
mod polls;
mod in_flight;
mod thread;
#[cfg(all(test, perfmark_loom))]
mod model;

pub(crate) use plan::shown;
pub(crate) use polls::{Outcome, Polls, begin_poll, cancel, end_poll};
pub(crate) use thread::{
    Call, close_thread, enter, enter_unusual, in_flight, leave, leave_early, note_panic, own_work, prepare_process,
};
