//! Snapshots as metrics: a collector for `prometheus-client`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::collect;
use crate::filter::Filter;
use crate::per_process::PerProcess;
use crate::report::{Families, MOST_LABELS};

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
    /// The largest values so far, by label, event and kind. A Prometheus counter never falls, while the sum of very
    /// short calls, or an estimate, can fall within its error.
    sums: BTreeMap<(String, String, &'static str), i64>,
    resets: u32,
}

impl Default for Metrics {
    /// All marks.
    fn default() -> Self {
        static NUMBERS: AtomicUsize = AtomicUsize::new(0);
        Self { filter: Filter::default(), limit: MOST_LABELS, number: NUMBERS.fetch_add(1, Relaxed) }
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

    /// What was recorded until now, and is no less than it was.
    fn called(&self) -> Families {
        // Without memory that a fork wipes nothing is recorded.
        let Ok(told) = TOLD.get() else { return Families::default() };
        // Snapshots come in their order.
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.entry(self.number).or_default();
        let mut snapshot = collect::snapshot();
        if told.resets != snapshot.resets {
            *told = Told { resets: snapshot.resets, ..Told::default() };
        }
        snapshot.marks.retain(|mark| self.filter.has(&mark.target()));
        let mut families = Families::new(snapshot, &mut told.labels, self.limit);
        families.each_sum(|label, event, which, sum| {
            let before = told.sums.entry((label.to_owned(), event.to_owned(), which)).or_default();
            *before = (*before).max(*sum);
            *sum = *before;
        });
        families
    }
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.called().encode(encoder)
    }
}
