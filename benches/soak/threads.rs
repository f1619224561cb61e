//! Those who make calls, those who look at them, and the gate before which all of them stand still at times.

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

use crate::marks::{Batch, Counts, counts, made};
use crate::wrong::Wrong;

/// Whoever works goes through it; while it is shut nobody is in the middle of anything.
#[derive(Default)]
pub(crate) struct Gate {
    is_over: RwLock<bool>,
}

impl Gate {
    /// Works again and again, until all is over.
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

    /// Shut as long as what this gives lives; true in it ends all.
    pub(crate) fn shut(&self) -> RwLockWriteGuard<'_, bool> {
        self.is_over.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was done so far beside calls.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) threads: AtomicU64,
    pub(crate) toggles: AtomicU64,
    pub(crate) snapshots: AtomicU64,
    pub(crate) scrapes: AtomicU64,
}

fn one_more(of: &AtomicU64) -> u64 {
    of.fetch_add(1, Relaxed)
}

/// A thread that stays.
pub(crate) fn stay(gate: &Gate) {
    gate.while_open(|| Batch { sixty_fours: 64, each: 1_000, rare: 16 }.run());
}

/// Threads that come and go: with few calls, and with more.
pub(crate) fn come_and_go(gate: &Gate, done: &Done) {
    gate.while_open(|| {
        let batches = [(1, 1, 1), (4, 100, 8)].map(|(sixty_fours, each, rare)| Batch { sixty_fours, each, rare });
        let short = batches.map(|batch| thread::spawn(move || batch.run()));
        for thread in short {
            thread.join().expect("no panic");
            one_more(&done.threads);
        }
    });
}

/// In force by turns. A mark's kinds of settings take a place each, and so are few.
const FILTERS: [&str; 12] = [
    "",
    "*::told=every:7",
    "*::switched=off",
    "*::told=page-faults",
    "*::told=cycles+instructions,*::switched=every:3",
    "",
    "*::switched=off,*::told=time+page-faults+every:5",
    "*::told=task-clock+instructions",
    "*::switched=time+page-faults",
    "*::switched=off,*::counted=page-faults",
    "*::counted=every:16,*::polled=time,*::recursive=every:2",
    "*::inner=every:3,*::outer=page-faults",
];

/// Sets filters and looks at figures, as fast as the machine lets it do a thousand times a second.
pub(crate) fn tend(gate: &Gate, done: &Done, wrong: &Wrong) {
    let filters = FILTERS.map(|filter| filter.parse::<Filter>().expect("a filter"));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics::default()));
    let mut before = Snapshot::default();
    gate.while_open(|| {
        let turn = one_more(&done.toggles);
        let of_all = filters.len() as u64;
        set_filter(&filters[usize::try_from(turn % of_all).unwrap_or(0)]).expect("slots for settings");
        if turn.is_multiple_of(16) {
            let earlier = made();
            let now = snapshot();
            one_more(&done.snapshots);
            look(&earlier, &before, &now, wrong);
            match turn % 64 {
                0 => black_box(Report::new(&now.since(&before)).to_string()).clear(),
                16 => black_box(Report::new(&now).format(Format::Json).to_string()).clear(),
                32 => drop(black_box(threads())),
                _ => {
                    let mut text = String::new();
                    let is_told = encode(&mut text, &registry).is_ok() && text.ends_with("# EOF\n");
                    wrong.unless(is_told, || format!("a scrape is {text}"));
                    one_more(&done.scrapes);
                }
            }
            before = now;
        }
        thread::sleep(Duration::from_millis(1));
    });
}

/// What must hold of two snapshots while calls are made.
fn look(made_before: &Counts, earlier: &Snapshot, now: &Snapshot, wrong: &Wrong) {
    if now.resets != earlier.resets {
        return;
    }
    let fell = counts(earlier).iter().zip(counts(now)).any(|(earlier, now)| now < *earlier);
    wrong.unless(!fell, || format!("counts fell between two snapshots: {:?}, {:?}", counts(earlier), counts(now)));
    if now.resets == 0 {
        let lost = made_before.iter().zip(counts(now)).take(made_before.len() - 1).any(|(made, now)| now < *made);
        wrong.unless(!lost, || format!("a snapshot has {:?} of {made_before:?}", counts(now)));
    }
    let mut unequal = String::new();
    for mark in &now.since(earlier).marks {
        for values in &mark.values {
            let counted: u64 = values.buckets.iter().map(|bucket| bucket.2).sum();
            if counted != values.weight {
                _ = write!(unequal, " {} {}: {counted} of {}", mark.name, values.event, values.weight);
            }
        }
    }
    wrong.unless(unequal.is_empty(), || format!("buckets do not add up to what measured calls count as:{unequal}"));
}
