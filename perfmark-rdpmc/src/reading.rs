//! What a counter says, and what lies between two sayings.

use crate::read::UserRead;

/// A counter's value at one moment, with the nanoseconds for which the event was enabled and, of these, on the PMU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Events counted since the counter was opened, while it was on the PMU.
    pub value: u64,
    /// Nanoseconds enabled.
    pub enabled: u64,
    /// Nanoseconds enabled and on the PMU.
    pub running: u64,
}

impl From<UserRead> for Reading {
    #[inline]
    fn from(read: UserRead) -> Self {
        Self { value: read.value, enabled: read.enabled, running: read.running }
    }
}

/// What was counted between two readings of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// The counter was on the PMU from the first reading to the second, as far as it was not stopped.
    Exact(u64),
    /// Other events took its place for a part of the time.
    Scaled {
        /// `counted` scaled to the whole time.
        estimate: u64,
        /// What was really counted.
        counted: u64,
    },
    /// The counter was off the PMU, or its value fell because it was reset: nothing is known, which is not zero. (A reset is always seen by
    /// regions; by the difference of two readings only if the value fell.)
    Unmeasured,
}

impl Reading {
    /// Adds the same event's reading on another kind of core. Each is enabled all the time and runs on its own kind only: raw counts are
    /// added, never scaled each, and the sum was on a PMU as long as its parts together.
    pub(crate) fn with_other_cores(self, other: &Self) -> Self {
        Self {
            value: self.value.wrapping_add(other.value),
            enabled: self.enabled.max(other.enabled),
            running: self.running.wrapping_add(other.running),
        }
    }

    /// What was counted since `earlier`, a reading of the same counter.
    ///
    /// The difference of enabled and running times is the time off the PMU; if it has not grown, the count is exact. Otherwise the
    /// count is scaled over this region alone, never over the counter's life.
    #[inline]
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Delta {
        let counted = self.value.wrapping_sub(earlier.value);
        let enabled = self.enabled.wrapping_sub(earlier.enabled);
        let running = self.running.wrapping_sub(earlier.running);
        if self.value < earlier.value {
            Delta::Unmeasured
        } else if enabled == running {
            Delta::Exact(counted)
        } else if running == 0 || running > enabled {
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
        Reading { value, enabled, running }
    }

    #[test]
    fn whole_or_not_at_all() {
        let start = reading(100, 1_000, 600);
        assert_eq!(reading(150, 3_000, 2_600).since(&start), Delta::Exact(50));
        assert_eq!(reading(150, 3_000, 1_600).since(&start), Delta::Scaled { estimate: 100, counted: 50 });
        assert_eq!(reading(100, 3_000, 600).since(&start), Delta::Unmeasured, "never on the PMU is not zero");
        assert_eq!(reading(100, 1_000, 600).since(&start), Delta::Exact(0), "nothing happened, and it was seen");
    }

    #[test]
    fn kinds_of_core_are_added_and_exact_while_one_of_them_counts() {
        let both = |performance: Reading, efficiency: Reading| performance.with_other_cores(&efficiency);
        let start = both(reading(100, 1_000, 700), reading(10, 1_000, 300));
        let end = both(reading(150, 3_000, 1_200), reading(40, 3_000, 1_800));
        assert_eq!(end.since(&start), Delta::Exact(80));
        // Half of the time on a core whose PMU others held.
        let end = both(reading(150, 3_000, 1_200), reading(40, 3_000, 800));
        assert_eq!(end.since(&start), Delta::Scaled { estimate: 160, counted: 80 });
    }

    #[test]
    fn a_reset_in_between_is_unmeasured() {
        assert_eq!(reading(99, 3_000, 2_600).since(&reading(100, 1_000, 600)), Delta::Unmeasured);
    }

    #[test]
    fn scaling_does_not_overflow() {
        let end = reading(u64::MAX / 2, u64::MAX / 2, 1 << 40);
        assert_eq!(end.since(&reading(0, 0, 0)), Delta::Scaled { estimate: u64::MAX, counted: u64::MAX / 2 });
    }
}
