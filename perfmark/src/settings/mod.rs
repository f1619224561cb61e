//! What users set: filters, budgets, and the environment's settings for recording.

#[cfg(feature = "record")]
mod event_spec;
mod find_event;
pub(crate) mod event_list;
pub(crate) mod filter;
mod budget;
#[cfg(feature = "sampling")]
pub(crate) mod sampling;
#[cfg(feature = "record")]
pub(crate) mod environment;
#[cfg(feature = "record")]
pub(crate) mod recording;
#[cfg(feature = "record")]
pub(crate) mod counter_access;

pub use budget::{Budget, BudgetError};
#[cfg(feature = "record")]
pub(crate) use event_spec::{Allocated, EventSpec, OffCpuKind};
pub use filter::{Filter, FilterError, SettingsError};
#[cfg(feature = "record")]
pub(crate) use find_event::find_event;
