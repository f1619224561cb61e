//! Marks: their statics, those known before `main`, and their settings.

pub(crate) mod entry;
mod by_type;
mod definition;
pub(crate) mod linked;
pub(crate) mod defaults;
pub(crate) mod mark_settings;

pub use definition::Mark;
pub(crate) use definition::{CallMode, Measured, called};
