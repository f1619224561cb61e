//! Marked functions as divan's benchmarks, with both orders of the attributes. divan times them, and perfmark counts
//! their calls.

use std::hint::black_box;

use perfmark::perfmark;

#[divan::bench]
#[perfmark(time)]
fn below() -> u64 {
    black_box(1)
}

#[perfmark(time)]
#[divan::bench]
fn above() -> u64 {
    black_box(2)
}

#[divan::bench(args = [1, 10])]
#[perfmark(time)]
fn with_arguments(n: u64) -> u64 {
    (0..n).map(black_box).sum()
}

/// Called once for each argument. divan times the function that it passes to the bencher.
#[perfmark(time)]
#[divan::bench(args = [1, 10])]
fn with_a_bencher(bencher: divan::Bencher<'_, '_>, n: u64) {
    bencher.with_inputs(|| n).bench_values(called_by_it);
}

#[perfmark(time)]
fn called_by_it(n: u64) -> u64 {
    black_box(n)
}

#[divan::bench_group]
#[perfmark(time)]
mod group {
    #[divan::bench]
    fn in_a_group() -> u64 {
        std::hint::black_box(3)
    }
}

fn main() {
    divan::main();
    benches::called::assert_called(&[
        "below",
        "above",
        "with_arguments",
        "with_a_bencher",
        "called_by_it",
        "in_a_group",
    ]);
}
