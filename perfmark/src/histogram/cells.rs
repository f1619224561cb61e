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
    /// Wraps.
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

    /// The bucket of a value. None if no value fell in its octave yet.
    #[inline]
    pub(crate) fn bucket(&self, value: u64) -> Option<Bucket<'_>> {
        let (octave, place) = bucket::of(value);
        // SAFETY: every value's octave is one of these, as a test of `bucket` has it.
        let counts = unsafe { self.octaves.get_unchecked(octave) }.load(Relaxed);
        if counts.is_null() {
            return None;
        }
        // SAFETY: an octave lives as long as the arena, and so as its cells.
        Some(Bucket { cells: self, count: unsafe { &(*counts)[place] }, value })
    }

    /// The bucket of a value; None where there is no memory for it. Only the thread that owns these cells may call it, always with the same
    /// arena, which outlives them.
    #[cold]
    pub(crate) fn grow(&self, value: u64, arena: &Arena) -> Option<Bucket<'_>> {
        let (octave, _) = bucket::of(value);
        if self.octaves[octave].load(Relaxed).is_null() {
            self.octaves[octave].store(arena.take::<Octave>()?.as_ptr(), Release);
        }
        self.bucket(value)
    }

    /// Values and their sum, as far as it goes; for the thread that writes.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        let octaves = self.octaves.iter().map(|counts| counts.load(Relaxed)).filter(|counts| !counts.is_null());
        // SAFETY: an octave lives as long as the arena, and so as its cells.
        let counts = octaves.flat_map(|counts| unsafe { &*counts }).map(|count| count.load(Relaxed));
        (counts.sum(), self.sum.load(Relaxed))
    }

    /// Adds what is here to `frozen`.
    pub(crate) fn add_to(&self, frozen: &mut Frozen) {
        let mut near = 0;
        for (octave, counts) in self.octaves.iter().enumerate() {
            let counts = counts.load(Acquire);
            if counts.is_null() {
                continue;
            }
            // SAFETY: an octave lives as long as the arena, and so as its cells.
            for (place, count) in unsafe { &*counts }.iter().enumerate() {
                let count = count.load(Acquire);
                near += u128::from(*bucket::values(octave, place).start()) * u128::from(count);
                frozen.add_bucket(octave, place, count);
            }
        }
        frozen.add_totals(whole(self.sum.load(Relaxed), near), self.min.load(Relaxed), self.max.load(Relaxed));
    }
}

/// The number of which the low 64 bits are known, and which is nearer to `near` than 2^63. Less than nothing is nothing.
pub(crate) fn whole(low: u64, near: u128) -> u128 {
    #[expect(clippy::cast_possible_truncation, reason = "the low bits")]
    let off = low.wrapping_sub(near as u64).cast_signed();
    near.saturating_add_signed(off.into())
}

/// Where a value is to be counted.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'a> {
    cells: &'a Cells,
    count: &'a AtomicU64,
    value: u64,
}

impl Bucket<'_> {
    /// Adds the value. Only the thread that owns the cells may call it.
    ///
    /// The count is stored last, and released: who sees the call sees what it added.
    #[inline]
    pub(crate) fn add(self) {
        let Self { cells, count, value } = self;
        add(&cells.sum, value);
        // SAFETY: this thread alone writes them, so that it may read them together.
        let (min, max) = unsafe { (*cells.min.as_ptr(), *cells.max.as_ptr()) };
        if value < min || value > max {
            cells.min.store(min.min(value), Relaxed);
            cells.max.store(max.max(value), Relaxed);
        }
        // SAFETY: this thread alone writes it.
        count.store(unsafe { *count.as_ptr() } + 1, Release);
    }
}

/// Adds to a number that only this thread writes. It wraps.
#[inline]
pub(crate) fn add(number: &AtomicU64, by: u64) {
    number.store(number.load(Relaxed).wrapping_add(by), Relaxed);
}
