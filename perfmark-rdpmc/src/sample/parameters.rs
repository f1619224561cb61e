//! Clocks, the actions on traces, and the periods that are chosen where none is given.

use crate::event::{Event, Hardware, Kind};

/// The clock of the times in records (`clock_gettime(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Clock {
    /// The kernel's own clock of perf events, which starts at the machine's start.
    #[default]
    Perf,
    /// `CLOCK_MONOTONIC`, as `std::time::Instant`.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`.
    MonotonicRaw,
    /// `CLOCK_REALTIME`, as `std::time::SystemTime`.
    Realtime,
    /// `CLOCK_BOOTTIME`.
    Boottime,
    /// `CLOCK_TAI`.
    Tai,
}

impl Clock {
    /// The number in `include/uapi/linux/time.h`.
    pub(super) fn id(self) -> Option<u64> {
        match self {
            Self::Perf => None,
            Self::Realtime => Some(0),
            Self::Monotonic => Some(1),
            Self::MonotonicRaw => Some(4),
            Self::Boottime => Some(7),
            Self::Tai => Some(11),
        }
    }
}

/// What an event in the group of a trace does to that trace (linux 6.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuxAction {
    /// For the trace itself: starts paused.
    StartPaused = 1 << 0,
    /// Pauses the trace.
    Pause = 1 << 1,
    /// Resumes the trace.
    Resume = 1 << 2,
}

/// About 1 ms on clocks; on cycles a few thousand samples a second.
const MILLION: u64 = 1_000_003;
/// For events that are rarer than cycles.
const TEN_THOUSAND: u64 = 10_007;

/// The period if none is given: primes, so that samples do not keep in step with a program's loops; 1 for events that
/// each matter.
pub(super) fn default_period(event: &Event) -> u64 {
    match event.kind() {
        Kind::Hardware(Hardware::Cycles | Hardware::Instructions | Hardware::RefCycles | Hardware::BusCycles) => {
            MILLION
        }
        Kind::Hardware(_) | Kind::Cache(_) => TEN_THOUSAND,
        _ if event.is_time() || event.is_hardware() => MILLION,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Software;

    #[test]
    fn chosen_periods_are_primes() {
        for period in [MILLION, TEN_THOUSAND] {
            assert!((2..period).take_while(|n| n * n <= period).all(|n| !period.is_multiple_of(n)), "{period}");
        }
        assert_eq!(default_period(&Software::TaskClock.into()), MILLION);
        assert_eq!(default_period(&Software::PageFaults.into()), 1);
        assert_eq!(default_period(&Hardware::CacheMisses.into()), TEN_THOUSAND);
    }
}
