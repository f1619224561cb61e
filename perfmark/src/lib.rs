#![doc = include_str!("../../README.md")]
#![deny(unsafe_code)]

mod snapshot;
pub use perfmark_macros::perfmark;
pub use snapshot::*;

#[cfg(feature = "record")]
mod cells;
#[cfg(feature = "record")]
mod collect;
#[cfg(feature = "record")]
mod config;
#[cfg(feature = "record")]
mod events;
#[cfg(feature = "record")]
mod exit;
#[cfg(feature = "record")]
mod histogram;
#[cfg(feature = "record")]
mod mark;
#[cfg(feature = "record")]
mod per_process;
#[doc(hidden)]
pub mod private;
#[cfg(feature = "record")]
mod recorder;
#[cfg(feature = "record")]
mod registry;
#[cfg(feature = "record")]
mod report;

/// Everything recorded until now, of all threads: those that ended and those that run.
///
/// Merges every thread's cells, which go on being written meanwhile: figures of a running thread may be a call apart from one another.
/// Costs microseconds for each mark and thread that called it, and takes a lock that only threads on their first call of a mark, or at
/// their end, wait for.
///
/// Without the feature `record` nothing is recorded, and the snapshot has no marks.
///
/// ```
/// use perfmark::perfmark;
///
/// #[perfmark(time)]
/// fn double(n: u64) -> u64 {
///     2 * n
/// }
///
/// double(21);
/// let snapshot = perfmark::snapshot();
/// let double = snapshot.marks.iter().find(|mark| mark.name == "double").expect("it was called");
/// assert_eq!(double.calls, 1);
/// assert_eq!(double.values[0].event, "time");
/// ```
#[must_use]
pub fn snapshot() -> Snapshot {
    #[cfg(feature = "record")]
    return collect::snapshot();
    #[cfg(not(feature = "record"))]
    Snapshot::default()
}
