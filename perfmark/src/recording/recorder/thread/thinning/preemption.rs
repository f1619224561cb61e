//! The time for which other threads had a thread's CPU while it was in a burst.
//!
//! A measured call stands for many. If one of them contains some milliseconds in which another thread ran, all of them
//! would. So that time is left out of the calls of thinned marks. Waits of the program's own remain.

use std::cell::Cell;

use perfmark_rdpmc::clock;

use crate::platform::usage::{thread_cpu_ns, thread_waits};
use crate::recording::start;
use crate::settings::recording::is_off;

/// Shorter calls are not looked at: that takes about a microsecond.
const LONG_NS: u64 = 16_000;

/// What the thread has used until a moment.
#[derive(Clone, Copy, Debug)]
struct Usage {
    ticks: u64,
    cpu_ns: u64,
    waits: u64,
}

impl Usage {
    fn now() -> Option<Self> {
        // After recording has ended, no system call is allowed. A script's ticks are not those of the kernel's clock.
        if is_off() || cfg!(perfmark_scripted) {
            return None;
        }
        let waits = thread_waits()?;
        Some(Self { ticks: clock::ticks(), cpu_ns: thread_cpu_ns()?, waits })
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

    /// The ticks since the last time in which other threads had the CPU. 0 if the thread also waited by itself.
    pub(crate) fn take(&self) -> u64 {
        let now = Usage::now();
        let Some((now, before)) = now.zip(self.last.replace(now)) else { return 0 };
        if now.waits != before.waits {
            return 0;
        }
        let on_cpu = start::ticks_in(now.cpu_ns.saturating_sub(before.cpu_ns));
        now.ticks.saturating_sub(before.ticks).saturating_sub(on_cpu)
    }
}
