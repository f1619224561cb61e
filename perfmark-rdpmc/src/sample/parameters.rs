//! Clocks, the actions on traces, and the periods that are chosen where none is given.

use crate::event::{Event, Hardware};
use crate::sys::{TYPE_HARDWARE, TYPE_HW_CACHE};

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

/// The events that are as frequent as cycles.
const FREQUENT: [Hardware; 4] = [Hardware::Cycles, Hardware::Instructions, Hardware::RefCycles, Hardware::BusCycles];

/// The period if none is given: primes, so that samples do not keep in step with a program's loops; 1 for events that
/// each matter.
pub(super) fn default_period(event: &Event) -> u64 {
    match event.generic() {
        Some((TYPE_HARDWARE, id)) if FREQUENT.iter().any(|&event| event as u64 == id) => MILLION,
        Some((TYPE_HARDWARE | TYPE_HW_CACHE, _)) => TEN_THOUSAND,
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

    #[test]
    fn the_period_of_an_event_does_not_depend_on_how_it_is_written() {
        for (text, period) in [
            ("0:0", MILLION),
            ("0:5", TEN_THOUSAND),
            ("0:0x400000005", TEN_THOUSAND),
            ("3:0", TEN_THOUSAND),
            ("4:5", MILLION),
            ("1:1", MILLION),
            ("1:2", 1),
            ("software/config=0/", MILLION),
            ("software/config=2/", 1),
            ("cpu/cycles/", MILLION),
            ("cpu/branch-misses/", TEN_THOUSAND),
            ("cache-misses/threshold=2/", TEN_THOUSAND),
            ("cpu/event=0xc5/", MILLION),
        ] {
            let event: Event = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(default_period(&event), period, "{text}");
        }
    }
}
