//! The value of an event of the calling thread at one moment.

use perfmark_rdpmc::{Counter, Delta, EmulatedCounter, OffCpu, OffCpuReading, Reading, clock};

use crate::recording::start;
use crate::settings::OffCpuKind;

/// The value of an event at one moment: of a counter, of the tick counter for `time`, of the time off the CPU, or
/// of both.
///
/// Recorded calls do not use it: they hold a [`Region`](perfmark_rdpmc::Region) in their frame, which costs less.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventReading {
    Ticks(u64),
    /// Ticks, and the time off the CPU.
    OnCpu(u64, OffCpuReading),
    Counter(Reading),
    Emulated(u64),
    OffCpu(OffCpuReading, OffCpuKind),
    /// Of an event that does not occur while a thread runs.
    Nothing,
}

impl EventReading {
    pub(crate) fn of_ticks() -> Self {
        Self::Ticks(clock::ticks())
    }

    /// `None` if the counter cannot be read, or is stopped.
    pub(crate) fn of_counter(counter: &Counter) -> Option<Self> {
        counter.read().ok().map(Self::Counter)
    }

    pub(crate) fn of_emulated(counter: &EmulatedCounter) -> Self {
        Self::Emulated(counter.count())
    }

    pub(crate) fn of_on_cpu(switches: &OffCpu) -> Self {
        let (ticks, off) = switches.read_with(|| (), || (), || (clock::ticks(), switches.read()));
        Self::OnCpu(ticks, off)
    }

    pub(crate) fn of_off_cpu(switches: &OffCpu, kind: OffCpuKind) -> Self {
        Self::OffCpu(switches.read(), kind)
    }

    /// What the event counted since `before`, an earlier reading of it on this thread.
    pub(crate) fn since(self, before: Self) -> Delta {
        match (before, self) {
            // Ticks run backwards on CPUs whose tick counters differ. That is no time.
            (Self::Ticks(before), Self::Ticks(now)) => now.checked_sub(before).map_or(Delta::Unmeasured, Delta::Exact),
            (Self::OnCpu(before, off_before), Self::OnCpu(now, off_now)) => {
                let ticks = now.checked_sub(before).zip(off_now.since(&off_before));
                let on_cpu = ticks.and_then(|(ticks, off)| start::on_cpu(ticks, off.total()));
                on_cpu.map_or(Delta::Unmeasured, Delta::Exact)
            }
            (Self::Counter(before), Self::Counter(now)) => now.since(&before),
            (Self::Emulated(before), Self::Emulated(now)) => Delta::Exact(now.wrapping_sub(before)),
            (Self::OffCpu(before, kind), Self::OffCpu(now, _)) => {
                now.since(&before).map_or(Delta::Unmeasured, |time| Delta::Exact(kind.of(time)))
            }
            (Self::Nothing, Self::Nothing) => Delta::Exact(0),
            _ => Delta::Unmeasured,
        }
    }

    /// The same, if the event was counted all the time.
    pub(crate) fn exactly_since(self, before: Self) -> Option<u64> {
        match self.since(before) {
            Delta::Exact(counted) => Some(counted),
            Delta::Scaled { .. } | Delta::Unmeasured => None,
        }
    }
}
