//! Threads that make calls, a thread that reads values, and the gate that pauses all of them.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::thread;
use std::time::Duration;

use perfmark::{Filter, Format, Metrics, Report, Snapshot, set_filter, snapshot, threads};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::failures::Failures;
use crate::marks::{Batch, Counts, counts, made};
use crate::samplings::Samplings;

/// A gate that every unit of work passes. While it is closed, no work is in progress.
#[derive(Default)]
pub(crate) struct Gate {
    is_over: RwLock<bool>,
}

impl Gate {
    /// Repeats the work until the run is over.
    fn while_open(&self, mut work: impl FnMut()) {
        loop {
            let is_over = self.is_over.read().unwrap_or_else(PoisonError::into_inner);
            if *is_over {
                return;
            }
            work();
            drop(is_over);
        }
    }

    /// Closes the gate until the guard is dropped. Setting the guard's value to true ends the run.
    pub(crate) fn close(&self) -> RwLockWriteGuard<'_, bool> {
        self.is_over.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts of what was done so far, except for calls.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) threads: AtomicU64,
    pub(crate) toggles: AtomicU64,
    pub(crate) samplings: AtomicU64,
    pub(crate) snapshots: AtomicU64,
    pub(crate) scrapes: AtomicU64,
}

fn one_more(of: &AtomicU64) -> u64 {
    of.fetch_add(1, Relaxed)
}

/// Makes calls on a thread that lives until the run is over.
pub(crate) fn run_long_thread(gate: &Gate) {
    gate.while_open(|| Batch { sixty_fours: 64, each: 1_000, rare: 16 }.run());
}

/// Starts short-lived threads, with few calls and with more.
pub(crate) fn run_short_threads(gate: &Gate, progress: &Progress) {
    gate.while_open(|| {
        let batches = [(1, 1, 1), (4, 100, 8)].map(|(sixty_fours, each, rare)| Batch { sixty_fours, each, rare });
        let short = batches.map(|batch| thread::spawn(move || batch.run()));
        for thread in short {
            thread.join().expect("no panic");
            one_more(&progress.threads);
        }
    });
}

/// The filters, which are set in turn. There are few, because each distinct setting of a mark takes a slot.
const FILTERS: [&str; 12] = [
    "",
    "*::filtered=every:7",
    "*::switched=off",
    "*::filtered=page-faults",
    "*::filtered=cycles+instructions,*::switched=every:3",
    "",
    "*::switched=off,*::filtered=time+page-faults+every:5",
    "*::filtered=task-clock+instructions",
    "*::switched=time+page-faults",
    "*::switched=off,*::counted=page-faults",
    "*::counted=every:16,*::polled=time,*::recursive=every:2",
    "*::inner=every:3,*::outer=page-faults",
];

/// The turns from one sampling to the next, which then has some samples at 99 Hz.
const SAMPLING: u64 = 50;

/// Sets filters and reads values, up to a thousand times a second. From time to time, it starts and stops sampling.
pub(crate) fn observe(gate: &Gate, progress: &Progress, samplings: &Samplings, failures: &Failures) {
    let filters = FILTERS.map(|filter| filter.parse::<Filter>().expect("a filter"));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics::default()));
    let mut before = Snapshot::default();
    gate.while_open(|| {
        let turn = one_more(&progress.toggles);
        let of_all = filters.len() as u64;
        set_filter(&filters[usize::try_from(turn % of_all).unwrap_or(0)]).expect("slots for settings");
        if turn.is_multiple_of(SAMPLING) && samplings.switch(turn / SAMPLING, failures) {
            one_more(&progress.samplings);
        }
        if turn.is_multiple_of(16) {
            let earlier = made();
            let now = snapshot();
            one_more(&progress.snapshots);
            check(&earlier, &before, &now, failures);
            match turn % 64 {
                0 => black_box(Report::new(&now.since(&before)).to_string()).clear(),
                16 => black_box(Report::new(&now).format(Format::Json).to_string()).clear(),
                32 => drop(black_box(threads())),
                _ => {
                    let mut text = String::new();
                    let is_complete = encode(&mut text, &registry).is_ok() && text.ends_with("# EOF\n");
                    failures.unless(is_complete, || format!("a scrape returned {text}"));
                    one_more(&progress.scrapes);
                }
            }
            before = now;
        }
        thread::sleep(Duration::from_millis(1));
    });
}

/// Checks two consecutive snapshots that were taken during calls.
fn check(made_before: &Counts, earlier: &Snapshot, now: &Snapshot, failures: &Failures) {
    if now.resets != earlier.resets {
        return;
    }
    let fell = counts(earlier).iter().zip(counts(now)).any(|(earlier, now)| now < *earlier);
    failures
        .unless(!fell, || format!("counts decreased between two snapshots: {:?}, {:?}", counts(earlier), counts(now)));
    if now.resets == 0 {
        let lost = made_before.iter().zip(counts(now)).take(made_before.len() - 1).any(|(made, now)| now < *made);
        failures.unless(!lost, || format!("a snapshot has {:?}, expected at least {made_before:?}", counts(now)));
    }
    let mut unequal = String::new();
    for mark in &now.since(earlier).marks {
        for values in &mark.values {
            let counted: u64 = values.buckets.iter().map(|bucket| bucket.calls).sum();
            if counted != values.weight {
                _ = write!(unequal, " {} {}: {counted} of {}", mark.name, values.event, values.weight);
            }
        }
    }
    failures.unless(unequal.is_empty(), || format!("buckets do not add up to the weight of measured calls:{unequal}"));
}
