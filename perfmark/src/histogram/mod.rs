//! A log-linear histogram over the whole `u64` range: 32 buckets an octave, so that a bucket's middle is within 1/64 of every value in
//! it. Values below 64 have a bucket each.

mod bucket;
mod cells;
mod frozen;

pub(crate) use cells::{Cells, add, whole};
pub(crate) use frozen::Frozen;
