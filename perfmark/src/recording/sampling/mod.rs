//! Samples: where the program is at regular moments, and in which call of a mark.
//!
//! Each thread has a ring, to which the kernel writes the thread's samples. A call notes up to which position of the
//! ring samples belong to it ([`sampled`](super::cells::sampled)). A thread of perfmark's own reads rings and notes,
//! and adds the samples to their paths of marks.

mod totals;
mod threads;

pub(crate) use threads::{attach, collect, counts, detach, disable, enable};
