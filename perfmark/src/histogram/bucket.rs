//! Which bucket a value falls in.
//!
//! A bucket is named by octave and place. Octave 0 holds 0 to 31, one bucket a value. Octave `k` holds the values of `k + 5` bits,
//! 32 buckets of `2^(k-1)` values each: the five bits below the highest one are the place.

use std::ops::RangeInclusive;

/// Buckets an octave.
pub(super) const PLACES: usize = 1 << PLACE_BITS;
/// Octaves in the range of `u64`.
pub(super) const OCTAVES: usize = 64 - PLACE_BITS as usize + 1;

const PLACE_BITS: u32 = 5;

/// The octave and the place of `value`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "at most 64 octaves")]
pub(super) fn of(value: u64) -> (usize, usize) {
    const SHIFTED: u64 = (u64::BITS - (PLACE_BITS + 1)) as u64;
    // The six highest bits of a value of more than six; of these the first is 1, and adds the octave that it opens.
    let shift = SHIFTED - u64::from((value | ((1 << (PLACE_BITS + 1)) - 1)).leading_zeros());
    let bits = value >> shift;
    ((shift + (bits >> PLACE_BITS)) as usize, bits as usize % PLACES)
}

/// The values in a bucket.
pub(super) fn values(octave: usize, place: usize) -> RangeInclusive<u64> {
    let Some(shift) = octave.checked_sub(1) else { return place as u64..=place as u64 };
    let low = ((PLACES + place) as u64) << shift;
    low..=low + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_follow_one_another_over_the_whole_range() {
        let mut next = Some(0);
        for octave in 0..OCTAVES {
            for place in 0..PLACES {
                let values = values(octave, place);
                assert_eq!(next, Some(*values.start()));
                next = values.end().checked_add(1);
                assert_eq!(of(*values.start()), (octave, place));
                assert_eq!(of(*values.end()), (octave, place));
            }
        }
        assert_eq!(next, None, "the last bucket ends with u64::MAX");
    }

    #[test]
    fn promise_7_the_middle_of_a_bucket_is_within_a_64th_of_its_values() {
        for octave in 0..OCTAVES {
            for place in 0..PLACES {
                let (low, high) = values(octave, place).into_inner();
                let middle = low + (high - low) / 2;
                assert!(u128::from(high - middle) * 64 <= u128::from(high));
                assert!(u128::from(middle - low) * 64 <= u128::from(low));
            }
        }
    }
}
