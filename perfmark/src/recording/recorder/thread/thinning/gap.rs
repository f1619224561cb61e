//! The gaps between bursts, in which a thread's thinned marks skip their calls.
#![allow(unsafe_code, reason = "finds the thread's counts")]

use std::cell::Cell;

use crate::recording::mark::entry;
use crate::recording::recorder::thread::memory::FROM_GAP_TO_COUNTS;

/// A gap of a thread. All zeroes: nothing is skipped.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Gap {
    /// The number of calls that the thread skipped so far. Where marked functions skip calls themselves, a signal
    /// handler may change it at any moment: so each change is a single instruction there.
    skipped: Cell<i64>,
    /// The number of skipped calls at which the gap ends.
    until: Cell<i64>,
}

impl Gap {
    /// The number of calls that the thread skipped so far.
    #[inline]
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.get().cast_unsigned()
    }

    /// Skips the call that begins, if the thread is in a gap.
    #[inline]
    pub(crate) fn skips(&self) -> bool {
        let skips = self.skipped.get() < self.until.get();
        if skips {
            self.skip_one();
        }
        skips
    }

    /// Skips the call that begins, also outside of a gap.
    #[inline]
    pub(crate) fn skip_one(&self) {
        // SAFETY: a live number, which only this thread uses.
        unsafe { entry::increment(self.skipped.as_ptr()) };
    }

    /// Skips one more than those of the gap.
    pub(crate) fn skip_beside(&self) {
        // First, so that a signal handler does not see the end of the gap in between.
        self.until.set(self.until.get() + 1);
        self.skip_one();
    }

    /// Begins a gap of so many calls.
    pub(crate) fn begin(&self, calls: u64) {
        self.until.set(self.skipped.get() + calls.cast_signed());
    }

    /// Ends the gap, if there is one. Returns how many calls were left in it.
    pub(crate) fn end(&self) -> u64 {
        // A signal handler may have skipped one more than there were.
        let left = (self.until.get() - self.skipped.get()).max(0);
        self.until.set(0);
        left.cast_unsigned()
    }
}

/// Skips the call that begins in the marked function, if the thread is in a gap. The slot is loaded after the entry: if
/// another thread changes both, it is the new slot, whose calls are skipped only if that is right.
///
/// # Safety
///
/// The entry is that of a mark that skips calls. `slot` returns a slot below `SLOTS`.
#[inline(always)]
#[allow(clippy::inline_always, reason = "a few instructions of the marked function")]
pub(crate) unsafe fn skips(entry: i64, slot: impl FnOnce() -> u64) -> bool {
    // SAFETY: the thread's counts, or those of no thread. Where a count is on, they are in a `ThreadMemory` with a gap,
    // which is a `Gap`.
    unsafe { entry::skip::<FROM_GAP_TO_COUNTS>(entry::counts(entry), slot()) }
}
