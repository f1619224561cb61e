//! Snapshots as metrics: a collector for `prometheus-client`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Unit as MetricUnit;

use crate::collect;
use crate::filter::Filter;
use crate::per_process::PerProcess;
use crate::snapshot::{Mark, Snapshot, Unit, Values};

/// Gives what marks recorded to a service's own `prometheus_client::registry::Registry`, at each scrape.
///
/// | metric | type | |
/// |---|---|---|
/// | `perfmark_calls_total` | counter | calls that ended, in every way |
/// | `perfmark_calls_unwound_total`, `_cancelled_total`, `_skipped_total` | counters | of these, in no histogram |
/// | `perfmark_calls_in_flight` | gauge | calls that go on |
/// | `perfmark_call_time_seconds` | histogram | of measured calls |
/// | `perfmark_call_instructions`, and so each event | histogram | the same, in occurrences |
/// | `perfmark_self_time_seconds_total`, `perfmark_self_instructions_total`, … | counters | without the marked calls inside |
///
/// The label `mark` is the function's path, as [`Filter`] has it. Of more than 1,000 marks ([`limit`](Self::limit)) the least called are one, `other`. Marks that were never
/// called are left out. Buckets double, from 32 ns to 34 s and from 1 to 2^36, so that quantiles over several processes are within a factor of 2 at worst; a call is in the bucket that all
/// of its own bucket here lies in, which is 1/32 wide.
///
/// ```
/// use perfmark::Metrics;
/// use prometheus_client::{encoding::text::encode, registry::Registry};
///
/// # #[perfmark::perfmark(time)]
/// # fn work() {}
/// # work();
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(Metrics::default()));
/// let mut text = String::new();
/// encode(&mut text, &registry)?;
/// assert!(text.contains("perfmark_calls_total{mark="));
/// # Ok::<(), std::fmt::Error>(())
/// ```
///
/// A scrape costs what [`snapshot`](crate::snapshot()) does.
#[derive(Debug)]
pub struct Metrics {
    filter: Filter,
    limit: usize,
    /// Its own among all that there are.
    number: usize,
}

/// What each was told, by its number. A forked child begins anew, whoever held the lock.
static TOLD: PerProcess<Mutex<BTreeMap<usize, Told>>> = PerProcess::new();

/// What earlier scrapes were told: counters never fall, and a mark keeps its label.
#[derive(Debug, Default)]
struct Told {
    labels: BTreeSet<String>,
    /// By label, event and which it is. They may fall a little: those of functions that cost next to nothing, and estimates.
    sums: BTreeMap<(String, String, &'static str), u64>,
    resets: u32,
}

impl Default for Metrics {
    /// All marks.
    fn default() -> Self {
        static NUMBERS: AtomicUsize = AtomicUsize::new(0);
        Self { filter: Filter::default(), limit: 1_000, number: NUMBERS.fetch_add(1, Relaxed) }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        if let Ok(told) = TOLD.get() {
            told.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
        }
    }
}

impl Metrics {
    /// The same of those marks only that the filter has on.
    #[must_use]
    pub fn marks(mut self, filter: &Filter) -> Self {
        self.filter = filter.clone();
        self
    }

    /// The same of so many marks, all others being one.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// The marks that were called, by label, and the events that are times.
    fn called(&self) -> (BTreeMap<String, Mark>, BTreeSet<String>) {
        // Without memory that a fork wipes nothing is recorded.
        let Ok(told) = TOLD.get() else { return Default::default() };
        // Snapshots come in their order.
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.entry(self.number).or_default();
        let Snapshot { mut marks, resets, events, .. } = collect::snapshot();
        let times = events.into_iter().filter(|event| event.unit == Unit::Ns).map(|event| event.name).collect();
        if told.resets != resets {
            *told = Told { resets, ..Told::default() };
        }
        marks.retain(|mark| mark.calls + mark.in_flight > 0 && self.filter.has(&mark.target()));
        marks.sort_by_key(|mark| std::cmp::Reverse(mark.calls));
        let mut called: BTreeMap<String, Mark> = BTreeMap::new();
        for mark in marks {
            let mut label = mark.target();
            if !told.labels.contains(&label) && told.labels.len() >= self.limit {
                label = "other".into();
            } else {
                told.labels.insert(label.clone());
            }
            called.entry(label).and_modify(|known| known.merge(&mark)).or_insert(mark);
        }
        for (label, mark) in &mut called {
            for values in &mut mark.values {
                for (which, sum) in [("sum", &mut values.sum), ("self", values.self_sum.get_or_insert(0))] {
                    let before = told.sums.entry((label.clone(), values.event.clone(), which)).or_default();
                    *before = (*before).max(*sum);
                    *sum = *before;
                }
            }
        }
        (called, times)
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (marks, times) = self.called();
        let counters: [(&str, &str, Count); 4] = [
            ("perfmark_calls", "Calls of marks that ended, in every way", |mark| mark.calls),
            ("perfmark_calls_unwound", "Of these, calls that a panic ended", |mark| mark.unwound),
            ("perfmark_calls_cancelled", "Of these, calls whose future was dropped", |mark| mark.cancelled),
            ("perfmark_calls_skipped", "Of these, calls that were not to be measured", |mark| mark.skipped),
        ];
        for (name, help, count) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (label, mark) in &marks {
                family.encode_family(&[("mark", label.as_str())])?.encode_counter(&count(mark), NO_EXEMPLAR)?;
            }
        }
        let help = "Calls of marks that go on";
        let mut family = encoder.encode_descriptor("perfmark_calls_in_flight", help, None, MetricType::Gauge)?;
        for (label, mark) in &marks {
            let value = i64::try_from(mark.in_flight).unwrap_or(i64::MAX);
            family.encode_family(&[("mark", label.as_str())])?.encode_gauge(&value)?;
        }
        for (event, values) in by_event(&marks, &times) {
            event.encode(&mut encoder, &values)?;
        }
        Ok(())
    }
}

/// One of a mark's counts.
type Count = fn(&Mark) -> u64;

const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, f64>> = None;

/// An event as metrics have it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    name: String,
    is_time: bool,
}

impl Event {
    fn new(name: &str, is_time: bool) -> Self {
        let sign = |sign: char| if sign.is_ascii_alphanumeric() { sign.to_ascii_lowercase() } else { '_' };
        Self { name: name.chars().map(sign).collect(), is_time }
    }

    /// The unit, and how many of the figures' own are one of it.
    fn unit(&self) -> (Option<MetricUnit>, f64) {
        if self.is_time { (Some(MetricUnit::Seconds), 1e9) } else { (None, 1.0) }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, values: &[(&str, &Values)]) -> fmt::Result {
        let (unit, one) = self.unit();
        let (name, event) = (format!("perfmark_call_{}", self.name), self.name.replace('_', " "));
        let help = format!("What measured calls cost in {event}, with the calls inside them");
        let mut family = encoder.encode_descriptor(&name, &help, unit.as_ref(), MetricType::Histogram)?;
        for (label, values) in values {
            let labels = [("mark", *label)];
            let mut metric: MetricEncoder<'_> = family.encode_family(&labels)?;
            let buckets = self.buckets(values);
            metric.encode_histogram::<NoLabelSet>(values.sum as f64 / one, values.measured, &buckets, None)?;
        }
        let (name, help) = (format!("perfmark_self_{}", self.name), format!("What calls cost in {event} themselves"));
        let mut family = encoder.encode_descriptor(&name, &help, unit.as_ref(), MetricType::Counter)?;
        for (label, values) in values {
            let own = values.self_sum.unwrap_or(0) as f64 / one;
            family.encode_family(&[("mark", *label)])?.encode_counter(&own, NO_EXEMPLAR)?;
        }
        Ok(())
    }

    /// Upper bound and count of each bucket; the last one has no bound.
    fn buckets(&self, values: &Values) -> Vec<(f64, u64)> {
        let (first, last) = if self.is_time { (5, 35) } else { (0, 36) };
        let bounds = (first..=last).map(|power| 1_u64 << power).chain([u64::MAX]);
        let mut rest = values.buckets.iter().peekable();
        let mut counts: Vec<(f64, u64)> = Vec::new();
        let one = self.unit().1;
        for bound in bounds {
            let mut count = 0;
            while let Some((.., more)) = rest.next_if(|(_, high, _)| *high <= bound) {
                count += more;
            }
            counts.push((if bound == u64::MAX { f64::INFINITY } else { bound as f64 / one }, count));
        }
        counts
    }
}

/// Each event's figures, by mark; of the events, those that are `times`.
fn by_event<'a>(
    marks: &'a BTreeMap<String, Mark>,
    times: &BTreeSet<String>,
) -> BTreeMap<Event, Vec<(&'a str, &'a Values)>> {
    let mut events: BTreeMap<Event, Vec<(&str, &Values)>> = BTreeMap::new();
    for (label, mark) in marks {
        for values in &mark.values {
            let event = Event::new(&values.event, times.contains(&values.event));
            let known = events.entry(event).or_default();
            // Two events whose names differ in signs only: the first one is told.
            if known.last().is_none_or(|(last, _)| last != label) {
                known.push((label, values));
            }
        }
    }
    events
}
