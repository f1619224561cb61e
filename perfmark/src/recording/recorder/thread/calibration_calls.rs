//! The calls that measure probe overhead.

use crate::recording::mark::Mark;

pub(crate) const CALLS: u32 = if cfg!(miri) { 2 } else { 32 };

/// The functions that calibration calls. They are empty, and marked as the attribute's expansion does it, or unmarked.
pub(crate) struct CalibrationCalls {
    pub(crate) unmarked: fn(),
    /// With `empty_mark`.
    pub(crate) marked: fn(),
    /// With `skipped_mark`, which is thinned.
    pub(crate) skipped: fn(),
    pub(crate) unmarked_caller: fn(),
    /// With `caller_mark`; calls `marked`.
    pub(crate) marked_caller: fn(),
    /// With `caller_mark`; calls `unmarked`.
    pub(crate) marked_caller_of_unmarked: fn(),
    /// With `caller_mark`; calls `skipped`.
    pub(crate) marked_caller_of_skipped: fn(),
    /// Calls that are suspended once, if calls are made of polls.
    pub(crate) unmarked_suspended: fn(),
    pub(crate) marked_suspended: fn(),
    /// With `empty_mark` and not made of polls: one call runs to its end, the other is left by `return`.
    pub(crate) completed: fn(),
    pub(crate) returned_early: fn(),
    pub(crate) empty_mark: &'static Mark,
    pub(crate) caller_mark: &'static Mark,
    pub(crate) skipped_mark: &'static Mark,
    /// The calls of marks that are thinned, if their marked functions begin them in another way.
    pub(crate) if_thinned: Option<&'static Self>,
}

impl std::fmt::Debug for CalibrationCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CalibrationCalls").finish_non_exhaustive()
    }
}
