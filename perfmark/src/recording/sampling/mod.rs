//! Samples: where the program is at regular moments, and in which call of a mark.
//!
//! Each thread has a ring, to which the kernel writes the thread's samples. A call notes up to which position of the
//! ring samples belong to it ([`notes`]). A thread of perfmark's own, the collector, opens the rings of all threads,
//! reads rings and notes, and adds the samples to their paths of marks.

mod notes;
mod task;
mod unwind;
mod totals;
mod first_period;
mod rings;
mod wake;
mod threads;
mod reading;
mod collector;
mod merged;

pub(crate) use collector::{Round, available, collect, disable, enable, restart, round, snapshot_notes};
pub(crate) use merged::samples;
pub(crate) use notes::{SampledThread, TOO_DEEP, UNKNOWN, Watch};
pub(crate) use threads::{attach, detach, set_wake};
pub(crate) use wake::WakePipe;
