//! The hooks: what a call executes at its begin and end. Each plan is bound to those that suit its mark and events.

pub(crate) mod reached;
pub(crate) mod own_work;
pub(crate) mod look;
pub(crate) mod split;
pub(crate) mod slow;
mod fast;
pub(crate) mod options;
pub(crate) mod bind;
#[cfg(perfmark_scripted)]
pub(crate) mod scripted;
