//! A log-linear histogram of values below 2^63: 32 buckets per octave, so that the middle of a bucket is within 1/64 of
//! every value in it. Values below 64 have a bucket each.

mod bucket;
mod frozen;
mod cells;

pub(crate) use cells::{Cells, Span, add, shown, widened};
pub(crate) use frozen::{Frozen, scaled_edges};
