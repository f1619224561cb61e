//! Alternatives to perfmark. Each is used as its documentation says, and in its favor if there is a choice: its work on
//! other threads, or at the end of a frame, a trace or an interval, is outside the measured time.

use std::cell::RefCell;
use std::convert::identity;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{LazyLock, Once};
use std::thread::LocalKey;
use std::time::Instant;
use std::{env, mem};

use fastrace::collector::{Config, Reporter, SpanContext, SpanRecord};
use fastrace::prelude::Span;
use hdrhistogram::Histogram;
use hotpath::{Format, HotpathGuardBuilder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use puffin::GlobalProfiler;
use tracing::Subscriber;
use tracing::span::{Attributes, Id};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::batch::Case;
use crate::contender::Contender;

/// Their names as dependencies.
pub(crate) const CRATES: [&str; 8] = [
    "fastrace",
    "hdrhistogram",
    "hotpath",
    "metrics",
    "metrics-exporter-prometheus",
    "puffin",
    "tracing",
    "tracing-subscriber",
];

pub(crate) fn contenders() -> Vec<Contender> {
    vec![
        Contender::new(
            "Instant, thread-local hdrhistogram",
            Case::leaf(hdr).around(with_hdr).recorded(|| HDR_CALLS.load(Relaxed)),
        ),
        Contender::new("hotpath, queue drained", Case::leaf(hotpath_leaf).around(with_hotpath)),
        // The worker takes 1,024 chunks of 64 calls every 50 ms. At higher rates, a queue grows without bound. This
        // runs in a separate process for less than 50 ms, because a queue that was emptied once keeps its memory.
        Contender::new("hotpath, above 1.3 M calls a second", Case::leaf(hotpath_leaf).around(with_hotpath).times(40))
            .in_child(),
        Contender::new(
            "puffin, in a scope",
            Case::leaf(puffin_leaf).around(in_puffin_scope).recorded(|| SCOPES.load(Relaxed)),
        ),
        Contender::new(
            "puffin, outermost scope",
            Case::leaf(puffin_leaf).around(in_puffin_frame).recorded(|| SCOPES.load(Relaxed)),
        ),
        Contender::new(
            "fastrace, in a trace",
            Case::leaf(fastrace_leaf).around(in_trace).recorded(|| SPANS.load(Relaxed)),
        ),
        Contender::new(
            "tracing with a timing layer",
            Case::leaf(tracing_leaf).around(with_tracing).recorded(|| TRACING_CALLS.load(Relaxed)),
        ),
        Contender::new(
            "Instant, metrics, handle kept",
            Case::leaf(metrics_handle).around(with_metrics).recorded(|| metrics_calls("handle")),
        ),
        Contender::new(
            "Instant, metrics, by name",
            Case::leaf(metrics_by_name).around(with_metrics).recorded(|| metrics_calls("name")),
        ),
    ]
}

thread_local! {
    static HDR: RefCell<Histogram<u64>> = RefCell::new(histogram());
    static TRACING: RefCell<Histogram<u64>> = RefCell::new(histogram());
}
static HDR_CALLS: AtomicU64 = AtomicU64::new(0);
static TRACING_CALLS: AtomicU64 = AtomicU64::new(0);

/// From one nanosecond to a minute, with three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid")
}

fn with_hdr(batch: &mut dyn FnMut()) {
    batch();
    empty(&HDR, &HDR_CALLS);
}

fn empty(histogram: &'static LocalKey<RefCell<Histogram<u64>>>, calls: &AtomicU64) {
    histogram.with_borrow_mut(|histogram| {
        calls.fetch_add(histogram.len(), Relaxed);
        histogram.reset();
    });
}

#[inline(never)]
fn hdr(n: u64) -> u64 {
    let before = Instant::now();
    let n = black_box(n);
    let elapsed = nanoseconds(before);
    HDR.with_borrow_mut(|histogram| histogram.saturating_record(elapsed));
    n
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

function! { #[hotpath::measure] fn hotpath_leaf => identity }

fn with_hotpath(batch: &mut dyn FnMut()) {
    static START: Once = Once::new();
    // Never dropped, because dropping it would print a report.
    START.call_once(|| mem::forget(HotpathGuardBuilder::new("call").format(Format::None).build()));
    batch();
}

/// Sets variables that peers read from the environment at their first use.
pub(crate) fn set_environment() {
    // SAFETY: no other threads exist yet.
    unsafe {
        // The benchmark does not use hotpath's metrics server.
        env::set_var("HOTPATH_METRICS_SERVER_OFF", "true");
    }
}

static SCOPES: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn puffin_leaf(n: u64) -> u64 {
    puffin::profile_function!();
    black_box(n)
}

fn in_puffin_frame(batch: &mut dyn FnMut()) {
    static START: Once = Once::new();
    START.call_once(|| {
        puffin::set_scopes_on(true);
        GlobalProfiler::lock()
            .add_sink(Box::new(|frame| _ = SCOPES.fetch_add(frame.meta().num_scopes as u64, Relaxed)));
    });
    batch();
    GlobalProfiler::lock().new_frame();
}

fn in_puffin_scope(batch: &mut dyn FnMut()) {
    in_puffin_frame(&mut || {
        puffin::profile_scope!("batch");
        batch();
    });
}

function! { #[fastrace::trace] fn fastrace_leaf => identity }

static SPANS: AtomicU64 = AtomicU64::new(0);

struct Count;

impl Reporter for Count {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        SPANS.fetch_add(spans.len() as u64, Relaxed);
    }
}

/// A trace keeps 10,240 spans per thread, more than a batch contains.
fn in_trace(batch: &mut dyn FnMut()) {
    static START: Once = Once::new();
    START.call_once(|| fastrace::set_reporter(Count, Config::default()));
    let root = Span::root("batch", SpanContext::random());
    let parent = root.set_local_parent();
    batch();
    drop(parent);
    drop(root);
    fastrace::flush();
}

function! { #[tracing::instrument(skip_all)] fn tracing_leaf => identity }

/// A minimal layer that measures the time of each span of `tracing`.
struct Timing;

struct Start(Instant);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Timing {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Start(Instant::now()));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(Start(start)) = context.span(&id).and_then(|span| span.extensions_mut().remove()) {
            let elapsed = nanoseconds(start);
            TRACING.with_borrow_mut(|histogram| histogram.saturating_record(elapsed));
        }
    }
}

fn with_tracing(batch: &mut dyn FnMut()) {
    static START: Once = Once::new();
    START.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Timing);
        tracing::subscriber::set_global_default(subscriber).expect("no other subscriber is set");
    });
    batch();
    empty(&TRACING, &TRACING_CALLS);
}

/// The program's recorder of metrics.
static METRICS: LazyLock<PrometheusHandle> =
    LazyLock::new(|| PrometheusBuilder::new().install_recorder().expect("no other recorder is installed"));
static HANDLE: LazyLock<metrics::Histogram> = LazyLock::new(|| metrics::histogram!("handle"));

fn with_metrics(batch: &mut dyn FnMut()) {
    LazyLock::force(&METRICS);
    batch();
    // Merges the samples that are kept so far.
    METRICS.run_upkeep();
}

#[inline(never)]
fn metrics_handle(n: u64) -> u64 {
    let before = Instant::now();
    let n = black_box(n);
    HANDLE.record(before.elapsed());
    n
}

#[inline(never)]
fn metrics_by_name(n: u64) -> u64 {
    let before = Instant::now();
    let n = black_box(n);
    metrics::histogram!("name").record(before.elapsed());
    n
}

/// The count in the output line of a histogram.
fn metrics_calls(name: &str) -> u64 {
    let text = METRICS.render();
    let count = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("_count "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
