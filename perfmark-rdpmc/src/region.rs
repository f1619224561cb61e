//! The fast exact read: what a counter counted between the start and the end of a region, for less than two reads of
//! it.
//!
//! While a page's lock is unchanged, nothing on the page has changed: neither the hardware counter's number nor the
//! offset. The thread therefore remembers, with the lock's value, which counter to read. Suppose the lock has that
//! value before and after the counter's instruction, both at the start and at the end of the region. Then the event was
//! on that counter the whole time, and the plain difference is exact: no offset, no times, no retry. When a counter
//! overflows, the kernel updates the page, and the lock changes.
//!
//! The check *before* the instruction prevents the read of a stale counter number, which can be a fatal signal. The
//! check *after* it makes the value correct. If the lock has changed, that side of the region uses the slow path,
//! [`read`](crate::read). The value of the other side is computed from what the page contained at its lock value: the
//! last few states of the page are remembered.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::compiler_fence;

use crate::arch::Processor;
use crate::read::{UserRead, sign_extend};
use crate::reading::{CoreClock, Reading};
use crate::sys::MmapPage;

/// The start of a region, set by [`Counter::begin`](crate::Counter::begin) for [`Counter::end`](crate::Counter::end).
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The hardware counter's raw value, or the event's value.
    raw: u64,
    /// The page's lock, or `FULL_READING` with its flags, or `NONE`.
    at: u64,
    // Set for a `FULL_READING` only.
    enabled: u64,
    running: u64,
}

/// Never a lock value, as locks have 32 bits: the region began with a full reading. The low bits count resets.
const FULL_READING: u64 = 1 << 32;
/// The region was not begun. Also: no counter is remembered.
pub(crate) const NONE: u64 = 2 << 32;
/// The bits that distinguish the two.
const KIND: u64 = FULL_READING | NONE;
/// Added to `FULL_READING`: its times are older than its value, or events were left out, so it must not be scaled.
const STALE_TIMES: u64 = 4 << 32;
/// The bit positions of the reading's clock in it.
const CORE_KIND_SHIFT: u32 = 40;
const UNCERTAINTY_SHIFT: u32 = 48;

impl Default for Region {
    /// A region that was not begun. Its end is unmeasured.
    fn default() -> Self {
        Self { raw: 0, at: NONE, enabled: 0, running: 0 }
    }
}

impl Region {
    /// The second of the [`parts`](Self::parts) of a region that was not begun.
    #[doc(hidden)]
    pub const NOT_BEGUN: u64 = NONE;

    /// The region that has these [`parts`](Self::parts).
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn from_parts([raw, at, enabled, running]: [u64; 4]) -> Self {
        Self { raw, at, enabled, running }
    }

    /// Its parts, for callers that store the parts of several regions side by side. A region that
    /// [`CounterSet`](crate::CounterSet) began consists of the first two: the counter's raw value, and the lock of its
    /// page.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn parts(self) -> [u64; 4] {
        [self.raw, self.at, self.enabled, self.running]
    }

    /// Excludes `count` events from the result of the region: for events inside it whose number is known, and which are
    /// not of interest. If other events used the hardware counter for part of the region, it is then unmeasured: how
    /// many of those `count` events were counted is not known.
    ///
    /// ```
    /// use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Region, known_loop};
    ///
    /// let Ok(counter) = Counter::open(&Attr::new(Hardware::Instructions)) else { return };
    /// let mut region = Region::default();
    /// counter.begin(&mut region);
    /// region.leave_out(known_loop(1_000));
    /// println!("a few tens: {:?}", counter.end(&region));
    /// ```
    #[inline]
    pub fn leave_out(&mut self, count: u64) {
        self.raw = self.raw.wrapping_add(count);
        if self.at & KIND == FULL_READING {
            // Prevents scaling. A region that began without a full reading is never scaled.
            self.at |= STALE_TIMES;
        }
    }

    /// A region that begins with a full reading.
    pub(crate) fn from_reading(reading: Reading) -> Self {
        let Reading { value: raw, enabled, running, resets, has_stale_times, clock } = reading;
        let clock = u64::from(clock.kind) << CORE_KIND_SHIFT | u64::from(clock.uncertainty) << UNCERTAINTY_SHIFT;
        Self {
            raw,
            at: (FULL_READING + u64::from(resets)) | if has_stale_times { STALE_TIMES } else { 0 } | clock,
            enabled,
            running,
        }
    }
}

/// The contents of a page at one value of its lock.
#[derive(Clone, Copy, Debug)]
struct PageState {
    lock: u64,
    offset: u64,
    width: u16,
    /// Enabled time, which equals the running time: a counter that has been off the PMU uses the slow path.
    time: u64,
}

/// The number of remembered states. A region with an older lock value is unmeasured if the page changed inside it.
const REMEMBERED: usize = 8;

/// Used instead of a page for an event that has none. Its lock is odd, and so never a remembered value.
pub(crate) static NO_PAGE: MmapPage = MmapPage::locked();

/// The remembered contents of an event's page.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PageMemory<P: Processor> {
    // Side by side, because entry and exit load them in pairs.
    counter: Cell<P::Counter>,
    /// The event's page, or [`NO_PAGE`].
    page: Cell<*const MmapPage>,
    /// The lock value for which `counter` is valid.
    lock: Cell<u64>,
    /// The counter's number, from which `counter` was made.
    number: Cell<u32>,
    states: [Cell<PageState>; REMEMBERED],
    next: Cell<usize>,
    /// How often the counter was reset to 0.
    resets: Cell<u32>,
}

impl<P: Processor> PageMemory<P> {
    /// `page` must not move while regions are begun and ended.
    pub(crate) fn new(processor: &P, page: Option<&MmapPage>) -> Self {
        let nothing = PageState { lock: NONE, offset: 0, width: 64, time: 0 };
        Self {
            counter: Cell::new(processor.counter(0)),
            page: Cell::new(page.map_or(&raw const NO_PAGE, std::ptr::from_ref)),
            lock: Cell::new(NONE),
            number: Cell::new(0),
            states: std::array::from_fn(|_| Cell::new(nothing)),
            next: Cell::new(0),
            resets: Cell::new(0),
        }
    }

    /// Begins a region if the page's lock is the remembered one.
    ///
    /// # Safety
    ///
    /// The page is mapped, and belongs to an event that was opened on the calling thread.
    #[allow(unsafe_code, reason = "reads a counter")]
    #[inline]
    pub(crate) unsafe fn begin(&self, processor: &P, region: &mut Region) -> bool {
        let at = self.lock.get();
        // SAFETY: the caller promises that the page is mapped, and that the event was opened on this thread. `remember`
        // sets counter and lock together.
        match unsafe { self.raw(processor, at, at) } {
            Some(raw) => {
                region.raw = raw;
                region.at = at;
                true
            }
            None => false,
        }
    }

    /// What was counted in a region in which the page did not change.
    ///
    /// # Safety
    ///
    /// As [`begin`](Self::begin).
    #[allow(unsafe_code, reason = "reads a counter")]
    #[inline]
    pub(crate) unsafe fn end(&self, processor: &P, region: &Region) -> Option<u64> {
        let Region { raw: begun, at, .. } = *region;
        // SAFETY: the caller promises that the page is mapped, and that the event was opened on this thread. `remember`
        // sets counter and lock together.
        let raw = unsafe { self.raw(processor, self.lock.get(), at) }?;
        // A smaller value: the counter has just overflowed, and the kernel has not updated the page yet.
        raw.checked_sub(begun)
    }

    /// The remembered counter's raw value, if the page's lock is `remembered` before the read and `at` after it. The
    /// lock never decreases, so the page has not changed since its lock was `at`.
    ///
    /// # Safety
    ///
    /// As [`begin`](Self::begin). `counter` is valid for the lock value `remembered`.
    #[allow(unsafe_code, reason = "reads a counter")]
    #[inline]
    unsafe fn raw(&self, processor: &P, remembered: u64, at: u64) -> Option<u64> {
        let counter = self.counter.get();
        // SAFETY: the caller promises that the page is mapped.
        let page = unsafe { &*self.page.get() };
        if u64::from(page.lock.load(Relaxed)) != remembered {
            return None;
        }
        compiler_fence(Acquire);
        // SAFETY: at this lock value the page named the counter.
        let raw = unsafe { processor.read(counter) };
        compiler_fence(Acquire);
        (u64::from(page.lock.load(Relaxed)) == at).then_some(raw)
    }

    /// The counter's number, the lock value for which it is valid, and the page. `None` if nothing is remembered.
    pub(crate) fn remembered(&self) -> Option<(u32, u64, *const MmapPage)> {
        let lock = self.lock.get();
        (lock != NONE).then(|| (self.number.get(), lock, self.page.get()))
    }

    /// Continues without a page: regions use the slow path, and those begun on the fast path are unmeasured.
    pub(crate) fn without_page(&self) {
        self.page.set(&raw const NO_PAGE);
        self.forget_page();
    }

    /// Remembers the page's contents, so that the next regions use the fast path. Returns `false` if they cannot: once
    /// other events have used the counter, a region needs the times at its own start.
    pub(crate) fn remember(&self, processor: &P, read: &UserRead) -> bool {
        if read.enabled != read.running {
            self.lock.set(NONE);
            return false;
        }
        let state = PageState { lock: read.lock.into(), offset: read.offset, width: read.width, time: read.enabled };
        self.states[self.next.get()].set(state);
        self.next.set((self.next.get() + 1) % REMEMBERED);
        self.number.set(read.index - 1);
        self.counter.set(processor.counter(read.index - 1));
        self.lock.set(read.lock.into());
        true
    }

    /// Forgets the page's contents, because the counter is about to be reset: regions begun before are unmeasured.
    pub(crate) fn forget(&self) {
        self.resets.set(self.resets.get().wrapping_add(1));
        self.forget_page();
    }

    fn forget_page(&self) {
        self.lock.set(NONE);
        for state in &self.states {
            state.set(PageState { lock: NONE, ..state.get() });
        }
    }

    /// How often the counter was reset to 0.
    #[inline]
    pub(crate) fn resets(&self) -> u32 {
        self.resets.get()
    }

    /// The full reading at a region's start, if it was begun and its page state is still remembered.
    pub(crate) fn beginning(&self, region: &Region) -> Option<Reading> {
        if region.at & KIND == FULL_READING {
            let Region { raw: value, enabled, running, at } = *region;
            #[expect(clippy::cast_possible_truncation, reason = "the fields as `Region::from_reading` packed them")]
            let (resets, clock) = (
                at as u32,
                CoreClock { kind: (at >> CORE_KIND_SHIFT) as u8, uncertainty: (at >> UNCERTAINTY_SHIFT) as u16 },
            );
            return Some(Reading { value, enabled, running, resets, has_stale_times: at & STALE_TIMES != 0, clock });
        }
        let state = self.states.iter().map(Cell::get).find(|state| state.lock == region.at && region.at != NONE)?;
        let value = state.offset.wrapping_add(sign_extend(region.raw, state.width));
        // The times are from when the page was remembered, not from the region's start.
        Some(Reading {
            value,
            enabled: state.time,
            running: state.time,
            resets: self.resets(),
            has_stale_times: true,
            clock: CoreClock::default(),
        })
    }
}

#[cfg(test)]
mod tests;
