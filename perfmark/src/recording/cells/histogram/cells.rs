//! The histogram that one thread writes and every thread may read.
//!
//! There is one writer, so a counter is advanced by a relaxed load and a store, without a lock prefix. A reader sees
//! each number completely; related numbers may be a call apart while the writer runs.
#![allow(unsafe_code, reason = "rows are published through atomic pointers")]

use std::array;
use std::hint::black_box;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::bucket::{self, COLUMNS, LAST, LINES, SMALL};
use super::frozen::Frozen;
use crate::platform::arena::Arena;
use crate::platform::sync::{AtomicPtr, AtomicU64, own};

/// A histogram with its totals. It needs 256 more bytes for each row between its smallest and its largest value; 512
/// for the last one.
#[repr(C)]
pub(crate) struct Cells {
    /// The start of each line; null if its row has no counts. All rows from the smallest value's to the largest value's
    /// have counts.
    lines: [AtomicPtr<AtomicU64>; LINES],
    /// The sum, which wraps.
    sum: AtomicU64,
    /// The smallest and the largest value; [`NOTHING`] and 0 before the first value.
    min: AtomicU64,
    max: AtomicU64,
    /// The largest cost that is not long.
    longest: AtomicU64,
}

/// The smallest value before the first value; no value is that large.
const NOTHING: u64 = u64::MAX;
/// The smallest cost. Probes never cost that much more than usual: a lower value is a counter that overflowed.
const LEAST: u64 = 0_u64.wrapping_sub(1 << 31);

/// A range of `count` costs from `low` on, which one comparison tests. If it contains 0, it also contains negative
/// costs, which count as 0, down to [`LEAST`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    low: u64,
    count: u64,
}

impl Span {
    pub(crate) const NOTHING: Self = Self { low: 0, count: 0 };

    #[inline]
    pub(crate) fn has(self, cost: u64) -> bool {
        cost.wrapping_sub(self.low) < self.count
    }
}

impl Default for Cells {
    fn default() -> Self {
        Self {
            lines: array::from_fn(|_| AtomicPtr::default()),
            sum: AtomicU64::default(),
            min: AtomicU64::new(NOTHING),
            max: AtomicU64::default(),
            longest: AtomicU64::new(i64::MAX.cast_unsigned()),
        }
    }
}

impl Cells {
    /// The range from the smallest to the largest value so far. For the thread that owns these cells.
    pub(crate) fn span(&self) -> Span {
        let Some((min, max)) = self.range() else { return Span::NOTHING };
        let low = if min == 0 { LEAST } else { min };
        Span { low, count: max.wrapping_sub(low) + 1 }
    }

    /// The same without costs that are [long](Self::is_long).
    pub(crate) fn span_of_short(&self) -> Span {
        let Span { low, count } = self.span();
        let count = if self.is_long(low) { 0 } else { count.min(self.longest.load(Relaxed).wrapping_sub(low) + 1) };
        Span { low, count }
    }

    /// Lets costs above this one be long.
    pub(crate) fn set_longest(&self, longest: u64) {
        self.longest.store(longest, Relaxed);
    }

    /// Whether calls with this cost end on the slow path because it is long.
    #[inline]
    pub(crate) fn is_long(&self, cost: u64) -> bool {
        cost.cast_signed() > self.longest.load(Relaxed).cast_signed()
    }

    /// The bucket of a cost.
    ///
    /// # Safety
    ///
    /// The cost is in the cells' [span](Self::span), or was once.
    #[inline]
    pub(crate) unsafe fn bucket(&self, cost: u64) -> Bucket<'_> {
        let line = bucket::line(cost);
        // SAFETY: a number of 64 bits has at most 64 leading zeroes, and `line` returns at most 58 if the last row is
        // one line.
        let begin = unsafe { self.lines.get_unchecked(line) }.load(Relaxed);
        // SAFETY: between the smallest and the largest value there are counts, which live as long as the arena, and so
        // as these cells.
        Bucket { count: unsafe { &*begin.wrapping_add(bucket::along(cost, line)) } }
    }

    /// The bucket of any cost; that of 0 if the cost is negative. `None` if there is no memory for it. Only the thread
    /// that owns these cells may call it, always with the same arena, which outlives them.
    pub(crate) fn grow(&self, cost: u64, arena: &Arena) -> Option<Bucket<'_>> {
        let value = shown(cost);
        if self.range().is_none_or(|(min, max)| value < min || value > max) {
            self.widen(value, arena)?;
        }
        // SAFETY: the cells now span it.
        Some(unsafe { self.bucket(value) })
    }

    /// Extends the cells' span to a value. `None` if there is no memory.
    #[cold]
    #[inline(never)]
    fn widen(&self, value: u64, arena: &Arena) -> Option<()> {
        let (min, max) = self.range().map_or((value, value), |(min, max)| (min.min(value), max.max(value)));
        for (row, _) in bucket::rows(min, max) {
            if self.lines[row].load(Relaxed).is_null() {
                let counts = if row == LAST { arena.take::<SMALL>()? } else { arena.take::<COLUMNS>()? };
                for line in bucket::lines(row) {
                    self.lines[line].store(counts.as_ptr().wrapping_offset(-bucket::begins_before(line)), Release);
                }
            }
        }
        self.min.store(min, Relaxed);
        self.max.store(max, Relaxed);
        Some(())
    }

    /// The smallest and the largest value; `None` before the first.
    fn range(&self) -> Option<(u64, u64)> {
        let (min, max) = (self.min.load(Relaxed), self.max.load(Relaxed));
        (min != NOTHING).then(|| (min, max.max(min)))
    }

    /// Loads what a call of this cost would change, so that the processor's caches have it.
    ///
    /// # Safety
    ///
    /// That of [`bucket`](Self::bucket).
    #[inline]
    pub(crate) unsafe fn load(&self, cost: u64) {
        // SAFETY: this function's contract.
        black_box((unsafe { self.bucket(cost) }.count.load(Relaxed), self.sum.load(Relaxed)));
    }

    /// Adds to the sum. Only the thread that owns these cells may call it.
    #[inline]
    pub(crate) fn add_to_sum(&self, value: u64) {
        add(&self.sum, value);
    }

    /// Forgets all values but keeps the rows. Only the thread that owns these cells may call it, while nobody reads
    /// them.
    pub(crate) fn clear(&self) {
        let counts = self.rows_in(self.range()).flat_map(|(.., counts)| counts);
        counts.for_each(|(_, count)| count.store(0, Relaxed));
        self.sum.store(0, Relaxed);
        self.max.store(0, Relaxed);
        self.min.store(NOTHING, Relaxed);
    }

    /// The number of values and the low 64 bits of their sum; for the thread that writes.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        let counts = self.rows_in(self.range()).flat_map(|(.., counts)| counts);
        (counts.map(|(_, count)| count.load(Relaxed)).sum(), self.sum.load(Relaxed))
    }

    /// The rows from the largest value's to the smallest value's: each with its first column in that range, and the
    /// columns and counts from there to its last column in the range.
    fn rows_in(
        &self,
        range: Option<(u64, u64)>,
    ) -> impl Iterator<Item = (usize, usize, impl DoubleEndedIterator<Item = (usize, &AtomicU64)> + Clone)> {
        let rows = range.into_iter().flat_map(|(min, max)| bucket::rows(min, max));
        rows.filter_map(|(row, columns)| {
            let begin = self.lines[row].load(Acquire);
            let counts = begin.wrapping_offset(bucket::begins_before(row));
            // SAFETY: a row has a count for each of its columns; they live as long as the arena, and so as its cells.
            let count = move |column| unsafe { &*counts.wrapping_add(bucket::slot(row, column)) };
            let first = *columns.start();
            (!begin.is_null()).then(|| (row, first, columns.map(move |column| (column, count(column)))))
        })
    }

    /// Adds these cells to `frozen`, each value `weight` times. Returns the number of values and their sum, without the
    /// weight.
    pub(crate) fn add_to(&self, frozen: &mut Frozen, weight: u64) -> (u64, i128) {
        // A value that is counted later is in the next snapshot.
        let Some((min, max)) = self.range() else { return (0, 0) };
        frozen.make_room(min, max);
        let (mut values, mut near, mut lowest, mut highest) = (0, 0, None, None);
        // The rows of the largest values come first. Nothing in a row depends on a count, so the processor can wait for
        // several rows at once.
        for (row, first, counts) in self.rows_in(Some((min, max))) {
            let (mut in_row, mut columns) = (0, 0);
            for ((column, count), merged) in counts.clone().zip(frozen.counts(row, first)) {
                let count = count.load(Acquire);
                *merged = merged.saturating_add(count.saturating_mul(weight));
                in_row += count;
                columns += column as u64 * count;
            }
            if in_row > 0 {
                values += in_row;
                near += bucket::sum_of_starts(row, columns);
                highest = highest.or_else(|| Some((row, counts.clone())));
                lowest = Some((row, counts));
            }
        }
        let (Some((low_row, mut low)), Some((high_row, mut high))) = (lowest, highest) else { return (0, 0) };
        let is_filled = |(_, count): &(usize, &AtomicU64)| count.load(Relaxed) > 0;
        let (Some((low, _)), Some((high, _))) = (low.find(is_filled), high.rfind(is_filled)) else { return (0, 0) };
        let (lowest, highest) = (bucket::values(low_row, low), bucket::values(high_row, high));
        // The owner may be about to change them: they are then only known to the resolution of the bucket.
        let range = (min.clamp(*lowest.start(), *lowest.end()), max.clamp(*highest.start(), *highest.end()));
        let sum = widened(self.sum.load(Relaxed), near);
        frozen.add_totals(values.saturating_mul(weight), sum.saturating_mul(weight.into()), range);
        (values, sum)
    }
}

/// A call's cost in reports: 0 if it is negative after the probe overhead was subtracted.
pub(crate) fn shown(net: u64) -> u64 {
    if net.cast_signed() < 0 { 0 } else { net }
}

/// The number with these low 64 bits that is less than 2^63 away from `near`.
pub(crate) fn widened(low: u64, near: i128) -> i128 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low bits")]
    let off = low.wrapping_sub(near as u64).cast_signed();
    near.saturating_add(off.into())
}

/// The count of the bucket of a value.
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

    /// Counts the value. A reader that sees the call also sees everything written before.
    #[inline]
    pub(crate) fn publish(self) {
        // SAFETY: only this thread writes it.
        self.count.store(unsafe { own(self.count) } + 1, Release);
    }
}

/// Adds to a number that only this thread writes. It wraps.
#[inline]
pub(crate) fn add(number: &AtomicU64, by: u64) {
    number.store(number.load(Relaxed).wrapping_add(by), Relaxed);
}
