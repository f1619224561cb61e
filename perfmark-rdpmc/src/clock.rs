//! The processor's tick counter, and its rate.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence as memory_fence;
use std::time::{Duration, Instant};

use crate::arch::{self, Native, Processor as _};
use crate::counter::Counter;
use crate::sample::Ring;
use crate::sys::{CAP_BIT0_IS_DEPRECATED, CAP_USER_TIME_SHORT, CAP_USER_TIME_ZERO, MmapPage};

/// The tick counter: `rdtsc` on x86-64, `cntvct_el0` on arm64, `rdtime` on riscv64. On other platforms, nanoseconds of
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

/// The kernel's clock, as a function of [`ticks`]. It is the clock of the times in records, unless
/// [`Sampler::clock`](crate::sample::Sampler::clock) requests another one.
///
/// ```
/// use perfmark_rdpmc::clock::ticks;
/// use perfmark_rdpmc::sample::{Content, Records, Sampler};
///
/// let switches = Sampler::dummy().records(Records::CONTEXT_SWITCH).content(Content::TIME).open();
/// if let Some((ring, clock)) = switches.ok().and_then(|ring| ring.kernel_clock().map(|clock| (ring, clock))) {
///     let before = clock.nanoseconds(ticks());
///     std::thread::yield_now();
///     let mut reader = ring.reader()?;
///     while let Some(record) = reader.read() {
///         println!("{} ns later: {:?}", record.origin.time.unwrap_or(0).wrapping_sub(before), record.body);
///     }
/// }
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
///
/// The kernel may adjust the rate later, so get a new one from time to time; times of an old one then drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClock {
    /// Nanoseconds when the ticks were 0.
    zero: u64,
    multiplier: u32,
    shift: u16,
    /// For a tick counter of fewer than 64 bits: a recent value, and the bits that it has.
    known: u64,
    mask: u64,
}

impl KernelClock {
    /// `None` if the page does not have the clock (`cap_user_time_zero`), or its lock stays odd.
    fn of(page: &MmapPage) -> Option<Self> {
        const TRIES: usize = 100;
        for _ in 0..TRIES {
            let lock = page.lock.load(Acquire);
            let capabilities = page.capabilities.load(Relaxed);
            let is_short = capabilities & CAP_USER_TIME_SHORT != 0;
            let clock = Self {
                zero: page.time_zero.load(Relaxed),
                multiplier: page.time_mult.load(Relaxed),
                shift: page.time_shift.load(Relaxed),
                known: if is_short { page.time_cycles.load(Relaxed) } else { 0 },
                mask: if is_short { page.time_mask.load(Relaxed) } else { u64::MAX },
            };
            // Another CPU may update it.
            memory_fence(Acquire);
            if lock & 1 == 0 && page.lock.load(Relaxed) == lock {
                const HAS_CLOCK: u64 = CAP_BIT0_IS_DEPRECATED | CAP_USER_TIME_ZERO;
                let is_valid = capabilities & HAS_CLOCK == HAS_CLOCK && clock.multiplier != 0 && clock.shift < 64;
                return is_valid.then_some(clock);
            }
        }
        None
    }

    /// The time in nanoseconds at which [`ticks`] had that value.
    #[must_use]
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        let ticks = self.known.wrapping_add(ticks.wrapping_sub(self.known) & self.mask);
        let scaled = (u128::from(ticks) * u128::from(self.multiplier)) >> self.shift;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the kernel computes modulo 2^64, so truncation is intended"
        )]
        let since_zero = scaled as u64;
        self.zero.wrapping_add(since_zero)
    }

    /// The value that [`ticks`] had at that time.
    #[must_use]
    pub fn ticks(&self, nanoseconds: u64) -> u64 {
        let ticks = (u128::from(nanoseconds.wrapping_sub(self.zero)) << self.shift) / u128::from(self.multiplier);
        u64::try_from(ticks).unwrap_or(u64::MAX) & self.mask
    }
}

impl Counter {
    /// The kernel's clock as a function of ticks, from the counter's page. `None` without a page, and where the kernel
    /// does not use the tick counter for its clock, as on most x86 virtual machines.
    #[must_use]
    pub fn kernel_clock(&self) -> Option<KernelClock> {
        // In a forked child the page is empty.
        KernelClock::of(self.pmu_event().page().ok()?.page())
    }
}

impl Ring {
    /// The kernel's clock as a function of ticks, from the ring's first page. `None` in a forked child, and where the
    /// kernel does not use the tick counter for its clock, as on most x86 virtual machines.
    #[must_use]
    pub fn kernel_clock(&self) -> Option<KernelClock> {
        KernelClock::of(&self.mapping.page()?.start)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn page(capabilities: u64, zero: u64, multiplier: u32, shift: u16) -> MmapPage {
        let page = MmapPage::default();
        page.capabilities.store(CAP_BIT0_IS_DEPRECATED | capabilities, Relaxed);
        page.time_zero.store(zero, Relaxed);
        page.time_mult.store(multiplier, Relaxed);
        page.time_shift.store(shift, Relaxed);
        page
    }

    #[test]
    fn ticks_and_nanoseconds_are_converted_by_the_manuals_formulas() {
        // A multiplier and a shift of x86 at 2.5 GHz, and of arm64 at 62.5 MHz.
        for (zero, multiplier, shift) in [(1_000, 429_496_730, 30), (u64::MAX - 5, 33_554_432, 21)] {
            let clock = KernelClock::of(&page(CAP_USER_TIME_ZERO, zero, multiplier, shift)).expect("has a clock");
            let wide = u64::from(multiplier);
            for ticks in [0, 1, 1_000, 123_456_789, (1 << 40) + 12_345, (1 << 52) + 1] {
                let (quotient, remainder) = (ticks >> shift, ticks & ((1 << shift) - 1));
                let nanoseconds = zero.wrapping_add(quotient * wide + ((remainder * wide) >> shift));
                assert_eq!(clock.nanoseconds(ticks), nanoseconds, "{ticks} ticks");
                let time = nanoseconds.wrapping_sub(zero);
                let (quotient, remainder) = (time / wide, time % wide);
                assert_eq!(clock.ticks(nanoseconds), (quotient << shift) + (remainder << shift) / wide);
                let rounded = clock.nanoseconds(clock.ticks(nanoseconds));
                assert!(nanoseconds.wrapping_sub(rounded) <= 1 + (wide >> shift), "within a tick");
            }
        }
    }

    #[test]
    fn a_short_tick_counter_continues_after_it_wraps() {
        let page = page(CAP_USER_TIME_ZERO | CAP_USER_TIME_SHORT, 0, 1, 0);
        page.time_mask.store((1 << 32) - 1, Relaxed);
        page.time_cycles.store((7 << 32) + 4_294_967_290, Relaxed);
        let clock = KernelClock::of(&page).expect("has a clock");
        assert_eq!(clock.nanoseconds(4_294_967_291), (7 << 32) + 4_294_967_291);
        assert_eq!(clock.nanoseconds(5), (8 << 32) + 5, "wrapped since");
        assert_eq!(clock.ticks((8 << 32) + 5), 5);
    }

    #[test]
    fn a_page_without_the_clock_has_none() {
        assert_eq!(KernelClock::of(&page(0, 5, 1, 0)), None);
        assert_eq!(KernelClock::of(&page(CAP_USER_TIME_ZERO, 5, 0, 0)), None);
        assert_eq!(KernelClock::of(&MmapPage::locked()), None, "permanently locked");
    }
}
