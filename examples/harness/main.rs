//! A custom benchmark harness that measures the cost of a function, with exact counts if counters are available.
//!
//! Run `cargo run --release --example harness`. For existing harnesses, see `benches/harnesses`. It measures
//! instructions with criterion, and marks functions in benchmarks of criterion and divan.

use std::hint::black_box;

use perfmark::{Measured, measure};

/// Counts the digits of a number with one division for each digit.
fn digits_by_division(mut number: u64) -> usize {
    let mut digits = 1;
    while number >= 10 {
        number /= 10;
        digits += 1;
    }
    digits
}

/// Counts the digits of a number by comparisons.
fn digits_by_comparison(number: u64) -> usize {
    let mut power: u64 = 10;
    for digits in 1..20 {
        if number < power {
            return digits;
        }
        power = power.wrapping_mul(10);
    }
    20
}

/// The run with the lowest count of the first event. Disturbances only increase a count, except an estimate. A run that
/// was not counted, or is an estimate, is only returned if all are.
fn best_run(events: &[&str], work: fn() -> usize) -> Result<Measured<usize>, perfmark::MeasureError> {
    const RUNS: usize = 50;
    let exact = |run: &Measured<usize>| run.counts[0].count.filter(|_| !run.counts[0].is_scaled).unwrap_or(u64::MAX);
    let mut best = measure(events, work)?;
    for _ in 1..RUNS {
        let run = measure(events, work)?;
        if exact(&run) < exact(&best) {
            best = run;
        }
    }
    Ok(best)
}

fn main() {
    const NUMBERS: [u64; 4] = [7, 4_096, 1_000_000_007, u64::MAX];
    // If the counters are not available, the error says why, and how to change that.
    let events = match measure(&["instructions", "cycles"], || ()) {
        Ok(_) => &["instructions", "cycles", "branch-misses"][..],
        Err(error) => {
            eprintln!("{error}\nmeasuring only time");
            &["time"]
        }
    };
    let division = || black_box(NUMBERS).map(digits_by_division).iter().sum();
    let comparison = || black_box(NUMBERS).map(digits_by_comparison).iter().sum();
    let runs = [("by division", best_run(events, division)), ("by comparison", best_run(events, comparison))];
    for (name, run) in runs {
        match run {
            Ok(measured) => println!("{name:14} {} digits: {measured}", measured.value),
            Err(error) => eprintln!("{name}: {error}"),
        }
    }
}
