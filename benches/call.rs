//! What a marked call costs beside a bare pair of tick reads: `cargo bench -p benches --bench call`.
//!
//! All run interleaved in one process, so that a change in the machine's speed falls on each alike; told are medians of their ratios to
//! the bare pair. Run with `PERFMARK=off` it tells what a mark costs when it is switched off.

use std::hint::black_box;

use perfmark::perfmark;
use perfmark_rdpmc::clock::ticks;

/// Calls a sample.
const CALLS: u32 = 20_000;
/// Samples of each.
const ROUNDS: usize = 101;

#[inline(never)]
fn unmarked(n: u32) -> u32 {
    black_box(n)
}

#[inline(never)]
fn tick_pair(n: u32) -> u32 {
    let before = ticks();
    let n = black_box(n);
    black_box(ticks() - before);
    n
}

#[perfmark(time)]
#[inline(never)]
fn time(n: u32) -> u32 {
    black_box(n)
}

#[perfmark(page_faults)]
#[inline(never)]
fn page_faults(n: u32) -> u32 {
    black_box(n)
}

#[perfmark(cycles, instructions)]
#[inline(never)]
fn cycles_and_instructions(n: u32) -> u32 {
    black_box(n)
}

type Contender = (&'static str, fn(u32) -> u32);

/// Ticks that `CALLS` calls take.
fn sample(function: fn(u32) -> u32) -> f64 {
    let before = ticks();
    for n in 0..CALLS {
        black_box(function(n));
    }
    (ticks() - before) as f64
}

fn main() {
    let contenders: [Contender; 5] = [
        ("an unmarked call", unmarked),
        ("a bare pair of tick reads", tick_pair),
        ("#[perfmark(time)]", time),
        ("#[perfmark(page_faults)], by read(2)", page_faults),
        ("#[perfmark(cycles, instructions)]", cycles_and_instructions),
    ];
    let mut samples = vec![Vec::new(); contenders.len()];
    for _ in 0..ROUNDS {
        for ((_, function), samples) in contenders.iter().zip(&mut samples) {
            samples.push(sample(*function));
        }
    }
    let pair = samples[1].clone();
    println!("ratio to a bare pair of tick reads, a call: median of {ROUNDS} rounds (quartiles)");
    for ((name, _), samples) in contenders.iter().zip(&samples) {
        let mut ratios: Vec<f64> = samples.iter().zip(&pair).map(|(sample, pair)| sample / pair).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |quarter: usize| ratios[(ROUNDS - 1) * quarter / 4];
        println!("{name:<40} {:6.2}  ({:.2} to {:.2})", at(2), at(1), at(3));
    }
}
