//! What a marked call executes at entry and exit, and the state that each thread keeps for it.
//!
//! `CONTRIBUTING.md` draws the path of a call and lists the job of each file. A call begins and ends in `call`, which
//! goes through `enter` to the hooks in `fast` or `slow`. A thread's first call of a mark goes to `first_call`.

mod thread_end;
mod cold_stack;
mod counters;
mod thread;
mod event_cost;
mod calibrate;
mod reached;
mod off_cpu;
mod own_work;
mod look;
mod split;
mod slow;
mod fast;
mod options;
mod bind;
#[cfg(perfmark_scripted)]
mod scripted;
mod packed_cost;
mod polled_call;
mod samplings;
mod resources;
mod reuse;
mod at_first_call;
mod first_call;
mod in_flight;
mod enter;
mod poll;
mod call;
#[cfg(all(test, perfmark_loom))]
mod tests {
    mod model;
}

pub(crate) use at_first_call::{at_first_call, not_begun};
pub use call::{Begun, Guard, begin, ended, enter};
pub(crate) use enter::{in_flight, prepare_process};
pub use first_call::seed_bursts;
pub(crate) use first_call::{close_thread, note_samples};
pub(crate) use poll::{RunningPoll, cancel};
pub(crate) use polled_call::PolledCall;
#[cfg(perfmark_scripted)]
pub use scripted::{all_hooks, innermost, reached};
pub(crate) use thread::calibration_calls::CalibrationCalls;
pub(crate) use thread::state::own_work;
