//! What a marked call executes at entry and exit, and the state that each thread keeps for it.
//!
//! `CONTRIBUTING.md` draws the path of a call. A call begins and ends in `call`, which goes through `enter` to the
//! hooks in `fast` or `slow`; that of an async function in `future` and `poll`. A thread's first call of a mark goes to
//! `first_call`.

mod event_slots;
mod thread;
mod values;
mod hooks;
mod setup;
mod calls;
#[cfg(all(test, perfmark_loom))]
mod tests {
    mod model;
}

pub use calls::call::{Begun, Guard, begin, ended, enter};
pub(crate) use calls::enter::prepare_process;
pub use calls::future::Polled;
pub use calls::generic::of_types;
pub(crate) use calls::in_flight::in_flight;
#[cfg(perfmark_scripted)]
pub use hooks::scripted::{all_hooks, innermost, reached};
pub(crate) use setup::at_first_call::{at_first_call, not_begun};
pub use setup::first_call::seed_bursts;
pub(crate) use setup::first_call::{close_thread, note_samples};
pub(crate) use thread::{is_in_own_work, own_work};
