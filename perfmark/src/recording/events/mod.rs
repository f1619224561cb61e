//! The events that marks request, and their values.

pub(crate) mod reading;
pub(crate) mod table;
