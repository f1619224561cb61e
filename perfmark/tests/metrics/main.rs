//! Metrics as a scrape receives them.
#![cfg(feature = "prometheus")]
#![allow(clippy::float_cmp, reason = "the floats are counts")]

#[path = "../alone/mod.rs"]
mod alone;
#[path = "../../../perfmark-rdpmc/tests/child/mod.rs"]
mod child;

#[cfg(feature = "exporter")]
mod exporter;

use std::collections::BTreeMap;

use alone::passed_in_own_process;
use child::{fork, in_child};
use perfmark::{Bucket, Filter, Metrics, perfmark, snapshot};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

#[perfmark(time, page_faults)]
fn measured() {}

#[perfmark(time, every = 3)]
fn now_and_then() {}

#[perfmark(time)]
fn fails() {
    panic!("on purpose");
}

fn registry(metrics: Metrics) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics));
    registry
}

/// The value of each series.
fn scrape(registry: &Registry) -> BTreeMap<String, f64> {
    let mut text = String::new();
    encode(&mut text, registry).expect("text");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let series: BTreeMap<_, _> = lines
        .iter()
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (series.to_owned(), value.parse().expect("a number"))
        })
        .collect();
    assert_eq!(series.len(), lines.len(), "no series occurs twice: {text}");
    series
}

fn work(times: u32) {
    for _ in 0..times {
        measured();
        now_and_then();
    }
    assert!(std::panic::catch_unwind(fails).is_err());
}

#[test]
fn a_scrape_has_each_marks_counts_sums_and_buckets() {
    if passed_in_own_process() {
        return;
    }
    let registry = registry(Metrics::default());
    work(30);
    let (series, snapshot) = (scrape(&registry), snapshot());
    let get = |name: String| *series.get(&name).unwrap_or_else(|| panic!("no {name} in {series:#?}"));
    for mark in snapshot.marks.iter().filter(|mark| mark.calls > 0) {
        let label = format!("{{mark=\"{}\"", mark.path);
        assert_eq!(get(format!("perfmark_calls_total{label}}}")), mark.calls as f64);
        assert_eq!(get(format!("perfmark_calls_unwound_total{label}}}")), mark.unwound as f64);
        assert_eq!(get(format!("perfmark_calls_skipped_total{label}}}")), mark.skipped as f64);
        assert_eq!(get(format!("perfmark_calls_in_flight{label}}}")), 0.0);
        for values in &mark.values {
            let (event, one) = match &*values.event {
                "time" => ("time_seconds", 1e9),
                "page-faults" => ("page_faults", 1.0),
                event => panic!("{event}"),
            };
            let sum = get(format!("perfmark_call_{event}_sum{label}}}"));
            // A counter is never below 0, but the sum of calls that cost next to nothing may be.
            assert!((sum - values.sum.max(0) as f64 / one).abs() <= f64::EPSILON * sum, "{sum} {}", values.sum);
            assert_eq!(get(format!("perfmark_call_{event}_count{label}}}")), values.weight as f64);
            assert_eq!(
                get(format!("perfmark_call_{event}_bucket{{le=\"+Inf\",mark=\"{}\"}}", mark.path)),
                values.weight as f64
            );
            let own = get(format!("perfmark_self_{event}_total{label}}}"));
            assert!((own - values.self_sum.expect("recorded").max(0) as f64 / one).abs() <= f64::EPSILON * own);
            let (front, back) =
                (format!("perfmark_call_{event}_bucket{{le=\""), format!("\",mark=\"{}\"}}", mark.path));
            let bound = |name: &str| name.strip_prefix(&*front)?.strip_suffix(&*back)?.parse::<f64>().ok();
            let mut buckets: Vec<(f64, f64)> =
                series.iter().filter_map(|(name, count)| Some((bound(name)?, *count))).collect();
            assert!(buckets.len() > 30);
            buckets.sort_by(|one, two| one.0.total_cmp(&two.0));
            for (bound, count) in buckets {
                let is_below = |bucket: &&Bucket| bucket.high as f64 <= bound * one * (1.0 + 1e-12);
                let below: u64 = values.buckets.iter().filter(is_below).map(|bucket| bucket.calls).sum();
                assert_eq!(count, below as f64, "at {bound}");
            }
        }
    }
}

#[test]
fn counters_never_fall_and_labels_are_bounded() {
    if passed_in_own_process() {
        return;
    }
    let registries =
        [registry(Metrics::default().limit(1)), registry(Metrics::default()), registry(Metrics::default().limit(0))];
    let mut before: [BTreeMap<String, f64>; 3] = Default::default();
    for round in 0..40 {
        work(round % 7);
        for (registry, before) in registries.iter().zip(&mut before) {
            let now = scrape(registry);
            for (series, value) in
                before.iter().filter(|(series, _)| series.contains("_total{") || series.contains("_count{"))
            {
                assert!(
                    now.get(series).is_some_and(|now| now >= value),
                    "{series} fell from {value} to {:?}",
                    now.get(series)
                );
            }
            *before = now;
        }
    }
    let labels = |series: &BTreeMap<String, f64>| -> Vec<String> {
        let mut labels: Vec<String> =
            series.keys().filter_map(|name| name.strip_prefix("perfmark_calls_total")).map(str::to_owned).collect();
        labels.sort();
        labels
    };
    let [one, all, none] = &before;
    assert_eq!(labels(one).len(), 2, "{:?}", labels(one));
    assert_eq!(labels(all).len(), 3, "{:?}", labels(all));
    assert_eq!(labels(none), ["{mark=\"other\"}"]);
    let calls = |series: &BTreeMap<String, f64>| -> f64 {
        series.iter().filter(|(name, _)| name.starts_with("perfmark_calls_total")).map(|(_, calls)| calls).sum()
    };
    assert!(calls(one) == calls(all) && calls(none) == calls(all), "no call is lost");
}

#[test]
fn a_service_chooses_its_marks() {
    if passed_in_own_process() {
        return;
    }
    let registry = registry(Metrics::default().marks(&Filter::default().on("*::measured")));
    work(2);
    let series = scrape(&registry);
    assert!(series.keys().all(|name| name.contains("metrics::measured")) && !series.is_empty(), "{series:?}");
}

#[test]
fn a_child_forked_during_a_scrape_reports_its_own_calls_only() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    if passed_in_own_process() {
        return;
    }
    let registry = registry(Metrics::default());
    work(3);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                scrape(&registry);
            }
        });
        for _ in 0..30 {
            assert!(in_child(fork, || {
                measured();
                scrape(&registry)["perfmark_calls_total{mark=\"metrics::measured\"}"] == 1.0
            }));
        }
        is_over.store(true, Relaxed);
    });
}
