//! Items for the attribute's expansion. They are not part of the versioned interface.

// A module in a browser (wasm32-unknown-unknown) has no clock: `Instant::now` panics.
#[cfg_attr(
    all(feature = "record", not(perfmark_off), not(all(target_family = "wasm", target_os = "unknown"))),
    path = "recorded.rs"
)]
#[cfg_attr(
    not(all(feature = "record", not(perfmark_off), not(all(target_family = "wasm", target_os = "unknown")))),
    path = "unrecorded.rs"
)]
mod expansion;

pub use self::expansion::*;
pub use crate::{
    __perfmark_begun as begun, __perfmark_defaults as defaults, __perfmark_guard as guard, __perfmark_mark as mark,
    __perfmark_polled as polled,
};

/// A value of any type, in a branch that never runs.
#[doc(hidden)]
#[must_use]
pub fn never<T>() -> T {
    unreachable!("not called")
}

/// The type itself. Lints on the types of variables do not see through it.
#[doc(hidden)]
pub type Same<T> = T;

#[cfg(feature = "record")]
#[doc(hidden)]
pub mod recording {
    pub use inventory;

    #[cfg(perfmark_scripted)]
    pub use crate::recording::allocated::count as allocate;
    pub use crate::recording::mark::Mark;
    pub use crate::recording::mark::defaults::Defaults;
    pub use crate::recording::mark::linked::Batch;
    pub use crate::recording::recorder::{Begun, Guard, Polled, begin, ended, enter, of_types, seed_bursts};
    #[cfg(perfmark_scripted)]
    pub use crate::recording::recorder::{all_hooks, innermost, reached};
}
#[cfg(feature = "record")]
pub use recording::{Batch, Begun, Defaults, Guard, Mark, Polled, begin, enter, inventory, of_types, seed_bursts};
