//! What perfmark needs from the operating system, and works around.

pub(crate) mod errno;
pub(crate) mod sync;
pub(crate) mod per_process;
pub(crate) mod arena;
pub(crate) mod thread_id;
pub(crate) mod usage;
pub(crate) mod alarm;
pub(crate) mod signals;
pub(crate) mod descriptors;
pub(crate) mod terminal;
pub(crate) mod token;
pub(crate) mod program;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
pub(crate) mod objects;
#[cfg(feature = "sampling")]
pub(crate) mod modules;
pub(crate) mod files;
