//! Knows perfmark only through another crate.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, rust_2018_idioms, clippy::pedantic)]

use facade::counters::{self, perfmark};

/// Marked, by a path relative to this module.
#[perfmark(time, crate = counters)]
pub fn marked() {}

/// A marked module. A path from the root is the same everywhere in it.
#[facade::perfmark(time, crate = facade::counters)]
pub mod inner {
    /// Marked.
    pub fn nothing() {}
}

facade::measured! {
    /// Made by the facade's macro.
    #[must_use]
    pub fn by_macro() -> u32 {
        facade::block!("a block", { 1 })
    }
}

/// With a region.
pub fn region() {
    let _guard = facade::counters::region!("a guard", time, crate = facade::counters);
}
