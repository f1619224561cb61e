//! The value of an event of the calling thread at one moment.

use perfmark_rdpmc::{Counter, Delta, Reading, clock};

/// The value of a counter, or of the tick counter for `time`, which has no counter.
///
/// Recorded calls do not use it: they hold a [`Region`](perfmark_rdpmc::Region) in their frame, which costs less.
#[derive(Clone, Copy, Debug)]
pub(super) enum EventReading {
    Ticks(u64),
    Counter(Reading),
}

impl EventReading {
    /// Reads the counter, or the tick counter if there is none. `None` if the counter cannot be read.
    pub(super) fn now(counter: Option<&Counter>) -> Option<Self> {
        match counter {
            Some(counter) => counter.read().ok().map(Self::Counter),
            None => Some(Self::Ticks(clock::ticks())),
        }
    }

    /// What the event counted since `before`, an earlier reading of it on this thread.
    pub(super) fn since(self, before: Self) -> Delta {
        match (before, self) {
            // Ticks run backwards on CPUs whose tick counters differ. That is no time.
            (Self::Ticks(before), Self::Ticks(now)) => now.checked_sub(before).map_or(Delta::Unmeasured, Delta::Exact),
            (Self::Counter(before), Self::Counter(now)) => now.since(&before),
            _ => Delta::Unmeasured,
        }
    }
}
