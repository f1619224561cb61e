//! Shared code of the benchmarks, which measure the cost of marks and of reading counters.

pub mod called;
pub mod table;
pub mod row;
pub mod clocks;
pub mod process;
pub mod record;

use perfmark_rdpmc::clock::ticks;

/// The number of samples of each contender.
const ROUNDS: usize = 101;

/// A name, and the code to measure.
pub type Contender<'a> = (&'static str, Box<dyn Fn() + 'a>);

/// Runs the contenders in turn, so that a change in the machine's speed affects all of them alike. Prints the medians
/// of their ratios to the contender named `base`.
///
/// # Panics
///
/// If no contender has this name.
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
        let ratios: Vec<f64> = samples.iter().zip(&base_samples).map(|(sample, base)| sample / base).collect();
        let [median, low, high] = table::spread(&ratios).unwrap_or([f64::NAN; 3]);
        println!("{name:<40} {median:6.2}  ({low:.2} to {high:.2})");
    }
}
