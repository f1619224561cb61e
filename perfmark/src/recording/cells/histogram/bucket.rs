//! The bucket of a value, and the address of its count.
//!
//! A bucket is identified by row and column. The row is the number of the value's leading zeroes, and the column is its
//! six highest bits. So the rows before the last one have columns 32 to 63. The last row has the values below 64; each
//! is its own column. Values are below 2^63, so no value is in row 0.
//!
//! Entry and exit find a count without computing the row. They look up a cost by its [line](line), which is the number
//! of its leading zeroes: the line's start and the cost's six highest bits give the address. Negative costs, which
//! count as 0, are on line 0. On arm64, the last row has a line for each length of values.

use std::ops::RangeInclusive;

/// The end of the rows, of which the first is 1. The larger a row, the smaller its values.
pub(super) const ROWS: usize = LAST + 1;
/// The row of all values below [`SMALL`].
pub(super) const LAST: usize = (u64::BITS - COLUMN_BITS) as usize;
/// Columns of the last row.
pub(super) const SMALL: usize = 1 << COLUMN_BITS;
/// Columns of every other row; they begin with this number.
pub(super) const COLUMNS: usize = SMALL / 2;

const COLUMN_BITS: u32 = 6;

/// The row of `value`.
pub(super) fn row(value: u64) -> usize {
    (value | (SMALL as u64 - 1)).leading_zeros() as usize
}

/// The column of `value` in its row.
#[allow(clippy::cast_possible_truncation, reason = "six bits are left")]
pub(super) fn column(value: u64, row: usize) -> usize {
    (value << row >> LAST) as usize
}

/// The columns of a row.
pub(super) fn columns(row: usize) -> RangeInclusive<usize> {
    let first = if row == LAST { 0 } else { COLUMNS };
    first..=SMALL - 1
}

/// Whether the last row has a line for each length of values.
const IS_SPLIT: bool = cfg!(target_arch = "aarch64");
/// The number of lines.
pub(super) const LINES: usize = if IS_SPLIT { u64::BITS as usize + 1 } else { ROWS };

/// The line of a cost. Costs wrap: half of them are negative.
#[inline]
pub(super) fn line(cost: u64) -> usize {
    (if IS_SPLIT { cost } else { cost | (SMALL as u64 - 1) }).leading_zeros() as usize
}

/// The distance of a cost's count from the start of its line. A line starts [before](begins_before) its first count.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "six bits are left")]
pub(super) fn along(cost: u64, line: usize) -> usize {
    (cost.wrapping_shl(line as u32) >> LAST) as usize
}

/// The lines of a row's values, and of costs that count as values of the row.
pub(super) fn lines(row: usize) -> impl Iterator<Item = usize> {
    let negative = (row == LAST).then_some(0);
    let end = if row == LAST { LINES } else { row + 1 };
    negative.into_iter().chain(row..end)
}

/// The distance from a line's start to its row's first count. If the last row has several lines, its 64 counts are:
///
/// | line | values | counts |
/// |---|---|---|
/// | 58 | 32 to 63 | 32, 33, 34 … |
/// | 59 | 16 to 31 | 0, 2, 4 … |
/// | 60 | 8 to 15 | 1, 5, 9 … |
/// | 61 | 4 to 7 | 3, 11, 19, 27 |
/// | 62 | 2 and 3 | 7, 23 |
/// | 63 | 1 | 15 |
/// | 64, 0 | 0, and negative costs | 31 |
pub(super) fn begins_before(line: usize) -> isize {
    let column_of = |cost: u64, line| along(cost, line).cast_signed();
    match line {
        0 => column_of(u64::MAX, 0) - slot_of_0(),
        1..LAST => COLUMNS.cast_signed(),
        LAST => 0,
        64 => -slot_of_0(),
        _ => COLUMNS.cast_signed() + 1 - (1 << (line - LAST - 1)),
    }
}

const fn slot_of_0() -> isize {
    if IS_SPLIT { COLUMNS.cast_signed() - 1 } else { 0 }
}

/// The index of a bucket's count among those of its row.
#[inline]
pub(super) fn slot(row: usize, column: usize) -> usize {
    if row < LAST {
        return column - COLUMNS;
    }
    let line = line(column as u64);
    along(column as u64, line).wrapping_add_signed(-begins_before(line))
}

/// A bucket's number, in the order of values.
pub(super) fn number(row: usize, column: usize) -> usize {
    (LAST - row) * COLUMNS + column
}

/// The rows from the largest value's to the smallest value's, each with its columns between these values.
pub(super) fn rows(min: u64, max: u64) -> impl Iterator<Item = (usize, RangeInclusive<usize>)> {
    (row(max)..=row(min)).map(move |at| {
        let (first, last) = columns(at).into_inner();
        let first = if at == row(min) { column(min, at) } else { first };
        let last = if at == row(max) { column(max, at) } else { last };
        (at, first..=last)
    })
}

/// Row and column of the bucket with that number.
pub(super) fn numbered(number: usize) -> (usize, usize) {
    let above = (number / COLUMNS).saturating_sub(1);
    (LAST - above, number - above * COLUMNS)
}

/// The number of buckets.
pub(super) const COUNT: usize = (LAST + 1) * COLUMNS;

/// The first value of the bucket with that number; 2^63 after the last.
pub(super) fn first(number: usize) -> f64 {
    if number >= COUNT {
        return 2_f64.powi(63);
    }
    let (row, column) = numbered(number);
    *values(row, column).start() as f64
}

/// The values in a bucket.
pub(super) fn values(row: usize, column: usize) -> RangeInclusive<u64> {
    let shift = LAST - row;
    let low = (column as u64) << shift;
    low..=low + ((1 << shift) - 1)
}

/// The sum of the first values of a row's buckets, if `columns` is the sum of their columns.
pub(super) fn sum_of_starts(row: usize, columns: u64) -> i128 {
    i128::from(columns) << (LAST - row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_cover_the_complete_range_without_gaps() {
        let (mut next, mut number_of_next) = (Some(0), 0);
        for at in (1..ROWS).rev() {
            for at_column in columns(at) {
                let values = values(at, at_column);
                assert_eq!(next, Some(*values.start()));
                assert_eq!((number(at, at_column), numbered(number_of_next)), (number_of_next, (at, at_column)));
                number_of_next += 1;
                next = Some(values.end() + 1);
                for value in [*values.start(), *values.end()] {
                    assert_eq!(row(value), at);
                }
            }
        }
        assert_eq!((next, number_of_next), (Some(1 << 63), COUNT));
    }

    #[test]
    fn each_bucket_has_a_separate_count_that_all_its_values_find_by_their_lines() {
        for row in 1..ROWS {
            let mut slots: Vec<_> = columns(row).map(|column| slot(row, column)).collect();
            for column in columns(row) {
                for value in [*values(row, column).start(), *values(row, column).end()] {
                    let line = line(value);
                    assert!(lines(row).any(|of_row| of_row == line), "{value}");
                    let found = along(value, line).cast_signed() - begins_before(line);
                    assert_eq!(found, slot(row, column).cast_signed(), "{value}");
                }
            }
            slots.sort_unstable();
            assert!(slots.iter().copied().eq(0..columns(row).count()), "{row}: {slots:?}");
        }
    }

    #[test]
    fn negative_costs_are_counted_as_0() {
        for cost in [u64::MAX, u64::MAX - 1_000_000, 0_u64.wrapping_sub(1 << 31)] {
            assert_eq!(along(cost, line(cost)).cast_signed() - begins_before(line(cost)), slot(LAST, 0).cast_signed());
        }
        assert!(lines(LAST).any(|line| line == 0));
    }

    #[test]
    fn promise_7_the_middle_of_a_bucket_is_within_a_64th_of_its_values() {
        for row in 1..ROWS {
            for column in columns(row) {
                let (low, high) = values(row, column).into_inner();
                let middle = low + (high - low) / 2;
                assert!(u128::from(high - middle) * 64 <= u128::from(high));
                assert!(u128::from(middle - low) * 64 <= u128::from(low));
            }
        }
    }
}
