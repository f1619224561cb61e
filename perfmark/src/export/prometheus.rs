//! Snapshots as metrics: a collector for `prometheus-client`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::platform::per_process::PerProcess;
use crate::recording::collect;
use crate::recording::start;
use crate::report::{Families, MOST_LABELS};
use crate::settings::Filter;

/// A collector that exports the marks' values through a service's `prometheus_client::registry::Registry` at each
/// scrape.
///
/// | metric | type | |
/// |---|---|---|
/// | `perfmark_calls_total` | counter | calls that ended, in any way |
/// | `perfmark_calls_unwound_total`, `_cancelled_total`, `_skipped_total` | counters | of these; see below |
/// | `perfmark_calls_in_flight` | gauge | calls in flight |
/// | `perfmark_call_time_seconds` | histogram | inclusive time of measured calls |
/// | `perfmark_call_instructions`, and so each event | histogram | inclusive count of measured calls |
/// | `perfmark_self_time_seconds_total`, `perfmark_self_instructions_total`, … | counters | self cost |
///
/// Unwound and cancelled calls are in no histogram. Measured calls represent the skipped ones: with `every = N`, each
/// counts as `N` calls.
///
/// The label `mark` is the function's path, as in a [`Filter`]. If there are more than 1,000 marks
/// ([`limit`](Self::limit)), the least called ones are merged under the label `other`. Marks that were never called are
/// left out. Bucket bounds double, from 32 ns to 34 s for times and from 1 to 2^36 for counts, so quantiles over
/// several processes are within a factor of 2 at worst. perfmark's own buckets are 1/32 wide; a call is in the first
/// exported bucket that contains its complete own bucket.
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
    /// A unique number among all collectors.
    number: usize,
}

/// The state of each collector, by its number. A forked child starts with an empty one, even if the lock was held.
static EXPORTED: PerProcess<Mutex<BTreeMap<usize, Exported>>> = PerProcess::new();

/// The values of earlier scrapes: counters never fall, and a mark keeps its label.
#[derive(Debug, Default)]
struct Exported {
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
        start::note_api_use();
        Self { filter: Filter::default(), limit: MOST_LABELS, number: NUMBERS.fetch_add(1, Relaxed) }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        if let Ok(mut exported) = EXPORTED.lock() {
            exported.remove(&self.number);
        }
    }
}

impl Metrics {
    /// Exports only the marks that the filter turns on.
    #[must_use]
    pub fn marks(mut self, filter: &Filter) -> Self {
        self.filter = filter.clone();
        self
    }

    /// Exports at most `limit` marks separately, and all others merged.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// The values until now, none less than before.
    fn called(&self) -> Families {
        // Without memory that a fork wipes nothing is recorded.
        // The lock keeps snapshots in order.
        let Ok(mut exported) = EXPORTED.lock() else { return Families::default() };
        let exported = exported.entry(self.number).or_default();
        let mut snapshot = collect::snapshot();
        if exported.resets != snapshot.resets {
            *exported = Exported { resets: snapshot.resets, ..Exported::default() };
        }
        snapshot.marks.retain(|mark| self.filter.has(&mark.target()));
        let mut families = Families::new(snapshot, &mut exported.labels, self.limit);
        families.each_sum(|label, event, which, sum| {
            let before = exported.sums.entry((label.to_owned(), event.to_owned(), which)).or_default();
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
