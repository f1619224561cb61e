//! Re-exports perfmark to crates that do not depend on it.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, rust_2018_idioms, clippy::pedantic)]

pub use perfmark as counters;
#[doc(hidden)]
pub use perfmark::perfmark;

/// Makes a marked function, wherever it is called.
#[macro_export]
macro_rules! measured {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident() -> $type:ty $body:block) => {
        $(#[$attribute])*
        #[$crate::perfmark(time, crate = $crate::counters)]
        $visibility fn $name() -> $type $body
    };
}

/// A measured block.
#[macro_export]
macro_rules! block {
    ($name:literal, $body:block) => {
        $crate::counters::region!($name, time, crate = $crate::counters, $body)
    };
}
