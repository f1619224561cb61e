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
    /// How often the counter had been reset.
    pub(crate) resets: u32,
    /// Whether the times are of an earlier moment than the value. Their difference is of this moment all the same.
    pub(crate) is_late: bool,
    /// Whose enabled time it is.
    pub(crate) clock: Clock,
}

/// Where the event is on several kinds of core, the one whose enabled time a reading has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) kind: u8,
    /// Nanoseconds that it may be off from the first kind's.
    pub(crate) within: u16,
}

impl From<UserRead> for Reading {
    #[inline]
    fn from(read: UserRead) -> Self {
        let UserRead { value, enabled, running, is_late, .. } = read;
        Self { value, enabled, running, resets: 0, is_late, clock: Clock::default() }
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
    /// The counter was off the PMU, or was reset, or the program closed its descriptor; or it went off the PMU for the
    /// first time where the kernel's page does not tell when the region began. Nothing is known, which is not zero.
    Unmeasured,
}

impl Reading {
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
        // Between kinds of core whose clocks are known to within some nanoseconds, so much time off the PMU is none.
        let within = if self.clock.kind == earlier.clock.kind {
            0
        } else {
            u64::from(self.clock.within) + u64::from(earlier.clock.within)
        };
        if self.resets != earlier.resets || self.value < earlier.value {
            Delta::Unmeasured
        } else if enabled.abs_diff(running) <= within {
            Delta::Exact(counted)
        } else if running == 0 || running > enabled || earlier.is_late {
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
    fn whole_or_not_at_all() {
        let start = reading(100, 1_000, 600);
        assert_eq!(reading(150, 3_000, 2_600).since(&start), Delta::Exact(50));
        assert_eq!(reading(150, 3_000, 1_600).since(&start), Delta::Scaled { estimate: 100, counted: 50 });
        assert_eq!(reading(100, 3_000, 600).since(&start), Delta::Unmeasured, "never on the PMU is not zero");
        assert_eq!(reading(100, 1_000, 600).since(&start), Delta::Exact(0), "nothing happened, and it was seen");
    }

    #[test]
    fn a_reset_in_between_is_unmeasured_also_where_the_value_did_not_fall() {
        let start = reading(100, 1_000, 600);
        assert_eq!(reading(99, 3_000, 2_600).since(&start), Delta::Unmeasured);
        assert_eq!(Reading { resets: 1, ..reading(150, 3_000, 2_600) }.since(&start), Delta::Unmeasured);
    }

    #[test]
    fn times_of_an_earlier_moment_scale_nothing() {
        let start = Reading { is_late: true, ..reading(100, 1_000, 1_000) };
        assert_eq!(reading(150, 3_000, 3_000).since(&start), Delta::Exact(50));
        assert_eq!(reading(150, 3_000, 2_000).since(&start), Delta::Unmeasured);
    }

    #[test]
    fn scaling_does_not_overflow() {
        let end = reading(u64::MAX / 2, u64::MAX / 2, 1 << 40);
        assert_eq!(end.since(&reading(0, 0, 0)), Delta::Scaled { estimate: u64::MAX, counted: u64::MAX / 2 });
    }
}
