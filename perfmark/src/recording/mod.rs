//! What records calls, from the static of a mark to a snapshot.

mod random;
pub(crate) mod allocated;
mod events;
pub(crate) mod mark;
pub(crate) mod start;
mod reading;
pub(crate) mod cells;
#[cfg_attr(not(feature = "sampling"), path = "sampling/off.rs")]
pub(crate) mod sampling;
pub(crate) mod recorder;
pub(crate) mod collect;
#[cfg(feature = "sampling")]
pub(crate) mod sample;
pub(crate) mod measure;

pub(crate) use self::mark::mark_settings::budget;
use self::mark::mark_settings::{self, IN_HANDLER};
use crate::settings::{Budget, Filter, SettingsError};

/// Puts a filter in force, unless a signal handler that interrupted perfmark's own work calls this.
pub(crate) fn set_filter(filter: &Filter) -> Result<(), SettingsError> {
    change(|| mark_settings::set(filter))
}

/// Sets or removes the filter of the session with that number, with the same exception.
pub(crate) fn set_filter_in_session(session: u64, filter: Option<&Filter>) -> Result<(), SettingsError> {
    change(|| mark_settings::set_in_session(session, filter))
}

/// Puts a budget in force, with the same exception.
pub(crate) fn set_budget(budget: Option<Budget>) -> Result<(), SettingsError> {
    change(|| mark_settings::set_budget(budget))
}

fn change(set: impl FnOnce() -> Result<(), SettingsError>) -> Result<(), SettingsError> {
    let started = || {
        start::start();
        set()
    };
    recorder::own_work(started).unwrap_or_else(|| Err(SettingsError::of_all(IN_HANDLER)))
}

/// The filter in force.
pub(crate) fn filter() -> Filter {
    mark_settings::filter().cloned().unwrap_or_default()
}
