//! The results of test calls to the kernel and the processor.

use std::time::Duration;

use super::switch_cost::switch_cost;
use crate::arch::known_loop;
use crate::attr::Attr;
use crate::clock::Clock;
use crate::counter::Counter;
use crate::error::Error;
use crate::event::{Event, Hardware, Software};
use crate::reading::Delta;
use crate::sample::{Content, Sampler};
use crate::sys::{self, FLAG_EXCLUDE_HV, FLAG_EXCLUDE_KERNEL, PerfEventAttr};
use crate::target::Target;

/// The results of test calls on this machine, by the calling thread.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// Opening a software event for user mode, or errno.
    pub user_mode: Result<(), i32>,
    /// Opening a software event for user mode and kernel mode, or errno.
    pub kernel_part: Result<(), i32>,
    /// Counting the instructions of a loop of known length.
    pub instructions: Result<LoopCheck, Error>,
    /// Whether a hardware counter can be read without a system call; if not, why.
    pub user_reads: Result<(), String>,
    /// The cost of a reading.
    pub cost: Cost,
    /// The event of which a sample was taken: cycles, or without a PMU the CPU's clock. If there was none, why.
    pub sampling: Result<Event, Error>,
    /// How much longer a thread takes to leave its CPU and return while an [`OffCpu`](crate::OffCpu) records it. If it
    /// was not measured, why.
    pub switch_cost: Result<Duration, String>,
}

/// The count of a loop with a known number of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopCheck {
    /// The number of the loop's instructions.
    pub executed: u64,
    /// The count; `None` if other events used the counters the whole time.
    pub counted: Option<u64>,
    /// Whether the counter was on the PMU the whole time; if not, `counted` is scaled.
    pub exact: bool,
}

impl LoopCheck {
    /// Counts a loop of two million instructions with `counter`, which must count instructions. Some counters are
    /// wrong, for example in virtual machines.
    ///
    /// ```
    /// use perfmark_rdpmc::support::LoopCheck;
    /// use perfmark_rdpmc::{Attr, Counter, Hardware};
    ///
    /// if let Ok(counter) = Counter::open(&Attr::new(Hardware::Instructions)) {
    ///     println!("reliable: {}", LoopCheck::of(&counter)?.passes());
    /// }
    /// # Ok::<(), perfmark_rdpmc::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Counter::read_syscall`].
    pub fn of(counter: &Counter) -> Result<Self, Error> {
        const TURNS: u64 = 1_000_000;
        // Other events may have used the PMU in the first tries.
        const TRIES: usize = 3;
        let mut check = Self { executed: 0, counted: None, exact: false };
        for _ in 0..TRIES {
            let before = counter.read_syscall()?;
            check.executed = known_loop(TURNS);
            match counter.read_syscall()?.since(&before) {
                Delta::Exact(value) => {
                    (check.counted, check.exact) = (Some(value), true);
                    break;
                }
                Delta::Scaled { estimate, .. } => check.counted = Some(estimate),
                Delta::Unmeasured => {}
            }
        }
        Ok(check)
    }

    /// Whether the count is correct, except for the instructions of the readings around the loop: within half a
    /// percent, or within a tenth if scaled.
    #[must_use]
    pub fn passes(&self) -> bool {
        let margin = self.executed / if self.exact { 200 } else { 10 };
        self.counted.is_some_and(|counted| counted.abs_diff(self.executed) <= margin)
    }
}

/// The lowest measured cost of a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Cost {
    /// Without a system call.
    pub user: Option<Time>,
    /// By `read(2)`.
    pub read: Option<Time>,
}

/// A time in ticks and in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Time {
    /// In ticks of [`clock::ticks`](crate::clock::ticks).
    pub ticks: f64,
    /// In nanoseconds.
    pub nanoseconds: f64,
}

impl Trial {
    pub(super) fn here() -> Self {
        let clock = Clock::start();
        let counter = Counter::open(&Attr::new(Hardware::Instructions));
        let (instructions, user_reads) = match &counter {
            Ok(counter) => (LoopCheck::of(counter), counter.user_reads()),
            Err(error) => (Err(error.clone()), Err("no hardware event can be opened".into())),
        };
        // Without a PMU, any event shows the cost of a system call.
        let cost = counter.or_else(|_| Counter::open(&Attr::new(Software::TaskClock)));
        Self {
            user_mode: try_software(FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV),
            kernel_part: try_software(0),
            instructions,
            user_reads,
            cost: cost.map_or_else(|_| Cost::default(), |counter| Cost::of(&counter, clock)),
            sampling: try_sampling(Hardware::Cycles.into()).or_else(|_| try_sampling(Software::TaskClock.into())),
            switch_cost: switch_cost(),
        }
    }
}

/// Opens an event that counts nothing, and closes it. The result depends on permissions alone.
fn try_software(flags: u64) -> Result<(), i32> {
    sys::open(&PerfEventAttr::dummy(flags), &Target::this_thread(), None).map(drop)
}

/// Samples a loop, and returns the event if there was a sample.
fn try_sampling(event: Event) -> Result<Event, Error> {
    /// A prime: of cycles, or of nanoseconds.
    const PERIOD: u64 = 100_003;
    const TURNS: u64 = 100_000;
    const TRIES: usize = 100;
    let ring = Sampler::new(Attr::new(event.clone())).period(PERIOD).content(Content::IP).pages(1).open()?;
    for _ in 0..TRIES {
        let _ = known_loop(TURNS);
        if ring.head() > 0 {
            return Ok(event);
        }
    }
    Err(Error::refused(
        event.to_string(),
        "it can be opened, but no sample was taken of a loop of 20,000,000 instructions",
    ))
}

impl Cost {
    fn of(counter: &Counter, clock: Clock) -> Self {
        let (user, read) = counter.cost();
        let nanoseconds = clock.nanoseconds_per_tick();
        let time = |ticks: f64| Time { ticks, nanoseconds: ticks * nanoseconds };
        Self { user: user.map(time), read: read.map(time) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_count_is_detected() {
        let check = |counted, exact| LoopCheck { executed: 2_000_000, counted, exact };
        assert!(check(Some(2_000_034), true).passes());
        assert!(check(Some(2_100_000), false).passes());
        for wrong in [check(Some(2_600), true), check(Some(0), true), check(Some(4_000_000), true), check(None, false)]
        {
            assert!(!wrong.passes(), "{wrong:?}");
        }
    }
}
