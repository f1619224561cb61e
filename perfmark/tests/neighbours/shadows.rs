//! Names of the prelude mean something else here.

use perfmark::{perfmark, region};

/// Not the prelude's.
#[derive(Clone, Copy, Debug)]
pub struct Option;

/// Not the prelude's.
#[derive(Clone, Copy, Debug)]
pub struct Result;

/// Not the prelude's.
pub trait Drop {}

/// Not the prelude's.
pub trait Fn {}

/// Not the standard library's.
pub mod core {}

/// Not the standard library's.
pub mod std {}

/// Not the prelude's.
pub const fn drop() {}

/// Marked, with these names around it.
#[perfmark]
#[must_use]
pub fn marked(n: u32) -> u32 {
    let _guard = region!("a guard", time);
    region!("a block", time, { n.count_ones() })
}
