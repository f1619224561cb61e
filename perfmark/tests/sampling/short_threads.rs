//! Threads that end before a period is over.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use perfmark::{Sampling, Stacks, perfmark};

use crate::cpu_time::cpu_time;
use crate::loops::spin_seven;
use crate::memory::faults;
use crate::passed_alone;
use crate::sampled::sampled;

/// In nanoseconds.
const PERIOD: u64 = 20_000_003;

/// Computes for this CPU time.
#[perfmark(time)]
#[inline(never)]
fn short(nanoseconds: u64) {
    let begin = cpu_time();
    while cpu_time() - begin < nanoseconds {
        spin_seven(1_000);
    }
}

#[perfmark(time)]
#[inline(never)]
fn fault_in_thread() {
    faults(1);
}

fn samples_in(mark: &str) -> u64 {
    let snapshot = perfmark::snapshot();
    let mark = snapshot.marks.iter().position(|one| one.name == mark).expect("a mark");
    snapshot.samples.iter().map(|samples| samples.of_mark(Some(mark))).sum()
}

/// Starts a thread that computes for this CPU time after it is sampled, and nearly none before.
fn sampled_thread(nanoseconds: u64) {
    let (turns, is_sampled) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                turns.wait();
                if is_sampled.load(Relaxed) {
                    break;
                }
                fault_in_thread();
                turns.wait();
            }
            short(nanoseconds);
        });
        let before = samples_in("fault_in_thread");
        while samples_in("fault_in_thread") == before {
            turns.wait();
            turns.wait();
        }
        is_sampled.store(true, Relaxed);
        turns.wait();
    });
}

#[test]
fn a_thread_that_is_shorter_than_a_period_has_samples_in_proportion_to_its_time() {
    const THREADS: u64 = 80;
    if passed_alone() {
        return;
    }
    let sampling = Sampling::new().event("cpu-clock").period(PERIOD).and("page_faults").period(1);
    let work = || (0..THREADS).for_each(|_| sampled_thread(PERIOD * 2 / 5));
    let Some(sampled) = sampled(sampling.stacks(Stacks::Off), work) else { return };
    let clock = sampled.0.samples.iter().find(|samples| samples.event.contains("clock") && samples.taken() > 0);
    let found = clock.map_or(0, |samples| samples.of_mark(Some(sampled.mark("short"))));
    let (expected, error) = (THREADS as f64 * 0.4, (THREADS as f64 * 0.4 * 0.6).sqrt());
    let lost: u64 = sampled.0.samples.iter().map(|samples| samples.lost).sum();
    println!("{found} samples, {expected} ± {error:.1} expected; {lost} lost");
    // Those that remain are no fair selection.
    assert!(lost > 0 || (found as f64 - expected).abs() < 5.0 * error);
}
