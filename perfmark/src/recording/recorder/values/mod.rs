//! What a thread's calls have cost so far, apart from what exit computes.

pub(crate) mod off_cpu;
pub(crate) mod exclude_work;
pub(crate) mod open_calls;
pub(crate) mod self_estimate;
