//! The gaps between bursts, in which a thread's thinned marks skip their calls.
#![allow(unsafe_code, reason = "changes a number by one instruction")]

use std::cell::Cell;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use crate::recording::mark::entry;

/// A gap of a thread. All zeroes: nothing is skipped.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Gap {
    /// Each skipped call adds 1. It is negative in a gap, which ends at 0. Where marked functions skip calls
    /// themselves, a signal handler may change it at any moment: so each change is a single instruction there.
    position: AtomicI64,
    /// How far the position was set back so far, where gaps began and ended.
    pub(crate) set_back: Cell<u64>,
}

impl Gap {
    /// A number to which each skipped call adds 1, and which is [set back](Self::set_back) at times.
    #[inline]
    pub(crate) fn position(&self) -> u64 {
        self.position.load(Relaxed).cast_unsigned()
    }

    /// Skips the call that begins, if the thread is in a gap.
    #[inline]
    pub(crate) fn skips(&self) -> bool {
        let skips = self.position.load(Relaxed) < 0;
        if skips {
            self.skip_one();
        }
        skips
    }

    /// Skips the call that begins, also outside of a gap.
    #[inline]
    pub(crate) fn skip_one(&self) {
        // SAFETY: a live number, which only this thread uses.
        unsafe { entry::increment(self.position.as_ptr()) };
    }

    /// Begins a gap of so many calls.
    pub(crate) fn begin(&self, calls: u64) {
        self.set(-calls.cast_signed());
    }

    /// Ends the gap, if there is one.
    pub(crate) fn end(&self) {
        if self.position.load(Relaxed) < 0 {
            self.set(0);
        }
    }

    fn set(&self, position: i64) {
        let former = self.position.swap(position, Relaxed);
        self.set_back.set(self.set_back.get().wrapping_add((former - position).cast_unsigned()));
    }
}
