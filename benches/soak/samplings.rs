//! Sampling, which starts and stops while threads make calls.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use perfmark::{Sampling, SamplingGuard, Snapshot, Stacks};

use crate::failures::Failures;

/// The frequencies of the samplings, which are started in turn. `None` stops the last one.
const FREQUENCIES: [Option<u64>; 3] = [Some(99), Some(997), None];

/// The names of threads that read samples begin like this. The kernel keeps 15 bytes of a name.
const READER: &str = "perfmark-sample";

/// The sampling in progress.
pub(crate) struct Samplings {
    current: Mutex<Option<SamplingGuard>>,
    is_possible: bool,
}

impl Samplings {
    /// Prints the reason if this system does not let the program be sampled.
    pub(crate) fn new() -> Self {
        let first = Sampling::new().start();
        if let Err(why) = &first {
            println!("not sampled: {why}");
        }
        Self { is_possible: first.is_ok(), current: Mutex::default() }
    }

    fn set(&self, sampling: impl FnOnce() -> Option<SamplingGuard>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // Ends before the next one starts, because there can be only one.
        *current = None;
        *current = sampling();
    }

    /// Ends the sampling in progress, and starts the next one. Returns whether it started one.
    pub(crate) fn switch(&self, turn: u64, failures: &Failures) -> bool {
        let next = usize::try_from(turn % FREQUENCIES.len() as u64).unwrap_or(0);
        let Some(frequency) = FREQUENCIES[next].filter(|_| self.is_possible) else {
            self.set(|| None);
            return false;
        };
        self.set(|| {
            // Without callers: the tables of stacks with callers grow for many minutes, up to their limit.
            let started = Sampling::new().frequency(frequency).stacks(Stacks::Off).start();
            failures.unless(started.is_ok(), || format!("sampling at {frequency} Hz: {started:?}"));
            started.ok()
        });
        true
    }

    /// Ends the sampling in progress, and waits until no thread reads samples. Such a thread keeps rings of ended
    /// threads open for a moment.
    pub(crate) fn stop(&self, timeout: Duration, failures: &Failures) {
        self.set(|| None);
        let latest = Instant::now() + timeout;
        while readers() > 0 && Instant::now() < latest {
            thread::sleep(Duration::from_millis(1));
        }
        let left = readers();
        failures.unless(left == 0, || format!("{left} threads still read samples"));
    }

    /// Checks that there were samples in the whole run.
    pub(crate) fn check_taken(&self, taken: u64, failures: &Failures) {
        failures.unless(taken > 0 || !self.is_possible, || "no sample was taken".into());
    }
}

/// Checks that each thread that made calls was sampled. Returns the number of samples since the last reset.
pub(crate) fn check(now: &Snapshot, failures: &Failures) -> u64 {
    let (taken, without) =
        now.samples.iter().fold((0, 0), |sum, one| (sum.0 + one.taken(), sum.1 + one.threads_without));
    failures.unless(without == 0, || format!("{without} threads were not sampled"));
    taken
}

fn readers() -> usize {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let names = threads.map(|thread| fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
    names.filter(|name| name.starts_with(READER)).count()
}
