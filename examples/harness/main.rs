//! A harness of one's own: what a function costs by itself, with exact counts where there are counters.
//!
//! `cargo run --release --example harness`. Harnesses that people have: `benches/harnesses` measures with criterion by instructions, and marks functions
//! in criterion's and divan's benchmarks.

use std::hint::black_box;

use perfmark::{Measured, measure};

/// The digits of a number, one division each.
fn digits_by_division(mut number: u64) -> usize {
    let mut digits = 1;
    while number >= 10 {
        number /= 10;
        digits += 1;
    }
    digits
}

/// The same by comparisons.
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

/// The run that cost least of the first event: what disturbs a run only adds to it.
fn least(events: &[&str], work: fn() -> usize) -> Result<Measured<usize>, perfmark::MeasureError> {
    const RUNS: usize = 50;
    let mut best = measure(events, work)?;
    for _ in 1..RUNS {
        let run = measure(events, work)?;
        if run.counts[0].count < best.counts[0].count {
            best = run;
        }
    }
    Ok(best)
}

fn main() {
    const NUMBERS: [u64; 4] = [7, 4_096, 1_000_000_007, u64::MAX];
    // Where the machine has no counters, or the kernel keeps them to itself, this says so, and how to change it.
    let events = match measure(&["instructions", "cycles"], || ()) {
        Ok(_) => &["instructions", "cycles", "branch-misses"][..],
        Err(why) => {
            eprintln!("{why}\nso time alone is measured");
            &["time"]
        }
    };
    let division = || black_box(NUMBERS).map(digits_by_division).iter().sum();
    let comparison = || black_box(NUMBERS).map(digits_by_comparison).iter().sum();
    for (name, measured) in [("by division", least(events, division)), ("by comparison", least(events, comparison))] {
        match measured {
            Ok(measured) => println!("{name:14} {} digits: {measured}", measured.value),
            Err(why) => eprintln!("{name}: {why}"),
        }
    }
}
