//! Quantiles of a histogram.

use super::data::{Bucket, Values};

/// The value that `numerator / denominator` of all values are at or below: the middle of its bucket. The buckets are in
/// the order of their values and contain `count` values from `min` to `max`.
pub(crate) fn quantile(
    buckets: impl IntoIterator<Item = Bucket>,
    count: u64,
    (min, max): (u64, u64),
    (numerator, denominator): (u64, u64),
) -> u64 {
    let rank = (u128::from(count) * u128::from(numerator)).div_ceil(u128::from(denominator)).max(1);
    let mut seen = 0_u128;
    for Bucket { low, high, calls } in buckets {
        seen += u128::from(calls);
        if seen >= rank {
            // Not `clamp`, which panics if they are not in order.
            return (low + high.saturating_sub(low) / 2).min(max).max(min);
        }
    }
    max
}

/// The quantiles in reports.
pub(crate) const P50: (u64, u64) = (1, 2);
pub(crate) const P90: (u64, u64) = (9, 10);
pub(crate) const P99: (u64, u64) = (99, 100);
pub(crate) const P999: (u64, u64) = (999, 1000);

impl Values {
    /// The value that this part of the measured calls, from 0 to 1, is at or below: within 1/64 of the value, and
    /// between `min` and `max`. `None` if no call was measured.
    ///
    /// ```
    /// #[perfmark::perfmark(time)]
    /// fn served() {}
    ///
    /// (0..100).for_each(|_| served());
    /// for mark in perfmark::snapshot().marks {
    ///     for values in mark.values {
    ///         assert!(values.quantile(0.5) <= values.quantile(0.95));
    ///         println!("{}: 95 % of the calls took no more than {:?}", mark.path, values.quantile(0.95));
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<u64> {
        const WHOLE: u32 = 1_000_000_000;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to `WHOLE`, or 0 for NaN")]
        let numerator = (part.clamp(0.0, 1.0) * f64::from(WHOLE)).round() as u64;
        let count = self.buckets.iter().fold(0_u64, |all, bucket| all.saturating_add(bucket.calls));
        let range = (self.min.unwrap_or(0), self.max.unwrap_or(u64::MAX));
        (count > 0).then(|| quantile(self.buckets.iter().copied(), count, range, (numerator, WHOLE.into())))
    }
}
