//! Sorting, maps and sets with little code.
//!
//! The standard library compiles sorting, and each operation of its maps and sets, for each type again: some 5 KB for
//! each of them, in every program with a mark. Here, only what compares and moves items is compiled for each
//! type: functions that are not generic are never inlined.

pub(crate) use self::map::{Collect, Map, Set, index_or_push};
pub(crate) use self::sort::sort_by;
#[cfg(feature = "record")]
pub(crate) use self::sort::sort_by_key;

mod sort;
// Imports what is above it.
mod map;
