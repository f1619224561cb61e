//! perfmark is called `counters` here.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, rust_2018_idioms, clippy::pedantic)]

use counters::{perfmark as measured, region};

/// Marked.
#[measured(time, crate = counters)]
pub fn marked() {}

/// By a path from the root.
#[counters::perfmark(crate = ::counters)]
pub fn marked_from_the_root() {}

/// A marked module, with items inside.
#[measured(time, crate = ::counters)]
pub mod inner {
    /// Marked.
    pub fn nothing() {}

    /// Has a method.
    #[derive(Clone, Copy, Debug)]
    pub struct Unit;

    impl Unit {
        /// Marked.
        pub fn method(self) {}

        /// Left out.
        #[counters::perfmark(skip)]
        pub fn left_out(self) {}
    }
}

/// With regions.
#[must_use]
pub fn regions(n: u32) -> u32 {
    let _guard = region!("a guard", crate = counters);
    region!("a block", time, crate = counters, { n.count_ones() })
}
