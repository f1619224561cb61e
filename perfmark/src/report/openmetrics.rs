//! The report for Prometheus: families of metrics, in the text format of `OpenMetrics`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit as MetricUnit};

use super::share::is_called;
use crate::compact::sort_by_key;
use crate::snapshot::{Mark, Snapshot, Unit, Values};
use crate::text::sanitize;

/// The default limit of labels; beyond it, the least called marks are merged.
pub(crate) const MOST_LABELS: usize = 1_000;

/// The text, with the end marker that the format requires.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families::new(snapshot.clone(), &mut BTreeSet::new(), MOST_LABELS)));
    let mut text = String::new();
    // Writing to memory does not fail.
    _ = encode(&mut text, &registry);
    text
}

/// The content of a scrape.
#[derive(Debug, Default)]
pub(crate) struct Families {
    /// The marks that were called, by label.
    marks: BTreeMap<String, Mark>,
    /// The events that are times.
    times: BTreeSet<String>,
}

impl Families {
    /// Marks that have a label keep it. Of the others, the most called get labels until there are `limit`.
    pub(crate) fn new(snapshot: Snapshot, labels: &mut BTreeSet<String>, limit: usize) -> Self {
        let Snapshot { events, marks: mut called, .. } = snapshot;
        let times = events.into_iter().filter(|event| event.unit == Unit::Ns).map(|event| event.name).collect();
        called.retain(is_called);
        sort_by_key(&mut called, |mark| Reverse(mark.calls));
        let mut marks: BTreeMap<String, Mark> = BTreeMap::new();
        for mark in called {
            let mut label = sanitize(&mark.target());
            if !labels.contains(&label) && labels.len() >= limit {
                label = "other".into();
            } else {
                labels.insert(label.clone());
            }
            marks.entry(label).and_modify(|known| known.merge(&mark)).or_insert(mark);
        }
        Self { marks, times }
    }

    /// Passes every sum that a counter exports to `show`, with its label, event and kind.
    pub(crate) fn each_sum(&mut self, mut show: impl FnMut(&str, &str, &'static str, &mut i64)) {
        for (label, mark) in &mut self.marks {
            for values in &mut mark.values {
                show(label, &values.event, "sum", &mut values.sum);
                show(label, &values.event, "self", values.self_sum.get_or_insert(0));
            }
        }
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counters: [(&str, &str, Count); 4] = [
            ("perfmark_calls", "Calls that ended, in any way", |mark| mark.calls),
            ("perfmark_calls_unwound", "Of these, calls that a panic ended, without skipped ones", |mark| mark.unwound),
            ("perfmark_calls_cancelled", "Of these, calls whose future was dropped", |mark| mark.cancelled),
            ("perfmark_calls_skipped", SKIPPED, |mark| mark.skipped),
        ];
        for (name, help, count) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (label, mark) in &self.marks {
                family.encode_family(&[("mark", label.as_str())])?.encode_counter(&count(mark), NO_EXEMPLAR)?;
            }
        }
        let help = "Calls in flight";
        let mut family = encoder.encode_descriptor("perfmark_calls_in_flight", help, None, MetricType::Gauge)?;
        for (label, mark) in &self.marks {
            let value = i64::try_from(mark.in_flight).unwrap_or(i64::MAX);
            family.encode_family(&[("mark", label.as_str())])?.encode_gauge(&value)?;
        }
        for (event, values) in by_event(&self.marks, &self.times) {
            event.encode(&mut encoder, &values)?;
        }
        Ok(())
    }
}

const SKIPPED: &str = "Of these, calls that were not measured because of `every`, a budget or a filter";

/// One of a mark's counts.
type Count = fn(&Mark) -> u64;

const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, f64>> = None;

/// An event, with its name in metrics.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    name: String,
    is_time: bool,
}

impl Event {
    fn new(name: &str, is_time: bool) -> Self {
        let character = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        Self { name: name.chars().map(character).collect(), is_time }
    }

    /// The metric's unit, and the divisor for values.
    fn unit(&self) -> (Option<MetricUnit>, f64) {
        if self.is_time { (Some(MetricUnit::Seconds), 1e9) } else { (None, 1.0) }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, values: &[(&str, &Values)]) -> fmt::Result {
        let (unit, one) = self.unit();
        let (name, event) = (format!("perfmark_call_{}", self.name), self.name.replace('_', " "));
        let help = format!("Inclusive cost of measured calls in {event}");
        let mut family = encoder.encode_descriptor(&name, &help, unit.as_ref(), MetricType::Histogram)?;
        for (label, values) in values {
            let labels = [("mark", *label)];
            let mut metric: MetricEncoder<'_> = family.encode_family(&labels)?;
            let buckets = self.buckets(values);
            metric.encode_histogram::<NoLabelSet>(values.sum.max(0) as f64 / one, values.weight, &buckets, None)?;
        }
        let (name, help) = (format!("perfmark_self_{}", self.name), format!("Self cost of calls in {event}"));
        let mut family = encoder.encode_descriptor(&name, &help, unit.as_ref(), MetricType::Counter)?;
        for (label, values) in values {
            let own = values.self_sum.unwrap_or(0).max(0) as f64 / one;
            family.encode_family(&[("mark", *label)])?.encode_counter(&own, NO_EXEMPLAR)?;
        }
        Ok(())
    }

    /// Upper bound and count of each bucket; the last one has no bound. The encoder adds the counts up, so their sum is
    /// at most `u64::MAX`.
    fn buckets(&self, values: &Values) -> Vec<(f64, u64)> {
        let (first, last) = if self.is_time { (5, 35) } else { (0, 36) };
        let bounds = (first..=last).map(|power| 1_u64 << power).chain([u64::MAX]);
        let mut rest = values.buckets.iter().peekable();
        let mut counts: Vec<(f64, u64)> = Vec::new();
        let (one, mut left) = (self.unit().1, u64::MAX);
        for bound in bounds {
            let mut count = 0_u64;
            while let Some(bucket) = rest.next_if(|bucket| bucket.high <= bound) {
                count = count.saturating_add(bucket.calls).min(left);
            }
            left -= count;
            counts.push((if bound == u64::MAX { f64::INFINITY } else { bound as f64 / one }, count));
        }
        counts
    }
}

/// Each event's values by mark; `times` are the events that are times.
fn by_event<'a>(
    marks: &'a BTreeMap<String, Mark>,
    times: &BTreeSet<String>,
) -> BTreeMap<Event, Vec<(&'a str, &'a Values)>> {
    let mut events: BTreeMap<Event, Vec<(&str, &Values)>> = BTreeMap::new();
    for (label, mark) in marks {
        for values in &mark.values {
            let event = Event::new(&values.event, times.contains(&values.event));
            let known = events.entry(event).or_default();
            // If two events' names differ only in punctuation, the first one is exported.
            if known.last().is_none_or(|(last, _)| last != label) {
                known.push((label, values));
            }
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample::{self, mark, snapshot, values};

    #[test]
    fn any_snapshot_has_each_series_once_and_no_broken_line() {
        for snapshot in sample::nasty() {
            let text = render(&snapshot);
            let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
            let mut names = BTreeSet::new();
            for line in series {
                let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
                assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line:?}");
                assert!(names.insert(name), "{line:?}");
            }
            assert!(text.ends_with("# EOF\n") && !text.contains("never"), "{text}");
            assert!(!text.replace('\n', "").contains(char::is_control), "{text:?}");
        }
    }

    #[test]
    fn the_least_called_of_very_many_marks_are_merged() {
        let marks: Vec<Mark> = (1..=3)
            .map(|calls| Mark { values: vec![values("time", 1, 1)], ..mark(&format!("m{calls}"), calls) })
            .collect();
        let mut labels = BTreeSet::new();
        let families = Families::new(snapshot(&[], &marks), &mut labels, 1);
        let calls: Vec<_> = families.marks.iter().map(|(label, mark)| (label.as_str(), mark.calls)).collect();
        assert_eq!(calls, [("other", 3), ("wordcount::m3", 3)]);
        assert_eq!(labels.len(), 1);
    }
}
