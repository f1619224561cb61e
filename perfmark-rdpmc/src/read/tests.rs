//! Simulated pages, a scripted processor, and a naive oracle in wide integers.

use std::cell::{Cell, RefCell};

use super::*;

/// A processor that runs a script at each counter read, and returns fixed values.
struct Scripted<'a> {
    raw: u64,
    ticks: u64,
    reads: Cell<usize>,
    pauses: Cell<usize>,
    /// Called at each counter read and each pause, with their number.
    script: RefCell<Box<dyn FnMut(usize) + 'a>>,
}

impl<'a> Scripted<'a> {
    fn new(raw: u64, ticks: u64) -> Self {
        Self { raw, ticks, reads: Cell::new(0), pauses: Cell::new(0), script: RefCell::new(Box::new(|_| ())) }
    }

    fn doing(self, script: impl FnMut(usize) + 'a) -> Self {
        Self { script: RefCell::new(Box::new(script)), ..self }
    }
}

impl Processor for Scripted<'_> {
    type Counter = u32;

    fn counter(&self, n: u32) -> u32 {
        n
    }

    #[allow(unsafe_code, reason = "the trait's method is unsafe")]
    unsafe fn read(&self, _: u32) -> u64 {
        self.reads.set(self.reads.get() + 1);
        (self.script.borrow_mut())(self.reads.get());
        self.raw
    }

    fn ticks(&self) -> u64 {
        self.ticks
    }

    fn pause(&self) {
        self.pauses.set(self.pauses.get() + 1);
        (self.script.borrow_mut())(self.pauses.get());
    }
}

#[allow(unsafe_code, reason = "a scripted processor reads no counter")]
fn read_with(page: &MmapPage, processor: &Scripted<'_>) -> Result<UserRead, NoUserRead> {
    // SAFETY: as above.
    unsafe { read(page, processor) }
}

/// A page as linux 6.12 writes it for a running event: user reads are allowed, it uses counter 0, and a tick is 4 ns.
fn page() -> MmapPage {
    let page = MmapPage::default();
    page.lock.store(42, Relaxed);
    page.index.store(1, Relaxed);
    page.pmc_width.store(48, Relaxed);
    page.capabilities.store(CAP_BIT0_IS_DEPRECATED | CAP_USER_RDPMC | CAP_USER_TIME, Relaxed);
    page.time_mult.store(4 << 10, Relaxed);
    page.time_shift.store(10, Relaxed);
    page
}

/// Pseudo-random bits (the high half of an LCG is good enough for test inputs).
fn random(seed: &mut u64) -> u64 {
    let mut half = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 32
    };
    half() << 32 | half()
}

/// The compared fields of a read.
fn fields(read: Result<UserRead, NoUserRead>) -> Result<(u64, u64, u64, u32), NoUserRead> {
    read.map(|read| (read.value, read.enabled, read.running, read.lock))
}

#[test]
fn an_unchanged_page_is_read_once() {
    let (page, processor) = (page(), Scripted::new(1234, 100));
    page.offset.store(1_000_000, Relaxed);
    page.time_enabled.store(5_000, Relaxed);
    page.time_running.store(3_000, Relaxed);
    page.time_offset.store(7, Relaxed);
    assert_eq!(fields(read_with(&page, &processor)), Ok((1_001_234, 5_407, 3_407, 42)));
    assert_eq!(processor.reads.get(), 1);
}

#[test]
fn a_read_waits_while_the_lock_is_odd() {
    let page = page();
    page.lock.store(43, Relaxed);
    let processor = Scripted::new(5, 0).doing(|n| {
        if n == 10 {
            page.lock.store(44, Relaxed);
        }
    });
    assert_eq!(read_with(&page, &processor).map(|read| (read.value, read.lock)), Ok((5, 44)));
    assert_eq!(
        (processor.pauses.get(), processor.reads.get()),
        (10, 1),
        "no counter is read while the index is being written"
    );
}

#[test]
fn a_lock_that_stays_odd_ends_the_read() {
    let (page, processor) = (page(), Scripted::new(5, 0));
    page.lock.store(u32::MAX, Relaxed);
    assert_eq!(read_with(&page, &processor), Err(NoUserRead::Busy));
    assert_eq!(processor.reads.get(), 0);
}

#[test]
fn a_lock_that_changes_in_every_try_ends_the_read() {
    let page = page();
    let processor = Scripted::new(5, 0).doing(|n| page.lock.store(2 * u32::try_from(n).unwrap_or(0), Relaxed));
    page.lock.store(u32::MAX - 1, Relaxed);
    assert_eq!(read_with(&page, &processor), Err(NoUserRead::Busy));
}

#[test]
fn a_page_that_changes_during_the_read_is_read_again() {
    let page = page();
    let processor = Scripted::new(9, 10).doing(|n| {
        if n == 1 {
            // The kernel moves the event to another counter while the first one is being read.
            page.lock.store(44, Relaxed);
            page.offset.store(70_000, Relaxed);
            page.time_enabled.store(900, Relaxed);
            page.time_running.store(800, Relaxed);
        }
    });
    page.offset.store(10, Relaxed);
    assert_eq!(fields(read_with(&page, &processor)), Ok((70_009, 940, 840, 44)));
}

#[test]
fn the_event_may_lose_its_counter_during_the_read() {
    let page = page();
    let processor = Scripted::new(9, 10).doing(|_| {
        page.lock.store(44, Relaxed);
        page.index.store(0, Relaxed);
    });
    assert_eq!(read_with(&page, &processor), Err(NoUserRead::NoIndex));
    assert_eq!(processor.reads.get(), 1, "no counter is read without an index");
}

#[test]
fn a_counter_that_is_about_to_wrap_is_exact() {
    for width in [32_u16, 40, 48, 64] {
        let page = page();
        page.pmc_width.store(width, Relaxed);
        // Programmed to half its range below zero, as arm64 does, or to other negative values, with 1000 counted
        // before.
        for start in [-(1_i128 << (width - 1)), -(1_i128 << (width - 1)) + 1, -5, -1] {
            page.offset.store(i64::try_from(1_000 - start).unwrap_or(i64::MIN), Relaxed);
            for counted in [0_i128, 1, 4, 5, 6, 1 << 20] {
                let bits = (start + counted) & ((1_i128 << width) - 1);
                if counted > 0 && start + counted >= 1 << (width - 1) {
                    continue;
                }
                // Bits above the width may have any value.
                let garbage = if width == 64 { 0 } else { 0xdead_beef_dead_beef << width };
                let raw = u64::try_from(bits).expect("masked") | garbage;
                let read = read_with(&page, &Scripted::new(raw, 0)).expect("readable");
                let oracle = i128::from(page.offset.load(Relaxed)) + start + counted;
                assert_eq!(
                    u128::from(read.value),
                    u128::try_from(oracle & i128::from(u64::MAX)).expect("masked"),
                    "width {width}, start {start}, counted {counted}"
                );
            }
        }
    }
}

#[test]
fn a_nonsense_width_does_not_panic() {
    for width in [0, 65, u16::MAX] {
        let page = page();
        page.pmc_width.store(width, Relaxed);
        assert!(read_with(&page, &Scripted::new(u64::MAX, 0)).is_ok());
    }
}

#[test]
fn a_page_without_user_reads_reads_no_counter() {
    let with = |change: &dyn Fn(&MmapPage)| {
        let (page, processor) = (page(), Scripted::new(5, 0));
        change(&page);
        (read_with(&page, &processor), processor.reads.get())
    };
    assert_eq!(with(&|page| page.index.store(0, Relaxed)), (Err(NoUserRead::NoIndex), 0));
    let no_reads = CAP_BIT0_IS_DEPRECATED | CAP_USER_TIME;
    assert_eq!(with(&|page| page.capabilities.store(no_reads, Relaxed)), (Err(NoUserRead::NotAllowed), 0));
    // Before 3.12 the kernel set bit 0 for either capability, and never the current bits.
    assert_eq!(with(&|page| page.capabilities.store(1, Relaxed)), (Err(NoUserRead::OldKernel), 0));
    assert_eq!(with(&|page| page.capabilities.store(CAP_USER_RDPMC, Relaxed)), (Err(NoUserRead::OldKernel), 0));
}

#[test]
fn without_page_times_a_counter_that_was_never_off_the_pmu_is_exact() {
    let page = page();
    page.capabilities.store(CAP_BIT0_IS_DEPRECATED | CAP_USER_RDPMC, Relaxed);
    page.time_enabled.store(500, Relaxed);
    page.time_running.store(500, Relaxed);
    assert_eq!(fields(read_with(&page, &Scripted::new(5, 1 << 40))), Ok((5, 500, 500, 42)));
    page.time_running.store(499, Relaxed);
    assert_eq!(read_with(&page, &Scripted::new(5, 1 << 40)), Err(NoUserRead::NoTimes));
}

#[test]
fn time_is_scaled_as_wide_integers_would() {
    let mut seed = 1;
    for _ in 0..20_000 {
        let page = page();
        let (ticks, mult, shift) = (random(&mut seed), random(&mut seed) >> 32, random(&mut seed) % 33);
        let (time_offset, enabled) = (random(&mut seed), random(&mut seed));
        page.time_mult.store(u32::try_from(mult).expect("32 bits"), Relaxed);
        page.time_shift.store(u16::try_from(shift).expect("small"), Relaxed);
        page.time_offset.store(time_offset, Relaxed);
        page.time_enabled.store(enabled, Relaxed);
        let read = read_with(&page, &Scripted::new(0, ticks)).expect("readable");
        // By long multiplication and division: quotient and remainder of 2^shift, truncated only at the end.
        let unit = 1_u128 << shift;
        let (quotient, remainder) = (u128::from(ticks) / unit, u128::from(ticks) % unit);
        let nanoseconds = quotient * u128::from(mult) + remainder * u128::from(mult) / unit;
        let oracle = (u128::from(enabled) + u128::from(time_offset) + nanoseconds) % (1 << 64);
        assert_eq!(u128::from(read.enabled), oracle, "{ticks} * {mult} >> {shift}");
    }
}

#[test]
fn a_short_tick_counter_is_extended_from_its_last_known_value() {
    let page = page();
    page.time_mult.store(1, Relaxed);
    page.time_shift.store(0, Relaxed);
    page.capabilities.fetch_or(CAP_USER_TIME_SHORT, Relaxed);
    page.time_mask.store((1 << 56) - 1, Relaxed);
    for (known, ticks, now) in [
        // The tick counter wrapped at 56 bits since the kernel recorded it.
        ((5 << 56) - 10, 20, (5_u64 << 56) + 20),
        ((5 << 56) + 10, 20, (5 << 56) + 20),
        (7, 7, 7),
        // The tick is behind the recorded one (from another CPU, or read early): the distance wraps within the width.
        (1_000, 900, 900 + (1 << 56)),
    ] {
        page.time_cycles.store(known, Relaxed);
        let read = read_with(&page, &Scripted::new(0, ticks)).expect("readable");
        assert_eq!(read.enabled, now, "known {known}, tick {ticks}");
    }
}

#[test]
fn a_nonsense_shift_does_not_panic() {
    let page = page();
    page.time_shift.store(u16::MAX, Relaxed);
    assert!(read_with(&page, &Scripted::new(0, u64::MAX)).is_ok());
}
