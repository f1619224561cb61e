//! The sources of events, and the value of one on the calling thread at a moment.

use std::rc::Rc;

use perfmark_rdpmc::{Counter, Delta, EmulatedCounter, OffCpu, OffCpuReading, Reading, clock};

use crate::recording::allocated::ThreadCount;
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
    /// Of an emulator, or of allocations.
    Count(u64),
    OffCpu(OffCpuReading, OffCpuKind),
    /// Of an event that does not occur while a thread runs.
    Nothing,
}

/// The source of an event's values.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "counters are stored inline for speed, and a thread has one slot of ticks"
)]
pub(crate) enum Source {
    Ticks,
    /// Ticks, less the thread's time off the CPU.
    OnCpu(Rc<OffCpu>),
    /// Ticks between polls. The entry and exit of a poll add them.
    Suspended,
    /// All slots of the thread share its context switches.
    OffCpu {
        switches: Rc<OffCpu>,
        kind: OffCpuKind,
    },
    Counter {
        counter: Counter,
        read_method: ReadMethod,
    },
    /// An event that an emulator counts.
    Emulated(EmulatedCounter),
    /// Allocations, which the program's allocator counts.
    Allocated(ThreadCount),
}

/// How entry and exit read a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMethod {
    /// In user space.
    User,
    /// By its own read(2).
    Kernel,
    /// By the read(2) of the thread's group.
    Group,
}

impl Source {
    /// Whether its values are ticks that entry and exit read.
    pub(crate) fn reads_ticks(&self) -> bool {
        match self {
            Self::Ticks | Self::OnCpu(_) => true,
            Self::Suspended | Self::OffCpu { .. } | Self::Counter { .. } | Self::Emulated(_) | Self::Allocated(_) => {
                false
            }
        }
    }

    /// The event's value now. `None` if it cannot be read.
    pub(crate) fn reading(&self) -> Option<EventReading> {
        Some(match self {
            Self::Ticks => EventReading::Ticks(clock::ticks()),
            Self::OnCpu(switches) => {
                let (ticks, off) = switches.read_with(|| (), || (), || (clock::ticks(), switches.read()));
                EventReading::OnCpu(ticks, off)
            }
            // A thread that runs a call's code does not suspend it.
            Self::Suspended => EventReading::Nothing,
            Self::OffCpu { switches, kind } => EventReading::OffCpu(switches.read(), *kind),
            Self::Counter { counter, .. } => EventReading::Counter(counter.read().ok()?),
            Self::Emulated(counter) => EventReading::Count(counter.count()),
            Self::Allocated(count) => EventReading::Count(count.get()),
        })
    }
}

impl EventReading {
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
            (Self::Count(before), Self::Count(now)) => Delta::Exact(now.wrapping_sub(before)),
            (Self::OffCpu(before, kind), Self::OffCpu(now, _)) => {
                now.since(&before).map_or(Delta::Unmeasured, |time| Delta::Exact(kind.of(time)))
            }
            (Self::Nothing, Self::Nothing) => Delta::Exact(0),
            // Readings of different events.
            (
                Self::Ticks(_) | Self::OnCpu(..) | Self::Counter(_) | Self::Count(_) | Self::OffCpu(..) | Self::Nothing,
                _,
            ) => Delta::Unmeasured,
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
