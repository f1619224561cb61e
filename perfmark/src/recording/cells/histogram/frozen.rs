//! A histogram that no longer changes: merged from many threads' cells, with quantiles.

use std::iter;

use super::bucket;
use crate::settings::recording::{ReadMode, settings};
use crate::snapshot::Bucket;
use crate::snapshot::quantile::quantile;

/// Counts by bucket, with totals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frozen {
    /// By the buckets' numbers, from `first` on; it contains the smallest and the largest value's.
    buckets: Vec<u64>,
    first: usize,
    pub(crate) count: u64,
    /// Signed: after the probe overhead was subtracted, it can be negative for functions that do almost nothing.
    pub(crate) sum: i128,
    /// The smallest and the largest value.
    pub(crate) range: Option<(u64, u64)>,
}

impl Frozen {
    /// Makes room for values in that range.
    pub(super) fn make_room(&mut self, min: u64, max: u64) {
        let number = |value| bucket::number(bucket::row(value), bucket::column(value, bucket::row(value)));
        let (first, end) = match settings().read {
            // In the emulator, the memory that a program gets must not depend on which of its threads ends first.
            ReadMode::Emulated => (0, bucket::COUNT),
            _ => (number(min), number(max) + 1),
        };
        if self.buckets.is_empty() {
            self.first = first;
        }
        if first < self.first {
            self.buckets.splice(0..0, iter::repeat_n(0, self.first - first));
            self.first = first;
        }
        if end > self.first + self.buckets.len() {
            self.buckets.resize(end - self.first, 0);
        }
    }

    /// The counts of a row's columns, from the first one on. There must be room for them.
    pub(super) fn counts(&mut self, row: usize, first: usize) -> &mut [u64] {
        let first = bucket::number(row, first) - self.first;
        &mut self.buckets[first..]
    }

    /// Adds the totals of values that were counted in buckets; `range` is the smallest and the largest one.
    pub(super) fn add_totals(&mut self, count: u64, sum: i128, range: (u64, u64)) {
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(sum);
        let (low, high) = self.range.unwrap_or(range);
        self.range = Some((low.min(range.0), high.max(range.1)));
    }

    /// Adds values of 0.
    pub(crate) fn add_zeroes(&mut self, count: u64) {
        if count > 0 {
            self.make_room(0, 0);
            // It is the first bucket.
            let zeroes = &mut self.buckets[0];
            *zeroes = zeroes.saturating_add(count);
            self.add_totals(count, 0, (0, 0));
        }
    }

    /// The buckets that are not empty. Most are empty, so several are tested at once.
    pub(crate) fn filled(&self) -> Filled {
        const AT_ONCE: usize = 8;
        /// Few histograms have more.
        const ROOM: usize = 128;
        let parts = (self.first..).step_by(AT_ONCE).zip(self.buckets.chunks(AT_ONCE));
        let filled = parts.filter(|(_, counts)| counts.iter().fold(0, |bits, count| bits | count) != 0);
        let counted = filled.flat_map(|(first, counts)| (first..).zip(counts.iter().copied()));
        let mut buckets = Vec::with_capacity(self.buckets.len().min(ROOM));
        buckets.extend(counted.filter(|(_, count)| *count > 0));
        Filled { buckets, count: self.count, range: self.range }
    }
}

/// The buckets of a histogram that are not empty.
pub(crate) struct Filled {
    /// Number and count.
    buckets: Vec<(usize, u64)>,
    count: u64,
    range: Option<(u64, u64)>,
}

impl Filled {
    /// The values that these parts of all values are at or below: each is the middle of its bucket, and so within 1/64.
    /// `None` if there is no value.
    pub(crate) fn quantiles<const N: usize>(&self, of: [(u64, u64); N]) -> Option<[u64; N]> {
        let range = self.range?;
        Some(of.map(|of| quantile(self.buckets(), self.count, range, of)))
    }

    pub(crate) fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.buckets.iter().map(|&(number, calls)| {
            let (row, column) = bucket::numbered(number);
            let (low, high) = bucket::values(row, column).into_inner();
            Bucket::from((low, high, calls))
        })
    }

    /// The buckets with values in another unit, as integers. A bucket's range does not depend on the other values;
    /// buckets that begin with the same number are merged. `edges` are those of [`scaled_edges`].
    pub(crate) fn scaled_buckets(&self, edges: &[u64]) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = Vec::with_capacity(self.buckets.len());
        for &(number, calls) in &self.buckets {
            let low = edges[number];
            if let Some(before) = buckets.last_mut().filter(|before| before.low == low) {
                before.calls += calls;
                continue;
            }
            let next = edges[number + 1..].iter().find(|&&next| next > low);
            buckets.push((low, next.map_or(u64::MAX, |next| next - 1), calls).into());
        }
        buckets
    }
}

/// The first value of each bucket in another unit, and the end of the last one. `scale` is the number of units per
/// recorded unit.
pub(crate) fn scaled_edges(scale: f64) -> Vec<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is not negative")]
    let scaled = |value: f64| (value * scale).round() as u64;
    (0..=bucket::COUNT).map(|number| scaled(bucket::first(number))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Cells;
    use super::*;
    use crate::platform::arena::Arena;

    /// The largest possible value.
    const MOST: u64 = i64::MAX.cast_unsigned();

    fn frozen(values: &[u64]) -> Frozen {
        let (arena, cells, mut frozen) = (Arena::new(), Cells::default(), Frozen::default());
        for &value in values {
            cells.add_to_sum(value);
            cells.grow(value, &arena).expect("memory").publish();
        }
        cells.add_to(&mut frozen, 1);
        frozen
    }

    /// Values of every size: an LCG's bits, shifted down by another draw.
    fn values(seed: u64, count: usize) -> Vec<u64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 34 << 32 | state.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
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
            assert_eq!(frozen.range, values.first().copied().zip(values.last().copied()));
            for (numerator, denominator) in [(0, 1), (1, 2), (9, 10), (99, 100), (999, 1000), (1, 1)] {
                let rank = (values.len() as u64 * numerator).div_ceil(denominator).max(1);
                let truth = values[usize::try_from(rank).expect("small") - 1];
                let [quantile] = frozen.filled().quantiles([(numerator, denominator)]).expect("not empty");
                assert!(u128::from(quantile.abs_diff(truth)) * 64 <= u128::from(truth), "{quantile} for {truth}");
            }
        }
    }

    #[test]
    fn scaled_buckets_do_not_depend_on_other_values_and_lose_no_call() {
        for scale in [0.01, 0.384_615, 1.0, 16.0, 1e9] {
            let all: Vec<u64> = (0..70_000).chain([u64::MAX / 4, MOST]).collect();
            let scaled = frozen(&all).filled().scaled_buckets(&scaled_edges(scale));
            assert!(scaled.iter().all(|bucket| bucket.low <= bucket.high), "{scaled:?}");
            assert!(scaled.windows(2).all(|pair| pair[0].high < pair[1].low), "{scaled:?}");
            assert_eq!(scaled.iter().map(|bucket| bucket.calls).sum::<u64>(), all.len() as u64);
            for value in all.into_iter().step_by(97) {
                let alone = frozen(&[value]).filled().scaled_buckets(&scaled_edges(scale));
                assert!(scaled.iter().any(|&bucket| alone == [Bucket { calls: 1, ..bucket }]), "{value}: {alone:?}");
            }
        }
        assert_eq!(frozen(&[MOST]).filled().scaled_buckets(&scaled_edges(4.0)), [(u64::MAX, u64::MAX, 1).into()]);
        let scaled = frozen(&[64, 65, 66]).filled().scaled_buckets(&scaled_edges(1.0));
        assert_eq!(scaled, [(64, 65, 2), (66, 67, 1)].map(Bucket::from));
    }

    #[test]
    fn merging_loses_nothing() {
        let (one, two) = (values(1, 500), values(2, 700));
        let mut merged = frozen(&one);
        let (arena, cells) = (Arena::new(), Cells::default());
        for &value in &two {
            cells.add_to_sum(value);
            cells.grow(value, &arena).expect("memory").publish();
        }
        cells.add_to(&mut merged, 1);
        Cells::default().add_to(&mut merged, 1);
        assert_eq!(merged, frozen(&[one, two].concat()));
    }

    #[test]
    fn nothing_recorded_has_no_quantiles() {
        let none = frozen(&[]);
        assert_eq!((none.count, none.range, none.filled().quantiles([(1, 2)])), (0, None, None));
    }

    #[test]
    fn sums_beyond_64_bits_are_exact() {
        assert_eq!(frozen(&[MOST, MOST, MOST, 1]).sum, 3 * i128::from(MOST) + 1);
        let large: Vec<u64> = (0..100_000).map(|n| 1_000_000_000_000_000 + n).collect();
        assert_eq!(frozen(&large).sum, large.iter().map(|&value| i128::from(value)).sum());
    }
}
