//! What a marked call executes at entry and exit, and what a thread keeps for it.

mod thread_end;
mod cold_stack;
mod here;
mod counters;
mod part;
mod stack;
mod cost;
mod calibrate;
mod state;
mod draws;
mod plan;
mod slow;
mod fast;
mod options;
mod bind;
mod account;
mod polls;
mod home;
mod made;
mod left;
mod first_call;
mod in_flight;
mod enter;
mod poll;
mod call;
#[cfg(all(test, perfmark_loom))]
mod model;

pub(crate) use calibrate::Kinds;
pub use call::{Begun, Guard, begin, ended, enter};
pub(crate) use enter::{in_flight, prepare_process};
pub(crate) use first_call::close_thread;
pub(crate) use poll::{Running, cancel};
pub(crate) use polls::Polls;
pub(crate) use state::own_work;
