//! Which calls of a mark are measured, with `every` or within a budget.

use std::cell::Cell;

/// Which calls of a mark are measured: one of every `weight` consecutive calls, drawn at random.
///
/// Every call is equally likely to be measured, whatever it does. A measured call counts as often as its
/// [weight](crate::recording::cells::MarkCells::weight) says, which makes sums unbiased (D. G. Horvitz and D. J.
/// Thompson, 1952). Independent draws for each call would increase the variance of sums.
#[derive(Debug, Default)]
pub(crate) struct Draws {
    /// The total number of calls to be skipped before the next measured one.
    next: Cell<u64>,
    /// The position of the last drawn call among its `weight` calls.
    position: Cell<u64>,
    /// The number of calls skipped so far, for marks whose cells count skipped calls at their end.
    skipped: Cell<u64>,
}

impl Draws {
    /// The draws of a mark with this weight, the first one made.
    pub(crate) fn new(weight: u32, random: &Cell<u64>) -> Self {
        let draws = Self::default();
        draws.begin_block(0, weight, random);
        draws
    }

    /// The draws of a mark whose calls are never measured.
    pub(crate) fn never() -> Self {
        Self { next: Cell::new(u64::MAX), ..Self::default() }
    }

    /// Whether the next call is the drawn one, when `skipped` calls have been skipped.
    #[inline]
    pub(crate) fn is_next(&self, skipped: u64) -> bool {
        skipped == self.next.get()
    }

    /// The same, but counts skipped calls here.
    pub(crate) fn is_next_counted(&self) -> bool {
        let skipped = self.skipped.get();
        let is_next = self.is_next(skipped);
        if !is_next {
            self.skipped.set(skipped + 1);
        }
        is_next
    }

    /// Draws the next call to be measured.
    pub(crate) fn draw(&self, weight: u32, random: &Cell<u64>) {
        self.begin_block(self.next.get() + self.rest(weight), weight, random);
    }

    /// Draws a call of the next `weight` calls after this total number of skipped calls.
    pub(crate) fn begin_block(&self, skipped: u64, weight: u32, random: &Cell<u64>) {
        let position = below(weight, random);
        self.position.set(position);
        self.next.set(skipped + position);
    }

    /// The number of calls after the drawn one for which it was drawn, too.
    pub(crate) fn rest(&self, weight: u32) -> u64 {
        u64::from(weight) - 1 - self.position.get()
    }
}

/// A random number below `limit`: a step of xorshift64* (S. Vigna, 2016), whose state is never 0.
fn below(limit: u32, random: &Cell<u64>) -> u64 {
    let mut state = random.get();
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    random.set(state);
    let drawn = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
    (drawn * u64::from(limit)) >> 32
}

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use super::*;

    /// The estimate of a sum over calls whose costs have phases and a period, while the number of calls of which one is
    /// drawn changes, as within a budget.
    fn estimate(costs: &[f64], weights: &[u32], random: &Cell<u64>) -> f64 {
        let (draws, mut skipped, mut block) = (Draws::new(weights[0], random), 0, 0);
        let mut sum = 0.0;
        for cost in costs {
            if !draws.is_next(skipped) {
                skipped += 1;
                continue;
            }
            let weight = weights[block % weights.len()];
            sum += f64::from(weight) * cost;
            block += 1;
            draws.begin_block(skipped + draws.rest(weight), weights[block % weights.len()], random);
        }
        sum
    }

    #[test]
    fn sums_are_unbiased_while_the_weight_changes() {
        const RUNS: u32 = 4_000;
        let costs: Vec<f64> = (0_u32..1_000)
            .map(|n| match n {
                0 => 500.0,
                _ if n % 16 == 5 => 40.0,
                600.. => 9.0,
                _ => 1.0,
            })
            .collect();
        let truth: f64 = costs.iter().sum();
        for weights in [&[1][..], &[16], &[1, 4, 16, 64, 4], &[64, 1], &[4_096, 16]] {
            let random = Cell::new(0x9e37_79b9_7f4a_7c15);
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..RUNS {
                let error = estimate(&costs, weights, &random) - truth;
                (sum, squares) = (sum + error, squares + error * error);
            }
            let (mean, deviation) = (sum / f64::from(RUNS), (squares / f64::from(RUNS)).sqrt());
            let allowed = 3.0 * deviation / f64::from(RUNS).sqrt();
            assert!(mean.abs() <= allowed, "{weights:?}: {mean}, allowed {allowed}");
        }
    }
}
