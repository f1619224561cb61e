//! Shared code of the benchmarks, which measure the cost of marks and of reading counters.

pub mod called;
pub mod table;
pub mod row;
pub mod clocks;
pub mod process;
pub mod record;
