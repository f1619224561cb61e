//! The cheap exact read: what a counter counted between two places, for less than two reads of it.
//!
//! As long as a page's lock is the same, nothing on the page has changed: not the hardware counter's number, not the offset. So the
//! thread remembers, with the lock's value, which counter to read. If the lock still is that value before and after the counter's
//! instruction at the one end, and again at the other, the event was on that counter all the while, and the plain difference is exact:
//! no offset, no times, no retry. A counter that overflows is touched by the kernel, which moves the lock.
//!
//! The check *before* the instruction keeps a stale number from being read, which can be a fatal signal; the check *after* it makes the
//! value right. Where the lock has moved, the long way of [`read`](crate::read) is gone at that end, and the other is worked out
//! from what the page said at its lock value: the last few of these are remembered.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::compiler_fence;

use crate::arch::Processor;
use crate::read::{UserRead, sign_extend};
use crate::reading::{Clock, Reading};
use crate::sys::MmapPage;

/// The beginning of a region, kept by [`Counter::begin`](crate::Counter::begin) for [`Counter::end`](crate::Counter::end).
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The hardware counter's bits, or the event's value.
    raw: u64,
    /// The page's lock, or one of the two below.
    at: u64,
    // Of a `WHOLE` beginning only.
    enabled: u64,
    running: u64,
}

/// Not a value of a lock, which has 32 bits: the beginning is a whole reading. The low bits count resets.
const WHOLE: u64 = 1 << 32;
/// There is no beginning. Also: no counter is remembered.
pub(crate) const NONE: u64 = 2 << 32;
/// Added to `WHOLE`: its times are of an earlier moment.
const LATE: u64 = 4 << 32;
/// Where in it the reading's clock stands.
const KIND_SHIFT: u32 = 40;
const WITHIN_SHIFT: u32 = 48;

impl Default for Region {
    /// A region that was not begun: its end is unmeasured.
    fn default() -> Self {
        Self { raw: 0, at: NONE, enabled: 0, running: 0 }
    }
}

impl Region {
    /// The second one of the [`parts`](Self::parts) of a region that was not begun.
    #[doc(hidden)]
    pub const NOT_BEGUN: u64 = NONE;

    /// The region that [`parts`](Self::parts) was taken from.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn from_parts([raw, at, enabled, running]: [u64; 4]) -> Self {
        Self { raw, at, enabled, running }
    }

    /// What it is made of, for whoever keeps the parts of several regions side by side. The first two are all there is of a
    /// region that [`CounterSet`](crate::CounterSet) began: the counter's bits, and the lock of its page.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn parts(self) -> [u64; 4] {
        [self.raw, self.at, self.enabled, self.running]
    }

    /// Leaves `count` events out of what the region's end will tell: for those inside that are known, and not meant.
    ///
    /// ```
    /// use perfmark_rdpmc::{Attr, Counter, Delta, Hardware, Region, known_loop};
    ///
    /// let Ok(counter) = Counter::open(&Attr::new(Hardware::Instructions)) else { return };
    /// let mut region = Region::default();
    /// counter.begin(&mut region);
    /// region.leave_out(known_loop(1_000));
    /// println!("some tens: {:?}", counter.end(&region));
    /// ```
    #[inline]
    pub fn leave_out(&mut self, count: u64) {
        self.raw = self.raw.wrapping_add(count);
    }

    /// A region that begins with a whole reading.
    pub(crate) fn whole(reading: Reading) -> Self {
        let Reading { value: raw, enabled, running, resets, is_late, clock } = reading;
        let clock = u64::from(clock.kind) << KIND_SHIFT | u64::from(clock.within) << WITHIN_SHIFT;
        Self { raw, at: (WHOLE + u64::from(resets)) | if is_late { LATE } else { 0 } | clock, enabled, running }
    }
}

/// What a page said at one value of its lock.
#[derive(Clone, Copy, Debug)]
struct Said {
    lock: u64,
    offset: u64,
    width: u16,
    /// Enabled time, and running time as well: a counter that was ever off the PMU is read the long way.
    time: u64,
}

/// How many of these are remembered: a region whose lock value is older is unmeasured if the counter was touched inside it.
const REMEMBERED: usize = 8;

/// Stands in for the page of an event that has none: its lock is odd, and so no value that is ever remembered.
pub(crate) static NO_PAGE: MmapPage = MmapPage::locked();

/// What a thread remembers of an event's page.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Memory<P: Processor> {
    // Side by side, as entry and exit load them in pairs.
    counter: Cell<P::Counter>,
    /// The event's page, or [`NO_PAGE`].
    page: Cell<*const MmapPage>,
    /// The lock's value for which `counter` is right.
    lock: Cell<u64>,
    /// The counter's number, of which `counter` was made.
    number: Cell<u32>,
    said: [Cell<Said>; REMEMBERED],
    next: Cell<usize>,
    /// How often the counter was set to 0.
    resets: Cell<u32>,
}

impl<P: Processor> Memory<P> {
    /// `page` stays where it is as long as regions are begun and ended.
    pub(crate) fn new(processor: &P, page: Option<&MmapPage>) -> Self {
        let nothing = Said { lock: NONE, offset: 0, width: 64, time: 0 };
        Self {
            counter: Cell::new(processor.counter(0)),
            page: Cell::new(page.map_or(&raw const NO_PAGE, std::ptr::from_ref)),
            lock: Cell::new(NONE),
            number: Cell::new(0),
            said: std::array::from_fn(|_| Cell::new(nothing)),
            next: Cell::new(0),
            resets: Cell::new(0),
        }
    }

    /// Begins a region if the page still says what is remembered.
    ///
    /// # Safety
    ///
    /// The page is mapped, and of an event that was opened on the calling thread.
    #[allow(unsafe_code, reason = "reads a counter")]
    #[inline]
    pub(crate) unsafe fn begin(&self, processor: &P, region: &mut Region) -> bool {
        let at = self.lock.get();
        // SAFETY: the caller's word.
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
        // SAFETY: the caller's word.
        let raw = unsafe { self.raw(processor, self.lock.get(), at) }?;
        // Smaller: it overflowed a moment ago, and the kernel does not know yet.
        raw.checked_sub(begun)
    }

    /// The remembered counter's bits, if the page's lock is `remembered`, for which it is right, before, and `at` after. As the lock does not
    /// go back, the page then was the same at `at` and all the while.
    ///
    /// # Safety
    ///
    /// As [`begin`](Self::begin); `counter` is remembered for the value `remembered`.
    #[allow(unsafe_code, reason = "reads a counter")]
    #[inline]
    unsafe fn raw(&self, processor: &P, remembered: u64, at: u64) -> Option<u64> {
        let counter = self.counter.get();
        // SAFETY: the caller's word.
        let page = unsafe { &*self.page.get() };
        if u64::from(page.lock.load(Relaxed)) != remembered {
            return None;
        }
        compiler_fence(Acquire);
        // SAFETY: at this value of the lock the page named the counter.
        let raw = unsafe { processor.read(counter) };
        compiler_fence(Acquire);
        (u64::from(page.lock.load(Relaxed)) == at).then_some(raw)
    }

    /// The counter's number, the value of the page's lock for which it is right, and the page; `None` if nothing is remembered.
    pub(crate) fn remembered(&self) -> Option<(u32, u64, *const MmapPage)> {
        let lock = self.lock.get();
        (lock != NONE).then(|| (self.number.get(), lock, self.page.get()))
    }

    /// Goes on without a page: no region is cheap any more, and those begun so are unmeasured.
    pub(crate) fn without_page(&self) {
        self.page.set(&raw const NO_PAGE);
        self.forget_page();
    }

    /// Remembers what the page said, so that the next regions are cheap, if they can be: once other events took the counter away for a
    /// time, a region needs the times at its very beginning.
    pub(crate) fn remember(&self, processor: &P, read: &UserRead) -> bool {
        if read.enabled != read.running {
            self.lock.set(NONE);
            return false;
        }
        let said = Said { lock: read.lock.into(), offset: read.offset, width: read.width, time: read.enabled };
        self.said[self.next.get()].set(said);
        self.next.set((self.next.get() + 1) % REMEMBERED);
        self.number.set(read.index - 1);
        self.counter.set(processor.counter(read.index - 1));
        self.lock.set(read.lock.into());
        true
    }

    /// Forgets all that the page said, because the counter is about to be set to 0: regions begun before are unmeasured.
    pub(crate) fn forget(&self) {
        self.resets.set(self.resets.get().wrapping_add(1));
        self.forget_page();
    }

    fn forget_page(&self) {
        self.lock.set(NONE);
        for said in &self.said {
            said.set(Said { lock: NONE, ..said.get() });
        }
    }

    /// How often the counter was set to 0.
    #[inline]
    pub(crate) fn resets(&self) -> u32 {
        self.resets.get()
    }

    /// The whole reading at a region's beginning, unless there was none, or what the page said then is forgotten.
    pub(crate) fn beginning(&self, region: &Region) -> Option<Reading> {
        let resets = self.resets();
        if region.at & (LATE - 1) == WHOLE + u64::from(resets) {
            let Region { raw: value, enabled, running, at } = *region;
            #[expect(clippy::cast_possible_truncation, reason = "the fields that `Region::whole` made")]
            let clock = Clock { kind: (at >> KIND_SHIFT) as u8, within: (at >> WITHIN_SHIFT) as u16 };
            return Some(Reading { value, enabled, running, resets, is_late: at & LATE != 0, clock });
        }
        let said = self.said.iter().map(Cell::get).find(|said| said.lock == region.at && region.at != NONE)?;
        let value = said.offset.wrapping_add(sign_extend(region.raw, said.width));
        // The times are those of the moment in which the page was remembered, not of the region's beginning.
        Some(Reading { value, enabled: said.time, running: said.time, resets, is_late: true, clock: Clock::default() })
    }
}

#[cfg(test)]
mod tests;
