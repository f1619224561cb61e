//! Quantiles of a histogram.

/// Lowest value, highest value (inclusive) and number of calls of a bucket.
pub(crate) type Bucket = (u64, u64, u64);

/// The value that `numerator / denominator` of all values are at or below: the middle of its bucket. The buckets come in the order of their
/// values, and hold so many values, which lie in that range.
pub(crate) fn quantile(
    buckets: impl IntoIterator<Item = Bucket>,
    count: u64,
    (min, max): (u64, u64),
    (numerator, denominator): (u64, u64),
) -> u64 {
    let rank = (u128::from(count) * u128::from(numerator)).div_ceil(u128::from(denominator)).max(1);
    let mut seen = 0_u128;
    for (low, high, count) in buckets {
        seen += u128::from(count);
        if seen >= rank {
            // Not `clamp`, which wants them in order.
            return (low + high.saturating_sub(low) / 2).min(max).max(min);
        }
    }
    max
}

/// Those that are told.
pub(crate) const P50: (u64, u64) = (1, 2);
pub(crate) const P90: (u64, u64) = (9, 10);
pub(crate) const P99: (u64, u64) = (99, 100);
pub(crate) const P999: (u64, u64) = (999, 1000);
