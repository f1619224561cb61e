//! A bar chart of a mark's calls from the smallest to the largest, in a few columns.

use crate::snapshot::{Bucket, Values};

/// Columns of the chart.
pub(super) const COLUMNS: usize = 10;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bars over the logarithm of the cost; their height is the number of calls. Where there is no call, there is no bar.
/// If all calls have the same cost, there is one bar.
pub(super) fn spread(values: &Values) -> Option<String> {
    let (min, max) = (values.min?, values.max?);
    if min >= max {
        return Some(BARS[BARS.len() - 1].to_string());
    }
    let mut parts = [0.0_f64; COLUMNS];
    let (first, last) = (scale(min), scale(max));
    // In columns from the left edge. A bucket may extend beyond the calls in it.
    let position = |value: f64| ((value - first) / (last - first) * COLUMNS as f64).clamp(0.0, COLUMNS as f64);
    for &Bucket { low, high, calls } in &values.buckets {
        let (from, to) = (position(scale(low)), position(scale(high)));
        let width = to - from;
        for (column, part) in parts.iter_mut().enumerate() {
            let left = column as f64;
            let inside = (to.min(left + 1.0) - from.max(left)).max(0.0);
            *part += calls as f64 * if width > 0.0 { inside / width } else { f64::from(column == column_of(from)) };
        }
    }
    let most = parts.iter().copied().fold(0.0, f64::max);
    (most > 0.0).then(|| parts.iter().map(|part| bar(part / most)).collect())
}

/// A position at the right edge is in the last column.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the columns")]
fn column_of(position: f64) -> usize {
    (position as usize).min(COLUMNS - 1)
}

/// In octaves; 0 is one octave below 1.
fn scale(value: u64) -> f64 {
    if value == 0 { -1.0 } else { (value as f64).log2() }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 8")]
fn bar(part: f64) -> char {
    // No bar for a fraction of a call, which comes from a bucket's edge.
    if part <= 0.0 { ' ' } else { BARS[((part * BARS.len() as f64).ceil() as usize).clamp(1, BARS.len()) - 1] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample::{self, values};

    fn of(min: u64, max: u64, buckets: &[(u64, u64, u64)]) -> Option<String> {
        let (min, max) = (Some(min), Some(max));
        spread(&Values {
            min,
            max,
            buckets: buckets.iter().copied().map(Bucket::from).collect(),
            ..values("time", 1, 1)
        })
    }

    #[test]
    fn the_height_of_bars_is_the_number_of_calls_over_the_logarithm_of_their_cost() {
        let powers: Vec<_> = (0..10).map(|power| (1_u64 << (2 * power), 1_u64 << (2 * power), power + 1)).collect();
        assert_eq!(of(1, 1 << 18, &powers).as_deref(), Some("▁▂▃▄▄▅▆▇██"));
        assert_eq!(of(0, 1, &[(0, 0, 8), (1, 1, 1)]).as_deref(), Some("█        ▁"));
        let two = [(10, 10, 1), (1_000, 1_000, 800)];
        assert_eq!(of(10, 1_000, &two).as_deref(), Some("▁        █"));
    }

    #[test]
    fn calls_of_one_cost_are_one_bar_and_none_are_none() {
        assert_eq!(of(7, 7, &[(7, 7, 3)]).as_deref(), Some("█"));
        assert_eq!(of(1, 9, &[]), None);
        assert_eq!(spread(&Values { min: None, ..values("time", 0, 0) }), None);
    }

    #[test]
    fn a_bucket_is_spread_over_the_columns_that_it_lies_in_and_no_further_than_the_calls() {
        assert_eq!(of(1_000, 1_003, &[(996, 1_007, 9)]).as_deref(), Some("██████████"));
    }

    #[test]
    fn the_width_is_fixed_for_any_snapshot() {
        for snapshot in sample::nasty() {
            for spread in snapshot.marks.iter().flat_map(|mark| &mark.values).filter_map(spread) {
                let width = spread.chars().count();
                assert!(width == 1 || width == COLUMNS, "{spread:?}");
            }
        }
    }
}
