//! What records calls, from the static of a mark to a snapshot.

pub(crate) mod api_use;
mod event_reading;
mod event_table;
pub(crate) mod mark;
pub(crate) mod start;
pub(crate) mod cells;
pub(crate) mod recorder;
mod generic;
mod future;
pub(crate) mod collect;
pub(crate) mod measure;

pub use future::Polled;
pub use generic::of_types;

use self::mark::mark_settings;
use crate::settings::{Filter, SetFilterError};

const IN_HANDLER: &str = "set_filter was called in a signal handler that interrupted perfmark; call it elsewhere";

/// Puts a filter in force, unless a signal handler that interrupted perfmark's own work calls this.
pub(crate) fn set_filter(filter: &Filter) -> Result<(), SetFilterError> {
    let set = || {
        start::start();
        mark_settings::set(filter)
    };
    let in_handler = || Err(SetFilterError::of_all(IN_HANDLER));
    recorder::own_work(set).unwrap_or_else(in_handler)
}

/// The filter in force.
pub(crate) fn filter() -> Filter {
    mark_settings::filter().cloned().unwrap_or_default()
}
