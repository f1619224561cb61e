//! The processor's tick counter, and what a tick is in nanoseconds.

use std::time::{Duration, Instant};

use crate::arch::{self, Native, Processor as _};

/// The tick counter: `rdtsc` on x86-64, `cntvct_el0` on arm64, `rdtime` on riscv64, elsewhere nanoseconds of the standard library's clock.
///
/// Not serialised: the processor may read it a few instructions early or late.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    Native.ticks()
}

/// Lets the processor finish all instructions before it begins those after: `lfence` on x86-64 (Intel SDM volume 2A; on AMD where linux made
/// it serialise, which it does on every processor that can), `isb` on arm64 (Arm ARM, B2.7.4), `fence` on riscv64, which orders memory and counters
/// only. A reading of ticks or of a counter behind it counts all that stood before.
///
/// Some tens of cycles, and what the processor could have done meanwhile.
#[inline]
pub fn fence() {
    arch::fence();
}

/// Relates ticks to nanoseconds by the monotonic clock, over the time since it was started.
///
/// ```
/// use perfmark_rdpmc::clock::{Clock, ticks};
///
/// let clock = Clock::start();
/// let before = ticks();
/// let elapsed = ticks() - before;
/// println!("{} ns", elapsed as f64 * clock.nanoseconds_per_tick());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ticks: u64,
    instant: Instant,
}

impl Clock {
    /// Notes tick and time now.
    #[must_use]
    pub fn start() -> Self {
        // Between the two readings the thread may be interrupted: of a few pairs, the one whose ends are nearest to each other.
        let pairs = (0..5).map(|_| {
            let (before, instant, after) = (ticks(), Instant::now(), ticks());
            let apart = after.saturating_sub(before);
            (apart, Self { ticks: before + apart / 2, instant })
        });
        pairs
            .min_by_key(|(apart, _)| *apart)
            .map_or_else(|| Self { ticks: ticks(), instant: Instant::now() }, |best| best.1)
    }

    /// Time since [`start`](Self::start).
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.instant.elapsed()
    }

    /// Nanoseconds a tick, measured from the start until now; as exact as two readings of the monotonic clock (some 50 ns) over
    /// that time. Called within the first millisecond it waits for it to pass.
    #[must_use]
    pub fn nanoseconds_per_tick(&self) -> f64 {
        const ENOUGH: Duration = Duration::from_millis(1);
        while self.elapsed() < ENOUGH {
            std::hint::spin_loop();
        }
        let now = Self::start();
        let elapsed = now.instant.duration_since(self.instant);
        elapsed.as_nanos() as f64 / now.ticks.wrapping_sub(self.ticks).max(1) as f64
    }
}

/// Whether the ticks of different CPUs agree, as far as the kernel says: on x86 it keeps `tsc` among its clock sources only while it
/// finds it stable and synchronised.
#[must_use]
pub fn is_trusted() -> bool {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return true;
    }
    let sources = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/available_clocksource");
    sources.map_or(true, |sources| sources.split_whitespace().any(|source| source == "tsc"))
}
