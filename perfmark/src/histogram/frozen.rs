//! A histogram at rest: merged from many threads' cells, and asked for its quantiles.

use super::bucket;
use crate::snapshot::quantile::{Bucket, quantile};

/// Counts by bucket, with totals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frozen {
    /// By the buckets' numbers, up to that of the largest value.
    buckets: Vec<u64>,
    pub(crate) count: u64,
    /// Signed, as it is without what probes cost: of functions that do next to nothing it can be less than nothing.
    pub(crate) sum: i128,
    range: Option<(u64, u64)>,
}

impl Frozen {
    pub(super) fn add_bucket(&mut self, row: usize, place: usize, count: u64) {
        if count > 0 {
            let number = bucket::number(row, place);
            if number >= self.buckets.len() {
                self.buckets.resize(number + 1, 0);
            }
            self.buckets[number] += count;
            self.count += count;
        }
    }

    /// `range` is of the smallest and the largest value, if there was one.
    pub(super) fn add_totals(&mut self, sum: i128, range: Option<(u64, u64)>) {
        self.sum = self.sum.saturating_add(sum);
        if let Some((min, max)) = range {
            let (low, high) = self.range.unwrap_or((min, max));
            self.range = Some((low.min(min), high.max(max)));
        }
    }

    /// Adds others, each of which counts as so many.
    pub(crate) fn add(&mut self, other: &Self, weight: u64) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (count, other) in self.buckets.iter_mut().zip(&other.buckets) {
            *count = count.saturating_add(other.saturating_mul(weight));
        }
        self.count = self.count.saturating_add(other.count.saturating_mul(weight));
        self.add_totals(other.sum.saturating_mul(weight.into()), other.range);
    }

    pub(crate) fn min(&self) -> Option<u64> {
        self.range.map(|(min, _)| min)
    }

    pub(crate) fn max(&self) -> Option<u64> {
        self.range.map(|(_, max)| max)
    }

    /// The value that such a part of all values is at or below: the middle of its bucket, and so within 1/64 of it.
    pub(crate) fn quantile(&self, of: (u64, u64)) -> Option<u64> {
        Some(quantile(self.buckets(), self.count, self.range?, of))
    }

    /// The same with values in another unit, as whole numbers of it. A bucket's range is the same whatever else was recorded; those that begin with
    /// one number are one.
    pub(crate) fn scaled_buckets(&self, scale: f64) -> Vec<Bucket> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is not negative")]
        let scaled = |ticks: f64| (ticks * scale).round() as u64;
        let mut buckets: Vec<Bucket> = Vec::new();
        for (number, &count) in self.buckets.iter().enumerate().filter(|&(_, &count)| count > 0) {
            let low = scaled(bucket::first(number));
            if let Some((_, _, before)) = buckets.last_mut().filter(|(before, ..)| *before == low) {
                *before += count;
                continue;
            }
            let mut edges = (number + 1..=bucket::COUNT).map(|number| scaled(bucket::first(number)));
            let high = edges.find(|&next| next > low).map_or(u64::MAX, |next| next - 1);
            buckets.push((low, high, count));
        }
        buckets
    }

    /// Lowest value, highest value and count of each bucket that is not empty.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.buckets.iter().enumerate().filter(|&(_, &count)| count > 0).map(|(number, &count)| {
            let (row, place) = bucket::numbered(number);
            let (low, high) = bucket::values(row, place).into_inner();
            (low, high, count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cells;
    use super::*;
    use crate::arena::Arena;

    fn frozen(values: &[u64]) -> Frozen {
        let (arena, cells, mut frozen) = (Arena::new(), Cells::new(), Frozen::default());
        for &value in values {
            cells.add_to_sum(value);
            cells.grow(value, &arena).expect("memory").publish();
        }
        cells.add_to(&mut frozen);
        frozen
    }

    /// Values of every size: an LCG's bits, shifted down by another draw.
    fn values(seed: u64, count: usize) -> Vec<u64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33 << 32 | state.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
        };
        (0..count).map(|_| next() >> (next() % 64)).collect()
    }

    #[test]
    fn promise_7_quantiles_are_within_a_64th_and_totals_exact() {
        for seed in 0..50_u8 {
            let mut values = values(seed.into(), 1 + usize::from(seed) * 20);
            let frozen = frozen(&values);
            values.sort_unstable();
            assert_eq!(frozen.count, values.len() as u64);
            assert_eq!(frozen.sum, values.iter().map(|&value| i128::from(value)).sum());
            assert_eq!((frozen.min(), frozen.max()), (values.first().copied(), values.last().copied()));
            for (numerator, denominator) in [(0, 1), (1, 2), (9, 10), (99, 100), (999, 1000), (1, 1)] {
                let rank = (values.len() as u64 * numerator).div_ceil(denominator).max(1);
                let truth = values[usize::try_from(rank).expect("small") - 1];
                let told = frozen.quantile((numerator, denominator)).expect("not empty");
                assert!(u128::from(told.abs_diff(truth)) * 64 <= u128::from(truth), "{told} for {truth}");
            }
        }
    }

    #[test]
    fn scaled_buckets_are_the_same_whatever_else_was_recorded_and_lose_no_call() {
        for scale in [0.01, 0.384_615, 1.0, 16.0, 1e9] {
            let all: Vec<u64> = (0..70_000).chain([u64::MAX / 2, u64::MAX]).collect();
            let scaled = frozen(&all).scaled_buckets(scale);
            assert!(scaled.iter().all(|(low, high, _)| low <= high), "{scaled:?}");
            assert!(scaled.windows(2).all(|pair| pair[0].1 < pair[1].0), "{scaled:?}");
            assert_eq!(scaled.iter().map(|bucket| bucket.2).sum::<u64>(), all.len() as u64);
            for value in all.into_iter().step_by(97) {
                let alone = frozen(&[value]).scaled_buckets(scale);
                assert!(scaled.iter().any(|&(low, high, _)| alone == [(low, high, 1)]), "{value}: {alone:?}");
            }
        }
        assert_eq!(frozen(&[u64::MAX]).scaled_buckets(2.0), [(u64::MAX, u64::MAX, 1)]);
        assert_eq!(frozen(&[64, 65, 66]).scaled_buckets(1.0), [(64, 65, 2), (66, 67, 1)]);
    }

    #[test]
    fn merging_loses_nothing() {
        let (one, two) = (values(1, 500), values(2, 700));
        let mut merged = frozen(&one);
        let (arena, cells) = (Arena::new(), Cells::new());
        for &value in &two {
            cells.add_to_sum(value);
            cells.grow(value, &arena).expect("memory").publish();
        }
        cells.add_to(&mut merged);
        Cells::new().add_to(&mut merged);
        assert_eq!(merged, frozen(&[one, two].concat()));
    }

    #[test]
    fn nothing_recorded_has_no_quantiles() {
        let none = frozen(&[]);
        assert_eq!((none.count, none.min(), none.max(), none.quantile((1, 2))), (0, None, None, None));
    }

    #[test]
    fn sums_beyond_64_bits_are_exact() {
        assert_eq!(frozen(&[u64::MAX - 1, u64::MAX - 1, 1]).sum, 2 * i128::from(u64::MAX) - 1);
        let large: Vec<u64> = (0..100_000).map(|n| 1_000_000_000_000_000 + n).collect();
        assert_eq!(frozen(&large).sum, large.iter().map(|&value| i128::from(value)).sum());
    }
}
