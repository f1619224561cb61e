//! The attribute on functions of many forms: each compiles without a warning under the strictest lints, behaves as the
//! unmarked one, and its calls are counted. Those that need `unsafe` are in `unsafe_signatures.rs`.

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

#[path = "../executor/mod.rs"]
mod executor;
#[macro_use]
#[path = "../twins/mod.rs"]
mod twins;

mod async_corners;
mod async_drops;
mod attributes;
mod basics;
mod compositions;
mod containers;
mod equal_names;
mod flow;
mod future_sizes;
mod generics;
mod macros;
mod parameters;
mod receivers;
mod regions;
mod shadows;
mod types;

/// The marks in this module, in the order of the source.
fn marks_of(module: &str) -> Vec<perfmark::Mark> {
    let inside = format!("{module}::");
    perfmark::snapshot().marks.into_iter().filter(|mark| mark.path.contains(&inside)).collect()
}

/// Checks how often marks of this program were called. Each is given by the end of its path.
#[track_caller]
fn assert_calls(expected: &[(&str, u64)]) {
    if !cfg!(feature = "record") {
        return;
    }
    let marks = perfmark::snapshot().marks;
    for &(path, calls) in expected {
        // A function, and the regions in it.
        let found: Vec<_> = marks.iter().filter(|mark| mark.path == format!("attribute::{path}")).collect();
        let is_expected = found.iter().all(|mark| (mark.calls, mark.in_flight) == (calls, 0));
        assert!(!found.is_empty() && is_expected, "{calls} of {path}: {found:?}");
    }
}
