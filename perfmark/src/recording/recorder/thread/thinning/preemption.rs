//! The time for which other threads had a thread's CPU while it was in a burst.
//!
//! A measured call stands for many. If one of them contains some milliseconds in which another thread ran, all of them
//! would. So that time is left out of the calls of thinned marks. Waits of the program's own remain.

use std::cell::Cell;

use perfmark_rdpmc::clock;

use crate::platform::errno::KeepErrno;
use crate::platform::usage::{thread_cpu_ns, voluntary_switches};
use crate::recording::start;
use crate::settings::recording::is_off;

/// In a shorter time, no thread looks: that takes about a microsecond. Shorter times are not left out: interrupts take
/// some, too.
const LONG_NS: u64 = 16_000;
/// Own work of perfmark that takes so many times longer contains time of other threads.
const LONG_WORK: u64 = 32;

/// What the thread has used until a moment.
#[derive(Clone, Copy, Debug)]
struct Usage {
    ticks: u64,
    cpu_ns: u64,
    voluntary_switches: u64,
}

impl Usage {
    fn now() -> Option<Self> {
        // After recording has ended, no system call is allowed. A script's ticks are not those of the kernel's clock.
        if is_off() || cfg!(perfmark_scripted) {
            return None;
        }
        let _errno = KeepErrno::new();
        let voluntary_switches = voluntary_switches()?;
        Some(Self { ticks: clock::ticks(), cpu_ns: thread_cpu_ns()?, voluntary_switches })
    }
}

/// What is known of a thread's preemptions.
#[derive(Debug)]
pub(crate) struct Preemption {
    /// When a burst began, or the thread looked for the last time since.
    last: Cell<Option<Usage>>,
    /// The ticks in [`LONG_NS`].
    pub(crate) long: u64,
}

impl Default for Preemption {
    fn default() -> Self {
        Self { last: Cell::default(), long: start::ticks_in(LONG_NS) }
    }
}

impl Preemption {
    /// Notes that a burst begins.
    pub(crate) fn begin(&self) {
        self.last.set(Usage::now());
    }

    /// Whether other threads had the CPU in perfmark's own work, which took so many ticks.
    pub(crate) fn is_in_work(&self, ticks: u64) -> bool {
        ticks > self.long * LONG_WORK
    }

    /// The part of a call that ends now, of so many ticks, in which other threads had the CPU. 0 if the thread also
    /// waited by itself since the last time.
    pub(crate) fn in_call(&self, ticks: u64) -> u64 {
        // Calls around others often end shortly after these.
        if self.last.get().is_some_and(|last| clock::ticks().saturating_sub(last.ticks) <= self.long) {
            return 0;
        }
        let now = Usage::now();
        let Some((now, before)) = now.zip(self.last.replace(now)) else { return 0 };
        if now.voluntary_switches != before.voluntary_switches {
            return 0;
        }
        let on_cpu = start::ticks_in(now.cpu_ns.saturating_sub(before.cpu_ns));
        let preempted = now.ticks.saturating_sub(before.ticks).saturating_sub(on_cpu);
        // If it does not fit into the call, some of it was before. What the thread did on the CPU may have been, too.
        let in_call = if preempted <= ticks { preempted } else { ticks.saturating_sub(on_cpu) };
        let in_call = if in_call > self.long { in_call } else { 0 };
        // The rest may be in a call around this one.
        self.last.set(Some(Usage { ticks: now.ticks - (preempted - in_call), ..now }));
        in_call
    }
}
