//! The guide: from the first mark to a gate in CI and a service in production, and how accurate its values are.
//!
//! | chapter | answers |
//! |---|---|
//! | [`start`] | how to have the first table in a minute, and marks in a library |
//! | [`table`] | what each column, symbol and note of the report means |
//! | [`formats`] | JSON, CSV, Markdown, HTML, flame graphs, OpenMetrics |
//! | [`lines`] | which line of a mark is hot: samples, their names, and other tools for them |
//! | [`events`] | which events to count for which question, how many at once, and what they cost |
//! | [`waiting`] | whether a call computed or waited: time off the CPU, blocked or preempted |
//! | [`benchmarks`] | measuring one piece of code; criterion and divan |
//! | [`gate`] | how to compare a program before and after a change, and fail CI |
//! | [`production`] | how a service measures itself for months: metrics, dumps, filters, faults |
//! | [`permissions`] | what the kernel, containers and sandboxes forbid, and how to allow it; every system call |
//! | [`accuracy`] | what is exact, what is estimated, and where the limits are |
//! | [`inside`] | how it works |

#[allow(unused_imports, reason = "chapters name them")]
use crate::{Report, Snapshot, measure, region};

#[doc = include_str!("start.md")]
pub mod start {}

#[doc = include_str!("table.md")]
pub mod table {}

#[doc = include_str!("formats.md")]
pub mod formats {}

#[doc = include_str!("lines.md")]
pub mod lines {}

#[doc = include_str!("events.md")]
pub mod events {}

#[doc = include_str!("waiting.md")]
pub mod waiting {}

#[doc = include_str!("benchmarks.md")]
pub mod benchmarks {}

#[doc = include_str!("gate.md")]
pub mod gate {}

#[doc = include_str!("production.md")]
pub mod production {}

#[doc = include_str!("permissions.md")]
pub mod permissions {}

#[doc = include_str!("accuracy.md")]
pub mod accuracy {}

#[doc = include_str!("inside.md")]
pub mod inside {}
