//! What a mark and a reading cost: see the benchmarks of this package.

pub mod called;
pub mod table;
pub mod clocks;
pub mod process;
pub mod record;

use perfmark_rdpmc::clock::ticks;

/// Samples of each contender.
const ROUNDS: usize = 101;

/// A name, and what is measured under it.
pub type Contender<'a> = (&'static str, Box<dyn Fn() + 'a>);

/// Runs the contenders in turn, so that a change in the machine's speed falls on each alike, and prints the medians of their ratios to
/// the one named `base`.
///
/// # Panics
///
/// Where no contender is named so.
pub fn compare(base: &str, contenders: &[Contender<'_>]) {
    let mut samples = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for _ in 0..ROUNDS {
        for ((_, work), samples) in contenders.iter().zip(&mut samples) {
            let before = ticks();
            work();
            samples.push((ticks() - before).max(1) as f64);
        }
    }
    let at = contenders.iter().position(|(name, _)| *name == base).expect("base is one of them");
    let base_samples = samples[at].clone();
    println!("ratio to {base}: median of {ROUNDS} rounds (quartiles)");
    for ((name, _), samples) in contenders.iter().zip(&samples) {
        let mut ratios: Vec<f64> = samples.iter().zip(&base_samples).map(|(sample, base)| sample / base).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |quarter: usize| ratios[(ROUNDS - 1) * quarter / 4];
        println!("{name:<40} {:6.2}  ({:.2} to {:.2})", at(2), at(1), at(3));
    }
}
