//! Unusual signatures: each marked function compiles without a warning, and behaves as the unmarked one. Those that
//! need `unsafe` are in `unsafe_signatures.rs`.

#![forbid(unsafe_code)]
#![deny(
    warnings,
    clippy::pedantic,
    future_incompatible,
    nonstandard_style,
    rust_2018_idioms,
    unused,
    missing_debug_implementations,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unreachable_pub,
    unused_lifetimes,
    unused_qualifications
)]
// The expansion may not allow what lints forbid here.
#![forbid(clippy::allow_attributes, clippy::allow_attributes_without_reason, clippy::items_after_statements)]

mod attributes;
mod flow;
mod generics;
mod macros;
mod parameters;
mod receivers;
mod shadows;

/// Checks how often marks of this program were called. Each is given by the end of its path.
#[track_caller]
fn assert_calls(expected: &[(&str, u64)]) {
    if !cfg!(feature = "record") {
        return;
    }
    let marks = perfmark::snapshot().marks;
    for &(path, calls) in expected {
        // A function, and the regions in it.
        let found: Vec<_> = marks.iter().filter(|mark| mark.path == format!("signatures::{path}")).collect();
        let is_expected = found.iter().all(|mark| (mark.calls, mark.in_flight) == (calls, 0));
        assert!(!found.is_empty() && is_expected, "{calls} of {path}: {found:?}");
    }
}
