//! What a reading costs.

use crate::clock::ticks;
use crate::counter::Counter;

impl Counter {
    /// Ticks (of [`clock::ticks`](crate::clock::ticks)) that a user read and a `read(2)` take at best, of some batches of each; `None` for
    /// one that there is not, or that failed. It reads a thousand times, and so takes the better part of a millisecond.
    #[must_use]
    pub fn cost(&self) -> (Option<f64>, Option<f64>) {
        (fastest(|| self.read_user().is_some()), fastest(|| self.read_syscall().is_ok()))
    }
}

/// Ticks of the fastest of a few batches, for each reading; `None` if one fails. arm64's tick can last longer than a reading.
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
        // Ticks of two CPUs may differ.
        let Some(taken) = ticks().checked_sub(start) else { continue };
        best = Some(best.map_or(taken, |best| best.min(taken)));
    }
    best.map(|ticks| ticks as f64 / f64::from(BATCH))
}
