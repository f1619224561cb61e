//! criterion benchmarks that measure instructions, as exactly as the processor counts them.
//!
//! Run `cargo bench -p benches --features harnesses --bench instructions`. Set `PERFMARK_BENCH_EVENT=branch-misses` to
//! measure another event.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use perfmark::Measure;

/// Linear search.
fn in_order(numbers: &[u64], number: u64) -> Option<usize> {
    numbers.iter().position(|&known| known == number)
}

/// Binary search.
fn by_halves(numbers: &[u64], number: u64) -> Option<usize> {
    numbers.binary_search(&number).ok()
}

fn main() -> ExitCode {
    let event = std::env::var("PERFMARK_BENCH_EVENT").unwrap_or_else(|_| "instructions".into());
    let measure = match Measure::event(&event) {
        Ok(measure) => measure,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut criterion = Criterion::default()
        .with_measurement(measure)
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
        .without_plots()
        .configure_from_args();
    let mut group = criterion.benchmark_group("search");
    for length in [16_u64, 1_024] {
        let numbers: Vec<u64> = (0..length).collect();
        group.throughput(Throughput::Elements(length));
        for (name, search) in [("in order", in_order as fn(&[u64], u64) -> Option<usize>), ("by halves", by_halves)] {
            group.bench_with_input(BenchmarkId::new(name, length), &numbers, |bencher, numbers| {
                bencher.iter(|| search(black_box(numbers), black_box(length - 1)));
            });
        }
    }
    group.finish();
    criterion.final_summary();
    ExitCode::SUCCESS
}
