//! The histogram that one thread writes and every thread may read.
//!
//! There is one writer, so a counter is advanced by a relaxed load and a store, without a lock prefix. A reader sees each number
//! whole; numbers that belong together may be a call apart while the writer runs.
#![allow(unsafe_code, reason = "rows are published through atomic pointers")]

use std::array;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::bucket::{self, LAST, PLACES, ROWS, SMALL};
use super::frozen::Frozen;
use crate::arena::Arena;
use crate::sync::{AtomicPtr, AtomicU64, own};

/// A histogram with its totals. 256 bytes more for each row between its smallest and its largest value; 512 for the last one.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Cells {
    /// Where place 0 of each row's counts is, or would be; null where there are none. All rows from the smallest value's to the largest's have
    /// some.
    rows: [AtomicPtr<AtomicU64>; ROWS],
    /// The smallest value, and how much more the largest is: so that one comparison tells a value between them. [`NOTHING`] before the first.
    min: AtomicU64,
    span: AtomicU64,
    /// Wraps.
    sum: AtomicU64,
}

/// A smallest value that none is.
const NOTHING: u64 = u64::MAX;

impl Cells {
    pub(crate) fn new() -> Self {
        Self {
            rows: array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            min: AtomicU64::new(NOTHING),
            span: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    /// Whether the value, which is not [`NOTHING`], is between the smallest and the largest until now. For the thread that owns these cells.
    #[inline]
    pub(crate) fn spans(&self, value: u64) -> bool {
        // SAFETY: this thread alone writes them, so that it may read them together.
        let (min, span) = unsafe { (own(&self.min), own(&self.span)) };
        value.wrapping_sub(min) <= span
    }

    /// The bucket of a value.
    ///
    /// # Safety
    ///
    /// The cells [span](Self::spans) it.
    #[inline]
    pub(crate) unsafe fn bucket(&self, value: u64) -> Bucket<'_> {
        let row = bucket::row(value);
        // SAFETY: every value's row is one of these, as a test of `bucket` has it.
        let counts = unsafe { self.rows.get_unchecked(row) }.load(Relaxed);
        // SAFETY: between the smallest and the largest value there are counts, which live as long as the arena, and so as these cells.
        Bucket { count: unsafe { &*counts.wrapping_add(bucket::place(value, row)) } }
    }

    /// The bucket of any value; None where there is no memory for it. Only the thread that owns these cells may call it, always with the same
    /// arena, which outlives them.
    pub(crate) fn grow(&self, value: u64, arena: &Arena) -> Option<Bucket<'_>> {
        // One less than the largest there is: `NOTHING` is none, and no count of anything comes near.
        let value = value.min(NOTHING - 1);
        if !self.spans(value) {
            self.widen(value, arena)?;
        }
        // SAFETY: now they span it.
        Some(unsafe { self.bucket(value) })
    }

    /// Makes the cells span a value that they do not. None where there is no memory.
    #[cold]
    #[inline(never)]
    fn widen(&self, value: u64, arena: &Arena) -> Option<()> {
        let (min, max) = self.range().map_or((value, value), |(min, max)| (min.min(value), max.max(value)));
        for row in bucket::row(max)..=bucket::row(min) {
            if self.rows[row].load(Relaxed).is_null() {
                let counts = if row == LAST { arena.take::<SMALL>()? } else { arena.take::<PLACES>()? };
                self.rows[row].store(counts.as_ptr().wrapping_sub(*bucket::places(row).start()), Release);
            }
        }
        self.min.store(min, Relaxed);
        self.span.store(max - min, Relaxed);
        Some(())
    }

    /// The smallest and the largest value; None before the first.
    fn range(&self) -> Option<(u64, u64)> {
        let (min, span) = (self.min.load(Relaxed), self.span.load(Relaxed));
        (min != NOTHING).then(|| (min, min.saturating_add(span)))
    }

    /// Adds to the sum. Only the thread that owns these cells may call it.
    #[inline]
    pub(crate) fn add_to_sum(&self, value: u64) {
        add(&self.sum, value);
    }

    /// Values and their sum, as far as it goes; for the thread that writes.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        (self.counts().map(|(.., count)| count).sum(), self.sum.load(Relaxed))
    }

    /// Row, place and count of each bucket.
    fn counts(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        let rows = self.rows.iter().enumerate().map(|(row, counts)| (row, counts.load(Acquire)));
        rows.filter(|(_, counts)| !counts.is_null()).flat_map(|(row, counts)| {
            bucket::places(row).map(move |place| {
                // SAFETY: a row's counts live as long as the arena, and so as its cells.
                let count = unsafe { &*counts.wrapping_add(place) };
                (row, place, count.load(Acquire))
            })
        })
    }

    /// Adds what is here to `frozen`.
    pub(crate) fn add_to(&self, frozen: &mut Frozen) {
        let mut near = 0;
        let (mut lowest, mut highest) = (None, None);
        // The rows of the largest values first.
        for (row, place, count) in self.counts().filter(|(.., count)| *count > 0) {
            let values = bucket::values(row, place);
            near += i128::from(*values.start()) * i128::from(count);
            frozen.add_bucket(row, place, count);
            if highest.as_ref().is_none_or(|(of, _)| *of == row) {
                highest = Some((row, values.clone()));
            }
            if lowest.as_ref().is_none_or(|(of, _)| *of != row) {
                lowest = Some((row, values));
            }
        }
        // The owner may be about to change them: then they are known as well as the bucket.
        let range = self.range().zip(lowest.zip(highest)).map(|((min, max), ((_, lowest), (_, highest)))| {
            (min.clamp(*lowest.start(), *lowest.end()), max.clamp(*highest.start(), *highest.end()))
        });
        frozen.add_totals(whole(self.sum.load(Relaxed), near), range);
    }
}

/// The number whose low 64 bits are these, and which is nearer to `near` than 2^63.
pub(crate) fn whole(low: u64, near: i128) -> i128 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low bits")]
    let off = low.wrapping_sub(near as u64).cast_signed();
    near.saturating_add(off.into())
}

/// Where a value is to be counted.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'a> {
    count: &'a AtomicU64,
}

impl Bucket<'_> {
    /// Counts the value. Only the thread that owns the cells may call it.
    #[inline]
    pub(crate) fn add(self) {
        add(self.count, 1);
    }

    /// The same: who sees the call sees what was written before.
    #[inline]
    pub(crate) fn publish(self) {
        // SAFETY: this thread alone writes it.
        self.count.store(unsafe { own(self.count) } + 1, Release);
    }
}

/// Adds to a number that only this thread writes. It wraps.
#[inline]
pub(crate) fn add(number: &AtomicU64, by: u64) {
    number.store(number.load(Relaxed).wrapping_add(by), Relaxed);
}
