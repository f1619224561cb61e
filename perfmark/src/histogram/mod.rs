//! A log-linear histogram of values below 2^63: 32 buckets an octave, so that a bucket's middle is within 1/64 of every value in
//! it. Values below 64 have a bucket each.

mod bucket;
mod frozen;
mod cells;

pub(crate) use cells::{Cells, Span, add, shown, whole};
pub(crate) use frozen::{Frozen, ScaledEdges};
