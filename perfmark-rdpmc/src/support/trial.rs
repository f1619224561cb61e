//! What the kernel and the processor answer when they are asked.

use crate::arch::known_loop;
use crate::attr::Attr;
use crate::clock::Clock;
use crate::counter::Counter;
use crate::error::Error;
use crate::event::{Hardware, Software};
use crate::reading::Delta;
use crate::sys::{self, FLAG_EXCLUDE_HV, FLAG_EXCLUDE_KERNEL, PerfEventAttr};

/// What was tried on this machine, by the calling thread.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trial {
    /// Opening a software event for user mode, or errno.
    pub user_mode: Result<(), i32>,
    /// Opening a software event with the kernel's part, or errno.
    pub kernel_part: Result<(), i32>,
    /// Counting the instructions of a loop of known length.
    pub instructions: Result<Truth, Error>,
    /// Reading a hardware counter without a system call, or why that is not possible.
    pub user_reads: Result<(), String>,
    /// What a reading costs.
    pub cost: Cost,
}

/// What a counter of instructions said of a loop of known length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Truth {
    /// The loop's instructions.
    pub executed: u64,
    /// What was counted; `None` if other events held the counters all the while.
    pub counted: Option<u64>,
    /// Whether the counter was on the PMU all the while; if not, `counted` is scaled.
    pub exact: bool,
}

impl Truth {
    /// What `counter`, which counts instructions, says of a loop of two million. A virtual machine's counters, for one, can lie.
    ///
    /// ```
    /// use perfmark_rdpmc::support::Truth;
    /// use perfmark_rdpmc::{Attr, Counter, Hardware};
    ///
    /// if let Ok(counter) = Counter::open(&Attr::new(Hardware::Instructions)) {
    ///     println!("reliable: {}", Truth::of(&counter)?.holds());
    /// }
    /// # Ok::<(), perfmark_rdpmc::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Counter::read_syscall`].
    pub fn of(counter: &Counter) -> Result<Self, Error> {
        const TURNS: u64 = 1_000_000;
        // Others' events may have been on the PMU the first times.
        const TRIES: usize = 3;
        let mut truth = Self { executed: 0, counted: None, exact: false };
        for _ in 0..TRIES {
            let before = counter.read_syscall()?;
            truth.executed = known_loop(TURNS);
            match counter.read_syscall()?.since(&before) {
                Delta::Exact(value) => {
                    (truth.counted, truth.exact) = (Some(value), true);
                    break;
                }
                Delta::Scaled { estimate, .. } => truth.counted = Some(estimate),
                Delta::Unmeasured => {}
            }
        }
        Ok(truth)
    }

    /// Whether the count is the loop's, but for the instructions of the readings around it: half a percent, or a tenth if scaled.
    #[must_use]
    pub fn holds(&self) -> bool {
        let margin = self.executed / if self.exact { 200 } else { 10 };
        self.counted.is_some_and(|counted| counted.abs_diff(self.executed) <= margin)
    }
}

/// What a reading costs at best.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Cost {
    /// Without a system call.
    pub user: Option<Time>,
    /// By `read(2)`.
    pub read: Option<Time>,
}

/// A time in both units.
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
            Ok(counter) => (Truth::of(counter), counter.user_reads()),
            Err(error) => (Err(error.clone()), Err("no hardware event can be opened".into())),
        };
        // Where there is no PMU, any event tells the cost of asking the kernel.
        let cost = counter.or_else(|_| Counter::open(&Attr::new(Software::TaskClock)));
        Self {
            user_mode: try_software(FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV),
            kernel_part: try_software(0),
            instructions,
            user_reads,
            cost: cost.map_or_else(|_| Cost::default(), |counter| Cost::of(&counter, clock)),
        }
    }
}

/// Opens an event that counts nothing, so that the answer is about rights alone, and closes it.
fn try_software(flags: u64) -> Result<(), i32> {
    sys::open(&PerfEventAttr::dummy(flags)).map(drop)
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
    fn a_counter_that_lies_is_noticed() {
        let truth = |counted, exact| Truth { executed: 2_000_000, counted, exact };
        assert!(truth(Some(2_000_034), true).holds());
        assert!(truth(Some(2_100_000), false).holds());
        for lie in [truth(Some(2_600), true), truth(Some(0), true), truth(Some(4_000_000), true), truth(None, false)] {
            assert!(!lie.holds(), "{lie:?}");
        }
    }
}
