//! Libraries that are opened while the program runs, and carry a perfmark of their own.

pub(crate) fn opens_one() {}
