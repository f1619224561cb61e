//! What a process does by itself: the report at exit, dumps while it runs, and reports of scopes.

mod output_settings;
mod test_program;
mod copies;
mod naming;
mod dumps;
mod session;
pub(crate) mod exit;

pub use dumps::{Dumping, Dumps};
pub use session::Session;
