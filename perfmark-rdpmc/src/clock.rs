//! The processor's tick counter, and its rate.

use std::time::{Duration, Instant};

use crate::arch::{self, Native, Processor as _};

/// The tick counter: `rdtsc` on x86-64, `cntvct_el0` on arm64, `rdtime` on riscv64. On other targets, nanoseconds of
/// the standard library's monotonic clock. 0 on wasm32-unknown-unknown, which has no clock.
///
/// Not serialized: the processor may read it a few instructions early or late.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    Native.ticks()
}

/// Waits until all earlier instructions have finished before later ones start. Uses `lfence` on x86-64 (Intel SDM
/// volume 2A; on AMD where linux made it serializing, which it does on every processor that can), `isb` on arm64 (Arm
/// ARM, B2.7.4), and `fence` on riscv64, which orders memory and counters only. A tick or counter that is read after it
/// includes everything that came before.
///
/// It costs tens of cycles, and the overlap of instructions that it prevents.
#[inline]
pub fn fence() {
    arch::fence();
}

/// Converts ticks to nanoseconds, by comparing both with the monotonic clock since it was started.
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
    instant: Option<Instant>,
}

impl Clock {
    /// Records the current tick and time.
    #[must_use]
    pub fn start() -> Self {
        // The thread may be interrupted between the readings. Of a few pairs, this uses the one with the closest ticks.
        let pairs = (0..5).map(|_| {
            let (before, instant, after) = (ticks(), arch::now(), ticks());
            let apart = after.saturating_sub(before);
            (apart, Self { ticks: before + apart / 2, instant })
        });
        pairs
            .min_by_key(|(apart, _)| *apart)
            .map_or_else(|| Self { ticks: ticks(), instant: arch::now() }, |best| best.1)
    }

    /// Time since [`start`](Self::start).
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.instant.map_or(Duration::ZERO, |instant| instant.elapsed())
    }

    /// Ticks since [`start`](Self::start). It wraps if the counter runs backwards.
    #[inline]
    #[must_use]
    pub fn elapsed_ticks(&self) -> u64 {
        ticks().wrapping_sub(self.ticks)
    }

    /// Nanoseconds per tick, measured from the start until now. Its error is that of two readings of the monotonic
    /// clock (about 50 ns) over that time. Within the first millisecond after the start, it waits for that millisecond
    /// to pass. 0 if the clock stands still, as it may in a simulator, and if there is none.
    #[must_use]
    pub fn nanoseconds_per_tick(&self) -> f64 {
        const ENOUGH: Duration = Duration::from_millis(1);
        // Each takes 20 ns or more.
        const MAX_READINGS: u32 = 1 << 20;
        // A script's ticks are nanoseconds.
        if cfg!(perfmark_scripted) {
            return 1.0;
        }
        let too_early = |_: &u32| self.elapsed() < ENOUGH;
        (0..MAX_READINGS).take_while(too_early).for_each(|_| std::hint::spin_loop());
        let (ticks, nanoseconds) = self.until_now();
        nanoseconds as f64 / ticks.max(1) as f64
    }

    /// The ticks in so many nanoseconds, by the ticks and the time since the start. Unlike
    /// [`nanoseconds_per_tick`](Self::nanoseconds_per_tick), it never waits; so its error is that of two readings of
    /// the monotonic clock (about 50 ns), as a share of the time since the start. It takes some 100 ns. If the clock
    /// stands still, the number is returned.
    ///
    /// ```
    /// use perfmark_rdpmc::clock::{Clock, ticks};
    ///
    /// let (clock, before) = (Clock::start(), ticks());
    /// let elapsed = clock.elapsed();
    /// println!("{} ticks in {elapsed:?}, {} read", clock.ticks_in(elapsed.as_nanos() as u64), ticks() - before);
    /// ```
    #[must_use]
    pub fn ticks_in(&self, nanoseconds: u64) -> u64 {
        // A script's ticks are nanoseconds.
        if cfg!(perfmark_scripted) {
            return nanoseconds;
        }
        let (ticks, elapsed) = self.until_now();
        let ticks = u128::from(nanoseconds).saturating_mul(ticks.into()).checked_div(elapsed);
        ticks.map_or(nanoseconds, |ticks| u64::try_from(ticks).unwrap_or(u64::MAX))
    }

    /// The ticks and nanoseconds since the start, both at one moment.
    fn until_now(&self) -> (u64, u128) {
        let now = Self::start();
        let elapsed = now.instant.zip(self.instant).map_or(Duration::ZERO, |(now, start)| now.duration_since(start));
        (now.ticks.wrapping_sub(self.ticks), elapsed.as_nanos())
    }
}

/// Whether the ticks of different CPUs agree, according to the kernel. On x86 the kernel lists `tsc` among its clock
/// sources only while it considers it stable and synchronized.
#[must_use]
pub fn is_trusted() -> bool {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return true;
    }
    let sources = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/available_clocksource");
    sources.map_or(true, |sources| sources.split_whitespace().any(|source| source == "tsc"))
}
