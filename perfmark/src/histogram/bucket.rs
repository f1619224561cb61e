//! Which bucket a value falls in, and where its count is.
//!
//! A bucket is named by row and place. The row is the number of the value's leading zeroes, and the place is its six
//! highest bits: so the rows before the last one have places 32 to 63. The last row holds the values below 64, and each
//! is its own place. Values are below 2^63, so that no value is in row 0.
//!
//! Entry and exit find a count without asking for the row. They look a cost up by its [line](line), which is the number
//! of its leading zeroes: a line's begin and the cost's six highest bits give the address. Costs below nothing, which
//! count as 0, are on line 0. On arm64 each length of the values in the last row is a line.

use std::ops::RangeInclusive;

/// Behind the rows; the larger a row, the smaller its values. The first row is 1.
pub(super) const ROWS: usize = LAST + 1;
/// The row of all values below [`SMALL`].
pub(super) const LAST: usize = (u64::BITS - PLACE_BITS) as usize;
/// Places of the last row.
pub(super) const SMALL: usize = 1 << PLACE_BITS;
/// Places of every other row, which are those from here on.
pub(super) const PLACES: usize = SMALL / 2;

const PLACE_BITS: u32 = 6;

/// The row of `value`.
pub(super) fn row(value: u64) -> usize {
    (value | (SMALL as u64 - 1)).leading_zeros() as usize
}

/// The place of `value` in its row.
#[allow(clippy::cast_possible_truncation, reason = "six bits are left")]
pub(super) fn place(value: u64, row: usize) -> usize {
    (value << row >> LAST) as usize
}

/// The places of a row.
pub(super) fn places(row: usize) -> RangeInclusive<usize> {
    let first = if row == LAST { 0 } else { PLACES };
    first..=SMALL - 1
}

/// Whether values of the last row are on one line for each length.
const IS_SPLIT: bool = cfg!(target_arch = "aarch64");
/// Lines on which a cost may be.
pub(super) const LINES: usize = if IS_SPLIT { u64::BITS as usize + 1 } else { ROWS };

/// The line of a cost. It wraps: half of them are less than nothing.
#[inline]
pub(super) fn line(cost: u64) -> usize {
    (if IS_SPLIT { cost } else { cost | (SMALL as u64 - 1) }).leading_zeros() as usize
}

/// How far a cost's count is behind where its line begins: a line begins [`before`](begins_before) its first count.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "six bits are left")]
pub(super) fn along(cost: u64, line: usize) -> usize {
    (cost.wrapping_shl(line as u32) >> LAST) as usize
}

/// The lines of a row's values, and of costs that count as values of that row.
pub(super) fn lines(row: usize) -> impl Iterator<Item = usize> {
    let below_nothing = (row == LAST).then_some(0);
    let end = if row == LAST { LINES } else { row + 1 };
    below_nothing.into_iter().chain(row..end)
}

/// How far a line begins before its row's counts. Where the last row has several lines, its 64 counts are:
///
/// | line | values | counts |
/// |---|---|---|
/// | 58 | 32 to 63 | 32, 33, 34 … |
/// | 59 | 16 to 31 | 0, 2, 4 … |
/// | 60 | 8 to 15 | 1, 5, 9 … |
/// | 61 | 4 to 7 | 3, 11, 19, 27 |
/// | 62 | 2 and 3 | 7, 23 |
/// | 63 | 1 | 15 |
/// | 64, 0 | 0, and what is below | 31 |
pub(super) fn begins_before(line: usize) -> isize {
    let place_of = |cost: u64, line| along(cost, line).cast_signed();
    match line {
        0 => place_of(u64::MAX, 0) - slot_of_0(),
        1..LAST => PLACES.cast_signed(),
        LAST => 0,
        64 => -slot_of_0(),
        _ => PLACES.cast_signed() + 1 - (1 << (line - LAST - 1)),
    }
}

const fn slot_of_0() -> isize {
    if IS_SPLIT { PLACES.cast_signed() - 1 } else { 0 }
}

/// Where in its row's counts that of a bucket is.
#[inline]
pub(super) fn slot(row: usize, place: usize) -> usize {
    if row < LAST { place - PLACES } else { slot_of_small(place as u64) }
}

fn slot_of_small(value: u64) -> usize {
    let line = line(value);
    along(value, line).wrapping_add_signed(-begins_before(line))
}

/// A bucket's number, in the order of values.
pub(super) fn number(row: usize, place: usize) -> usize {
    (LAST - row) * PLACES + place
}

/// The rows from the largest value's to the smallest value's, each with its places between these values.
pub(super) fn rows(min: u64, max: u64) -> impl Iterator<Item = (usize, RangeInclusive<usize>)> {
    (row(max)..=row(min)).map(move |at| {
        let (first, last) = places(at).into_inner();
        let first = if at == row(min) { place(min, at) } else { first };
        let last = if at == row(max) { place(max, at) } else { last };
        (at, first..=last)
    })
}

/// Row and place of the bucket with that number.
pub(super) fn numbered(number: usize) -> (usize, usize) {
    let above = (number / PLACES).saturating_sub(1);
    (LAST - above, number - above * PLACES)
}

/// Buckets in all.
pub(super) const COUNT: usize = (LAST + 1) * PLACES;

/// The first value of the bucket with that number; behind the last, 2^63.
pub(super) fn first(number: usize) -> f64 {
    if number >= COUNT {
        return 2_f64.powi(63);
    }
    let (row, place) = numbered(number);
    *values(row, place).start() as f64
}

/// The values in a bucket.
pub(super) fn values(row: usize, place: usize) -> RangeInclusive<u64> {
    let shift = LAST - row;
    let low = (place as u64) << shift;
    low..=low + ((1 << shift) - 1)
}

/// The sum of the first values of a row's buckets, if `places` is the sum of their places.
pub(super) fn sum_of_starts(row: usize, places: u64) -> i128 {
    i128::from(places) << (LAST - row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_follow_one_another_over_the_whole_range() {
        let (mut next, mut number_of_next) = (Some(0), 0);
        for at in (1..ROWS).rev() {
            for at_place in places(at) {
                let values = values(at, at_place);
                assert_eq!(next, Some(*values.start()));
                assert_eq!((number(at, at_place), numbered(number_of_next)), (number_of_next, (at, at_place)));
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
    fn each_bucket_has_a_count_of_its_own_which_all_its_values_find_by_their_lines() {
        for row in 1..ROWS {
            let mut slots: Vec<_> = places(row).map(|place| slot(row, place)).collect();
            for place in places(row) {
                for value in [*values(row, place).start(), *values(row, place).end()] {
                    let line = line(value);
                    assert!(lines(row).any(|of_row| of_row == line), "{value}");
                    let found = along(value, line).cast_signed() - begins_before(line);
                    assert_eq!(found, slot(row, place).cast_signed(), "{value}");
                }
            }
            slots.sort_unstable();
            assert!(slots.iter().copied().eq(0..places(row).count()), "{row}: {slots:?}");
        }
    }

    #[test]
    fn costs_below_nothing_are_counted_as_0() {
        for cost in [u64::MAX, u64::MAX - 1_000_000, 0_u64.wrapping_sub(1 << 31)] {
            assert_eq!(along(cost, line(cost)).cast_signed() - begins_before(line(cost)), slot(LAST, 0).cast_signed());
        }
        assert!(lines(LAST).any(|line| line == 0));
    }

    #[test]
    fn promise_7_the_middle_of_a_bucket_is_within_a_64th_of_its_values() {
        for row in 1..ROWS {
            for place in places(row) {
                let (low, high) = values(row, place).into_inner();
                let middle = low + (high - low) / 2;
                assert!(u128::from(high - middle) * 64 <= u128::from(high));
                assert!(u128::from(middle - low) * 64 <= u128::from(low));
            }
        }
    }
}
