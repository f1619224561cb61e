//! Compares a snapshot with the model.

use std::collections::BTreeMap;
use std::env;

use perfmark::Snapshot;

use crate::marks::{EVENTS, EventIndex, MARKS, MarkIndex, events_of};
use crate::model::{Model, Sums, Totals};

/// One number of a mark in a report.
#[derive(Clone, Debug)]
pub struct Number {
    name: &'static str,
    event: Option<EventIndex>,
    kind: NumberKind,
    value: i128,
    /// By how much it may differ.
    tolerance: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberKind {
    /// A sum over calls, without those inside other calls of the mark.
    Total,
    /// Other sums and counts, which are additive.
    Sum,
    /// Not additive.
    Other,
}

impl Number {
    fn count(name: &'static str, value: u64) -> Self {
        Self { name, event: None, kind: NumberKind::Sum, value: value.into(), tolerance: 0.0 }
    }
}

fn of_event(event: EventIndex, of: &Sums) -> Vec<Number> {
    use NumberKind::{Other, Sum, Total};
    let extreme = |value: Option<u64>| value.unwrap_or(0).into();
    let part = |name, own: i64, of_skipped: i64| (name, Sum, own.into(), of.error + (of_skipped.abs() + 1) as f64);
    let numbers = [
        ("measured", Sum, of.measured.into(), 0.0),
        ("weight", Sum, of.weight.into(), 0.0),
        ("scaled", Sum, of.scaled.into(), 0.0),
        ("unmeasured", Sum, of.unmeasured.into(), 0.0),
        ("imputed", Sum, of.imputed.into(), 0.0),
        ("sum", Sum, of.sum.into(), of.error),
        ("total", Total, of.total.into(), of.error),
        part("self", of.own, of.of_skipped),
        ("unwound total", Total, of.unwound_total.into(), of.error),
        part("unwound self", of.unwound_own, of.unwound_of_skipped),
        ("min", Other, extreme(of.min), of.largest_error),
        ("max", Other, extreme(of.max), of.largest_error),
    ];
    let number = |(name, kind, value, tolerance)| Number { name, event: Some(event), kind, value, tolerance };
    numbers.into_iter().map(number).collect()
}

fn numbers(mark: MarkIndex, totals: &Totals, in_flight: u64) -> Vec<Number> {
    let counts = [
        Number::count("calls", totals.calls),
        Number::count("skipped", totals.skipped),
        Number::count("estimated", totals.estimated),
        Number::count("unwound", totals.unwound),
        Number::count("cancelled", totals.cancelled),
        Number::count("polls", totals.polls),
        Number { kind: NumberKind::Other, ..Number::count("in flight", in_flight) },
    ];
    counts.into_iter().chain(events_of(mark).flat_map(|event| of_event(event, &totals.events[event]))).collect()
}

/// A mark's numbers in a snapshot; all are 0 if it does not have the mark.
fn recorded(snapshot: &Snapshot, mark: MarkIndex) -> Vec<Number> {
    let mut totals = Totals::default();
    let Some(of) = snapshot.marks.iter().find(|of| of.name == MARKS[mark].name) else {
        return numbers(mark, &totals, 0);
    };
    (totals.calls, totals.skipped, totals.unwound) = (of.calls, of.skipped, of.unwound);
    (totals.cancelled, totals.polls) = (of.cancelled, of.polls);
    assert_eq!(u64::from(of.every), MARKS[mark].every, "{of:?}");
    totals.estimated = of.values.first().map_or(0, |values| values.estimated);
    for event in events_of(mark) {
        let values = of.event(EVENTS[event].0).cloned().unwrap_or_default();
        let in_buckets: u64 = values.buckets.iter().map(|bucket| bucket.calls).sum();
        assert_eq!(in_buckets, values.weight, "{of:?}");
        let is_complete = values.unmeasured + of.skipped == 0 && values.weight == values.measured;
        assert_eq!(values.extrapolated, !is_complete, "{of:?}");
        totals.events[event] = Sums {
            measured: values.measured,
            weight: values.weight,
            scaled: values.scaled,
            unmeasured: values.unmeasured,
            imputed: values.imputed,
            sum: values.sum,
            total: values.total,
            own: values.self_sum.unwrap_or(0),
            unwound_total: values.unwound_total,
            unwound_own: values.unwound_self,
            min: values.min,
            max: values.max,
            ..Sums::default()
        };
    }
    numbers(mark, &totals, of.in_flight)
}

impl Model {
    /// What differs from the model in a snapshot, and in what it contains since the baseline.
    pub fn differences(&self, snapshot: &Snapshot) -> Vec<String> {
        let mut found = self.graph_differences(snapshot);
        let between = self.baseline.as_ref().map(|(baseline, before)| (snapshot.since(baseline), before));
        for &mark in self.marks.keys() {
            let expected = self.expected(mark);
            found.extend(self.compare(mark, recorded(snapshot, mark), &expected));
            if let Some((between, before)) = &between {
                let since = |number: &Number| {
                    let is_same = |other: &&Number| (other.name, other.event) == (number.name, number.event);
                    let before = before.get(&mark).and_then(|numbers| numbers.iter().find(is_same));
                    let (before, of_before) = before.map_or((0, 0.0), |before| (before.value, before.tolerance));
                    let tolerance = number.tolerance + of_before;
                    Number { value: number.value - before, tolerance, ..number.clone() }
                };
                let expected: Vec<Number> = expected.iter().map(since).collect();
                let mut recorded = recorded(between, mark);
                for (number, expected) in
                    recorded.iter_mut().zip(&expected).filter(|(of, _)| of.kind == NumberKind::Other)
                {
                    number.value = expected.value;
                }
                found.extend(self.compare(mark, recorded, &expected));
            }
        }
        found
    }

    /// Compares from now on what is recorded since this snapshot, too.
    pub fn take_baseline(&mut self, snapshot: Snapshot) {
        let numbers = self.marks.keys().map(|&mark| (mark, self.expected(mark))).collect();
        self.baseline = Some((snapshot, numbers));
    }

    fn expected(&self, mark: MarkIndex) -> Vec<Number> {
        let open = self.threads.iter().flat_map(|thread| &thread.open).filter(|open| open.mark == mark).count() as u64;
        numbers(mark, &self.marks[&mark], open + self.suspended.get(&mark).copied().unwrap_or(0))
    }

    fn compare(&self, mark: MarkIndex, recorded: Vec<Number>, expected: &[Number]) -> Vec<String> {
        // Within a budget, calls of different weights do not know that they are inside one another, and count twice: a
        // defect.
        let has_defect = self.marks[&mark].has_nested && env::var_os("PERFMARK_BUDGET").is_some();
        let differs = |(recorded, expected): &(Number, &Number)| {
            let is_checked = !(has_defect && expected.kind == NumberKind::Total);
            is_checked && (recorded.value - expected.value).abs() as f64 > expected.tolerance
        };
        let text = |(recorded, expected): (Number, &Number)| {
            let of = expected.event.map_or("calls", |event| EVENTS[event].0);
            let Number { name, value, tolerance, .. } = expected;
            format!("{}, {of}, {name}: {}, expected {value} ± {tolerance}", MARKS[mark].name, recorded.value)
        };
        recorded.into_iter().zip(expected).filter(differs).map(text).collect()
    }

    fn graph_differences(&self, snapshot: &Snapshot) -> Vec<String> {
        if env::var("PERFMARK_CALL_GRAPH").is_err() {
            return Vec::new();
        }
        let (mut recorded, mut found) = (BTreeMap::new(), Vec::new());
        for mut node in &snapshot.call_graph {
            let (at, mut path) = (node, Vec::new());
            loop {
                path.insert(0, snapshot.marks[node.mark].name.as_str());
                match node.parent {
                    Some(parent) => node = &snapshot.call_graph[parent],
                    None => break,
                }
            }
            assert!(recorded.insert(path, at).is_none(), "a path has two nodes");
        }
        for (path, (calls, events)) in &self.graph {
            let path: Vec<&str> = path.iter().map(|&mark| MARKS[mark].name).collect();
            let Some(node) = recorded.remove(&path) else {
                found.push(format!("{path:?} is missing"));
                continue;
            };
            if node.calls != *calls {
                found.push(format!("{path:?}: {} calls, expected {calls}", node.calls));
            }
            for (event, expected) in events.iter().enumerate().filter(|(_, expected)| expected.measured > 0) {
                let values = node.event(EVENTS[event].0).cloned();
                let values = values.unwrap_or_default();
                let (of_skipped, own) = (expected.of_skipped.abs(), values.self_sum.unwrap_or(0));
                let differs = (values.sum - expected.sum).abs() as f64 > expected.error
                    || (own - expected.own).abs() as f64 > expected.error + (of_skipped + 1) as f64;
                if differs {
                    found.push(format!("{path:?}, {}: {values:?}, expected {expected:?}", EVENTS[event].0));
                }
            }
        }
        // Calls that are open have a node, too.
        let uncalled = recorded.into_iter().filter(|(_, node)| node.calls > 0);
        found.extend(uncalled.map(|(path, _)| format!("no call of {path:?} has ended")));
        found
    }
}
