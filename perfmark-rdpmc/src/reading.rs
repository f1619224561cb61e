//! A counter's value at one moment, and the difference of two.

use crate::read::UserRead;

/// A counter's value at one moment, the time for which the event was enabled, and the time for which it was on the PMU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// Events counted since the counter was opened or last [reset](crate::Counter::reset), while it was on the PMU. A
    /// reset does not remove what ended children have added to an event that [inherits](crate::Attr::inherit).
    pub value: u64,
    /// Nanoseconds for which the event was enabled. A reading in user space may have the time of the page's last
    /// update: on some machines, such as most virtual ones with x86-64, the page does not help to compute the current
    /// time. [`Counter::read_syscall`](crate::Counter::read_syscall) has the time of the reading.
    pub enabled: u64,
    /// Nanoseconds for which the event was enabled and on the PMU; of the same moment as `enabled`.
    pub running: u64,
    /// How often the counter had been reset.
    pub(crate) resets: u32,
    /// Whether the times are older than the value. The difference of the two times is current all the same.
    pub(crate) has_stale_times: bool,
    /// The kind of core whose enabled time it has.
    pub(crate) clock: CoreClock,
}

/// For an event on several kinds of core: the kind whose enabled time a reading has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreClock {
    pub(crate) kind: u8,
    /// The uncertainty of its offset from the first kind's clock, in nanoseconds.
    pub(crate) uncertainty: u16,
}

impl CoreClock {
    /// That of a thread which is read by another one. The kinds of core are read one after another, and it is not known
    /// on which of them the thread is.
    pub(crate) const UNKNOWN: Self = Self { kind: u8::MAX, uncertainty: 0 };
}

impl From<UserRead> for Reading {
    #[inline]
    fn from(read: UserRead) -> Self {
        let UserRead { value, enabled, running, has_stale_times, .. } = read;
        Self { value, enabled, running, resets: 0, has_stale_times, clock: CoreClock::default() }
    }
}

/// What was counted between two readings of one counter.
///
/// These three cases are all that there are, so a `match` may be exhaustive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// The counter was on the PMU from the first reading to the second, except while it was stopped.
    Exact(u64),
    /// Other events used the hardware counter for part of the time.
    Scaled {
        /// `counted`, scaled to the total time.
        estimate: u64,
        /// The count itself.
        counted: u64,
    },
    /// Nothing is known, which is not zero. The counter was off the PMU the whole time, or was reset, or the program
    /// closed its descriptor. Or it went off the PMU for the first time, and the kernel's page does not show when the
    /// region began.
    Unmeasured,
}

impl Reading {
    /// What was counted since `earlier`, a reading of the same counter. A reading does not know its counter: between
    /// readings of two counters, the result means nothing.
    ///
    /// The difference of enabled and running time is the time off the PMU. If it has not grown, the count is exact.
    /// Otherwise the count is scaled over this region alone, never over the counter's lifetime.
    #[inline]
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Delta {
        let counted = self.value.wrapping_sub(earlier.value);
        let enabled = self.enabled.wrapping_sub(earlier.enabled);
        let running = self.running.wrapping_sub(earlier.running);
        // Between two kinds of core, a time off the PMU within the uncertainty of their clocks counts as none.
        let uncertainty = if self.clock.kind == earlier.clock.kind {
            0
        } else {
            u64::from(self.clock.uncertainty) + u64::from(earlier.clock.uncertainty)
        };
        // The times of a thread that another one reads may be of different moments.
        let is_ahead = self.clock == CoreClock::UNKNOWN && running > enabled;
        if self.resets != earlier.resets || self.value < earlier.value {
            Delta::Unmeasured
        } else if enabled.abs_diff(running) <= uncertainty || is_ahead {
            Delta::Exact(counted)
        } else if running == 0 || running > enabled || earlier.has_stale_times {
            Delta::Unmeasured
        } else {
            let estimate = u128::from(counted) * u128::from(enabled) / u128::from(running);
            Delta::Scaled { estimate: u64::try_from(estimate).unwrap_or(u64::MAX), counted }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: u64, enabled: u64, running: u64) -> Reading {
        Reading { value, enabled, running, ..Reading::default() }
    }

    #[test]
    fn a_region_is_exact_scaled_or_unmeasured() {
        let start = reading(100, 1_000, 600);
        assert_eq!(reading(150, 3_000, 2_600).since(&start), Delta::Exact(50));
        assert_eq!(reading(150, 3_000, 1_600).since(&start), Delta::Scaled { estimate: 100, counted: 50 });
        assert_eq!(reading(100, 3_000, 600).since(&start), Delta::Unmeasured, "never on the PMU is not zero");
        assert_eq!(reading(100, 1_000, 600).since(&start), Delta::Exact(0), "no event happened while it was counted");
    }

    #[test]
    fn a_thread_on_several_kinds_of_core_that_are_read_by_another_is_counted() {
        let on = |enabled, running| Reading { clock: CoreClock::UNKNOWN, ..reading(enabled, enabled, running) };
        let start = on(1_000, 990);
        assert_eq!(on(3_000, 3_000).since(&start), Delta::Exact(2_000), "the times are of different moments");
        assert!(matches!(on(3_000, 1_990).since(&start), Delta::Scaled { .. }));
        assert_eq!(on(3_000, 990).since(&start), Delta::Unmeasured);
    }

    #[test]
    fn scaling_does_not_overflow() {
        let end = reading(u64::MAX / 2, u64::MAX / 2, 1 << 40);
        assert_eq!(end.since(&reading(0, 0, 0)), Delta::Scaled { estimate: u64::MAX, counted: u64::MAX / 2 });
    }
}
