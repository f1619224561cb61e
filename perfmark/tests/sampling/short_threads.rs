//! Threads that end before a period is over.

use std::thread;

use perfmark::{Sampling, Stacks, perfmark};

use crate::alone;
use crate::cpu_time::cpu_time;
use crate::loops::spin_seven;
use crate::pages::touch;
use crate::sampled::{sampled, until_samples};

/// Longer than a thread waits until it is sampled, in nanoseconds.
const PERIOD: u64 = 40_000_003;

/// Computes for this CPU time.
#[perfmark(time)]
#[inline(never)]
fn short(nanoseconds: u64) {
    let begin = cpu_time();
    while cpu_time() - begin < nanoseconds {
        spin_seven(1_000);
    }
}

/// The number of samples in so many threads that compute for this CPU time.
fn samples_of(threads: u64, nanoseconds: u64) -> Option<u64> {
    let work = || {
        for _ in 0..threads {
            // The thread is sampled as soon as there is a sample of a page fault.
            let thread = move || {
                until_samples(1, || touch(1));
                short(nanoseconds);
            };
            thread::spawn(thread).join().expect("no panic");
        }
    };
    let sampling = Sampling::new().event("cpu-clock").period(PERIOD).and("page_faults").period(1);
    let sampled = sampled(sampling.stacks(Stacks::Off), work)?;
    let clock = sampled.0.samples.iter().find(|samples| samples.event.contains("clock") && samples.taken() > 0);
    Some(clock.map_or(0, |samples| samples.of_mark(Some(sampled.mark("short")))))
}

#[test]
fn a_thread_that_is_shorter_than_a_period_has_samples_in_proportion_to_its_time() {
    const THREADS: u64 = 60;
    let _alone = alone();
    let Some(samples) = samples_of(THREADS, PERIOD * 2 / 5) else { return };
    let (expected, error) = (THREADS as f64 * 0.4, (THREADS as f64 * 0.4 * 0.6).sqrt());
    println!("{samples} samples, {expected} ± {error:.1} expected");
    assert!((samples as f64 - expected).abs() < 5.0 * error);
}
