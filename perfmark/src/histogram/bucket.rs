//! Which bucket a value falls in.
//!
//! A bucket is named by row and place: the row is how many zeroes stand before the value's bits, the place is its six highest bits. So the
//! place is at least 32, but in the last row, where all values of six bits or less are: there it is the value, and has a bucket of its own.

use std::ops::RangeInclusive;

/// Rows in the range of `u64`; the larger a row, the smaller its values.
pub(super) const ROWS: usize = LAST + 1;
/// The row of all values below [`SMALL`].
pub(super) const LAST: usize = (u64::BITS - PLACE_BITS) as usize;
/// Places of the last row.
pub(super) const SMALL: usize = 1 << PLACE_BITS;
/// Places of every other row, which are those from here on.
pub(super) const PLACES: usize = SMALL / 2;

const PLACE_BITS: u32 = 6;

/// The row of `value`.
#[inline]
pub(super) fn row(value: u64) -> usize {
    (value | (SMALL as u64 - 1)).leading_zeros() as usize
}

/// The place of `value` in its row.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "six bits are left")]
pub(super) fn place(value: u64, row: usize) -> usize {
    (value << row >> LAST) as usize
}

/// The places of a row.
pub(super) fn places(row: usize) -> RangeInclusive<usize> {
    let first = if row == LAST { 0 } else { PLACES };
    first..=SMALL - 1
}

/// A bucket's number, in the order of values.
pub(super) fn number(row: usize, place: usize) -> usize {
    (LAST - row) * PLACES + place
}

/// Row and place of the bucket with that number.
pub(super) fn numbered(number: usize) -> (usize, usize) {
    let above = (number / PLACES).saturating_sub(1);
    (LAST - above, number - above * PLACES)
}

/// Buckets in all.
pub(super) const COUNT: usize = (LAST + 2) * PLACES;

/// The first value of the bucket with that number; behind the last, 2^64.
pub(super) fn first(number: usize) -> f64 {
    if number >= COUNT {
        return 2_f64.powi(64);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_follow_one_another_over_the_whole_range() {
        let (mut next, mut number_of_next) = (Some(0), 0);
        for at in (0..ROWS).rev() {
            for at_place in places(at) {
                let values = values(at, at_place);
                assert_eq!(next, Some(*values.start()));
                assert_eq!((number(at, at_place), numbered(number_of_next)), (number_of_next, (at, at_place)));
                number_of_next += 1;
                next = values.end().checked_add(1);
                for value in [*values.start(), *values.end()] {
                    assert_eq!((row(value), place(value, at)), (at, at_place));
                }
            }
        }
        assert_eq!((next, number_of_next), (None, COUNT), "the last bucket ends with u64::MAX");
    }

    #[test]
    fn promise_7_the_middle_of_a_bucket_is_within_a_64th_of_its_values() {
        for row in 0..ROWS {
            for place in places(row) {
                let (low, high) = values(row, place).into_inner();
                let middle = low + (high - low) / 2;
                assert!(u128::from(high - middle) * 64 <= u128::from(high));
                assert!(u128::from(middle - low) * 64 <= u128::from(low));
            }
        }
    }
}
