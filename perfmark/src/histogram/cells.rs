//! The histogram that one thread writes and every thread may read.
//!
//! There is one writer, so a counter is advanced by a relaxed load and a store, without a lock prefix. A reader sees each number
//! whole; numbers that belong together may be a call apart while the writer runs.
#![allow(unsafe_code, reason = "octaves are published through atomic pointers")]

use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

use super::bucket::{self, OCTAVES, PLACES};
use super::frozen::Frozen;

type Octave = [AtomicU64; PLACES];

/// A histogram with its totals. 256 bytes more for each octave that a value fell in.
#[derive(Debug)]
pub(crate) struct Cells {
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    octaves: [AtomicPtr<Octave>; OCTAVES],
}

impl Cells {
    pub(crate) fn new() -> Self {
        Self {
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            octaves: [const { AtomicPtr::new(ptr::null_mut()) }; OCTAVES],
        }
    }

    /// Adds a value. Only the thread that owns these cells may call it. Sums stay at `u64::MAX` instead of wrapping.
    #[inline]
    pub(crate) fn add(&self, value: u64) {
        let (octave, place) = bucket::of(value);
        let mut counts = self.octaves[octave].load(Relaxed);
        if counts.is_null() {
            counts = self.grow(octave);
        }
        // SAFETY: an octave lives as long as its cells.
        advance(unsafe { &(*counts)[place] }, 1);
        advance(&self.sum, value);
        if value < self.min.load(Relaxed) {
            self.min.store(value, Relaxed);
        }
        if value > self.max.load(Relaxed) {
            self.max.store(value, Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&self, octave: usize) -> *mut Octave {
        let counts = Box::into_raw(Box::new([const { AtomicU64::new(0) }; PLACES]));
        self.octaves[octave].store(counts, Release);
        counts
    }

    /// Adds what is here to `frozen`.
    pub(crate) fn add_to(&self, frozen: &mut Frozen) {
        for (octave, counts) in self.octaves.iter().enumerate() {
            let counts = counts.load(Acquire);
            if counts.is_null() {
                continue;
            }
            // SAFETY: an octave lives as long as its cells.
            for (place, count) in unsafe { &*counts }.iter().enumerate() {
                frozen.add_bucket(octave, place, count.load(Relaxed));
            }
        }
        frozen.add_totals(self.sum.load(Relaxed), self.min.load(Relaxed), self.max.load(Relaxed));
    }
}

/// Adds to a counter that only this thread writes.
#[inline]
pub(crate) fn advance(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).saturating_add(by), Relaxed);
}

impl Drop for Cells {
    fn drop(&mut self) {
        for counts in &mut self.octaves {
            let counts = *counts.get_mut();
            if !counts.is_null() {
                // SAFETY: made by Box::into_raw in `grow`, and nobody reads cells that are being dropped.
                drop(unsafe { Box::from_raw(counts) });
            }
        }
    }
}
