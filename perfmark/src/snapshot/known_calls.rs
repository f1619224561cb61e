//! Estimates for the number of calls that a mark really had.

use std::borrow::Cow;

use super::data::{Bucket, Mark, Snapshot, Values};

impl Snapshot {
    /// A copy for people, whose estimates are for the calls that there were. How many calls were skipped is known
    /// exactly, but those that bursts happened to measure may represent fewer or more. So sums are multiplied by the
    /// ratio of both (ratio estimation: W. G. Cochran, Sampling Techniques, 1977, chapter 6).
    ///
    /// The snapshot itself is not multiplied, because its sums are additive, and never fall.
    pub(crate) fn for_known_calls(&self) -> Cow<'_, Self> {
        let is_known = |mark: &Mark| mark.values.iter().all(|values| ratio(mark, values).is_none());
        if self.marks.iter().all(is_known) {
            return Cow::Borrowed(self);
        }
        let mut multiplied = self.clone();
        for node in &mut multiplied.call_graph {
            for values in &mut node.values {
                let of_mark = self.marks.get(node.mark).and_then(|mark| ratio(mark, mark.event(&values.event)?));
                let Some(ratio) = of_mark else { continue };
                for sum in [Some(&mut values.sum), values.self_sum.as_mut()].into_iter().flatten() {
                    *sum = times(*sum, ratio);
                }
            }
        }
        for mark in &mut multiplied.marks {
            let ratios: Vec<_> = mark.values.iter().map(|values| ratio(mark, values)).collect();
            for (values, ratio) in mark.values.iter_mut().zip(ratios) {
                if let Some(ratio) = ratio {
                    values.multiply(ratio, mark.skipped);
                }
            }
        }
        Cow::Owned(multiplied)
    }
}

impl Mark {
    /// The number of calls while the mark did not record the event, because its events have changed.
    pub(crate) fn calls_without(&self, values: &Values) -> u64 {
        let with = [values.measured, values.unmeasured, self.unwound, self.cancelled, self.skipped];
        let without = with.into_iter().fold(self.calls, u64::saturating_sub);
        // While threads record, some calls are in one number and not yet in the other.
        if without > self.calls / 64 { without } else { 0 }
    }
}

/// How many calls there were for each one that the measured calls represent. `None` if these are all, if some calls did
/// not record the event, or if nothing was measured.
fn ratio(mark: &Mark, values: &Values) -> Option<f64> {
    let represented = values.measured.saturating_add(mark.skipped);
    let is_skipped = mark.skipped > 0 && values.measured > 0 && values.weight != represented;
    (is_skipped && mark.calls_without(values) == 0).then(|| represented as f64 / values.weight as f64)
}

#[expect(clippy::cast_possible_truncation, reason = "saturates")]
fn times(sum: i64, ratio: f64) -> i64 {
    (sum as f64 * ratio).round() as i64
}

impl Values {
    /// Lets the values represent so many times the calls, of which `skipped` were skipped.
    fn multiply(&mut self, ratio: f64, skipped: u64) {
        for sum in [Some(&mut self.sum), Some(&mut self.total), self.self_sum.as_mut()].into_iter().flatten() {
            *sum = times(*sum, ratio);
        }
        let (before, weight) = (self.weight.max(1), self.measured.saturating_add(skipped));
        // Rounded so that the buckets still add up to the number of calls.
        let share = |calls: u64| u128::from(calls) * u128::from(weight) / u128::from(before);
        let (mut all, mut shown) = (0_u64, 0);
        for Bucket { calls, .. } in &mut self.buckets {
            all = all.saturating_add(*calls);
            let until = u64::try_from(share(all)).unwrap_or(u64::MAX);
            *calls = until - shown;
            shown = until;
        }
        self.buckets.retain(|bucket| bucket.calls > 0);
        self.weight = weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Node, NodeValues};

    /// A mark of so many calls, of which 20 were measured, and represent `weight`.
    fn of(calls: u64, weight: u64) -> Snapshot {
        let buckets = [(1, weight / 4), (9, weight - weight / 4)];
        let values = Values {
            event: "time".into(),
            measured: 20,
            weight,
            sum: 7_000,
            total: 6_000,
            self_sum: Some(-100),
            buckets: buckets.map(|(low, calls)| Bucket { low, high: low, calls }).into(),
            ..Values::default()
        };
        let node = NodeValues { event: "time".into(), measured: 20, sum: 5_000, self_sum: Some(-100) };
        let mark = Mark { calls, skipped: calls - 20, values: vec![values], ..Mark::default() };
        let call_graph = vec![Node { values: vec![node], ..Node::default() }];
        Snapshot { marks: vec![mark], call_graph, ..Snapshot::default() }
    }

    #[test]
    fn estimates_are_for_the_calls_that_there_were() {
        for (calls, weight, ratio) in [(4_000, 1_000, 4.0), (500, 1_000, 0.5), (25_200, 20, 1_260.0)] {
            let snapshot = of(calls, weight);
            let multiplied = snapshot.for_known_calls();
            let (values, node) = (&multiplied.marks[0].values[0], &multiplied.call_graph[0].values[0]);
            let times = |sum: i64| times(sum, ratio);
            assert_eq!((values.weight, values.sum, values.total), (calls, times(7_000), times(6_000)));
            assert_eq!((values.self_sum, node.self_sum), (Some(times(-100)), Some(times(-100))));
            assert_eq!(node.sum, times(5_000));
            assert_eq!(values.buckets.iter().map(|bucket| bucket.calls).sum::<u64>(), calls);
        }
    }

    #[test]
    fn exact_values_and_those_of_calls_with_other_events_stay() {
        let mut all_measured = of(20, 20);
        all_measured.marks[0].skipped = 0;
        let mut with_others = of(4_000, 1_000);
        with_others.marks[0].calls += 1_000;
        for snapshot in [all_measured, with_others, of(1_000, 1_000)] {
            assert_eq!(*snapshot.for_known_calls(), snapshot);
        }
    }

    #[test]
    fn exact_sums_stay_beside_estimates() {
        /// One that a 64-bit floating-point number cannot hold.
        const SUM: i64 = (1 << 53) + 1;
        let mut snapshot = of(4_000, 1_000);
        let exact = of(20, 20);
        snapshot.call_graph.extend(exact.call_graph);
        snapshot.marks.extend(exact.marks);
        snapshot.call_graph[1].mark = 1;
        snapshot.call_graph[1].values[0].sum = SUM;
        assert_eq!(snapshot.for_known_calls().call_graph[1].values[0].sum, SUM);
    }
}
