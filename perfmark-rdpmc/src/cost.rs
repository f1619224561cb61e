//! The cost of a reading.

use crate::clock::ticks;
use crate::counter::Counter;

impl Counter {
    /// The ticks (of [`clock::ticks`](crate::clock::ticks)) of a user-space read and of a `read(2)`, each from the
    /// fastest of some batches. `None` if that way of reading is not available, or failed. It reads a thousand times,
    /// which takes most of a millisecond.
    #[doc(hidden)]
    #[must_use]
    pub fn cost(&self) -> (Option<f64>, Option<f64>) {
        (fastest(|| self.read_user().is_some()), fastest(|| self.read_syscall().is_ok()))
    }
}

/// Ticks per reading, of the fastest of some batches; `None` if a reading fails. Batches are needed because a tick on
/// arm64 can be longer than a reading.
fn fastest(read: impl Fn() -> bool) -> Option<f64> {
    const BATCHES: usize = 16;
    const BATCH: u32 = 32;
    let mut best: Option<u64> = None;
    for _ in 0..BATCHES {
        let start = ticks();
        for _ in 0..BATCH {
            if !read() {
                return None;
            }
        }
        // The ticks of two CPUs may differ.
        let Some(taken) = ticks().checked_sub(start) else { continue };
        best = Some(best.map_or(taken, |best| best.min(taken)));
    }
    best.map(|ticks| ticks as f64 / f64::from(BATCH))
}
