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
use crate::arena::Arena;

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

    /// Adds a value; not where there is no memory for it. Only the thread that owns these cells may call it, always with the same
    /// arena, which outlives them. Sums stay at `u64::MAX` instead of wrapping.
    #[inline]
    pub(crate) fn add(&self, value: u64, arena: &Arena) {
        let (octave, place) = bucket::of(value);
        let mut counts = self.octaves[octave].load(Relaxed);
        if counts.is_null() {
            counts = match self.grow(octave, arena) {
                Some(counts) => counts,
                None => return,
            };
        }
        // SAFETY: an octave lives as long as the arena, and so as its cells.
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
    fn grow(&self, octave: usize, arena: &Arena) -> Option<*mut Octave> {
        let counts = arena.take::<Octave>()?.as_ptr();
        self.octaves[octave].store(counts, Release);
        Some(counts)
    }

    /// Adds what is here to `frozen`.
    pub(crate) fn add_to(&self, frozen: &mut Frozen) {
        for (octave, counts) in self.octaves.iter().enumerate() {
            let counts = counts.load(Acquire);
            if counts.is_null() {
                continue;
            }
            // SAFETY: an octave lives as long as the arena, and so as its cells.
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
