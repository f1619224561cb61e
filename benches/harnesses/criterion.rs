//! Marked functions in criterion's groups, as measured functions and as the benchmark functions.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group};
use perfmark::perfmark;

#[perfmark(time)]
fn measured(n: u64) -> u64 {
    (0..n).map(black_box).sum()
}

#[perfmark(time)]
fn benchmark(criterion: &mut Criterion) {
    criterion.bench_function("marked", |bencher| bencher.iter(|| measured(black_box(10))));
}

#[perfmark(time)]
fn group(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("marked functions");
    for n in [1, 10] {
        group.bench_with_input(BenchmarkId::from_parameter(n), &n, |bencher, &n| bencher.iter(|| measured(n)));
    }
    group.finish();
}

criterion_group!(of_marked, benchmark, group);

fn main() {
    of_marked();
    Criterion::default().configure_from_args().final_summary();
    benches::called::assert_called(&["measured", "benchmark", "group"]);
}
