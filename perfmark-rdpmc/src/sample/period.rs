//! The periods that are chosen where none is given.

use crate::event::{Event, Hardware, Kind};

/// About 1 ms on clocks; on cycles a few thousand samples a second.
const MILLION: u64 = 1_000_003;
/// For events that are rarer than cycles.
const TEN_THOUSAND: u64 = 10_007;

/// Primes, so that samples do not keep in step with a program's loops; 1 for events that each matter.
pub(super) fn default_of(event: &Event) -> u64 {
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
        assert_eq!(default_of(&Software::TaskClock.into()), MILLION);
        assert_eq!(default_of(&Software::PageFaults.into()), 1);
        assert_eq!(default_of(&Hardware::CacheMisses.into()), TEN_THOUSAND);
    }
}
