//! Where perfmark's cold work has no separate stack.

/// Runs `work` on the thread's own stack.
pub(crate) fn on_cold_stack<R>(work: impl FnOnce() -> R) -> R {
    work()
}
