//! The hooks: what a call executes at entry and exit. Each plan is bound to those that suit its mark and events. Calls
//! that a panic ends, that end on another thread, or that are left inside others end without hooks, in `calls/enter`
//! and `slow`; but a poll that a panic ends is closed by its hook.

pub(crate) mod reached;
pub(crate) mod look;
pub(crate) mod slow;
mod fast;
pub(crate) mod options;
pub(crate) mod bind;
#[cfg(perfmark_scripted)]
pub(crate) mod scripted;
