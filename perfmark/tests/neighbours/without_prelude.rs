//! There is no prelude here, and its names mean something else.

#![no_implicit_prelude]
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, rust_2018_idioms, clippy::pedantic)]

/// Not the prelude's.
pub struct Some;
/// Not the prelude's.
pub trait Sized {}
/// Not the prelude's.
pub trait Drop {}
/// Not perfmark's.
pub mod perfmark {}

/// Marked.
#[::perfmark::perfmark(time, every = 3)]
#[must_use]
pub fn marked(n: u32) -> ::core::option::Option<u32> {
    let _guard = ::perfmark::region!("a guard", time);
    let half: u32 = ::perfmark::region!("half", time, { n.checked_div(2)? });
    half.checked_add(1)
}

/// A marked module.
#[::perfmark::perfmark(time)]
pub mod inner {
    /// Marked.
    pub fn nothing() {}
}
