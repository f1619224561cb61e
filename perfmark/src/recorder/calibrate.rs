//! What the probe costs: measured once for each set of events, on an empty marked function beside an unmarked one.
//!
//! A call's own value loses what an empty call sees of itself. The marked calls around it lose what their counters see of the whole probe. A
//! call with marked calls inside, a caller, takes a somewhat longer way at its end, and so has costs of its own.

use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use perfmark_rdpmc::{Counter, Delta, Reading, clock};

use super::sources::{Slot, Slots};
use crate::events::EventId;
use crate::mark::Mark;
use crate::per_process::PerProcess;
use crate::private;

/// The mark of the empty function.
pub(super) static EMPTY: Mark = Mark::hidden();

/// What the probe of one set of events costs on threads that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// What it sees of itself, for each event of the set.
    pub(super) own: Vec<u64>,
    /// How much more an empty call shows, at most, in nine cases of ten; for each event of the set.
    pub(super) noise: Vec<u64>,
    /// What a caller sees of its own probe, for each event of the set.
    pub(super) own_caller: Vec<u64>,
    /// What is seen of it from around, for each event that the thread has.
    pub(super) whole: Vec<u64>,
    /// How much more is seen of a caller's.
    pub(super) extra: Vec<u64>,
}

/// What costs depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The thread's events, and whether read(2) alone tells each; None for one that it has not.
    pub(super) events: Vec<Option<(EventId, bool)>>,
    /// Which of these make up the set.
    pub(super) set: Vec<usize>,
    /// Whether the thread keeps costs by event.
    pub(super) keeps_costs: bool,
}

#[derive(Debug, Default)]
struct Known(Mutex<Vec<(Key, Cost)>>);

static KNOWN: PerProcess<Known> = PerProcess::new();

/// How the calibration gets at the thread that it runs on.
pub(super) trait Calibrated {
    /// Lets `calls` make calls of marks, as the program does. They must not allocate: the program's allocator may be marked, too.
    fn as_program(&self, calls: &dyn Fn());

    /// How many calls of [`EMPTY`] event `n` of the set counted, and what it saw in them all.
    fn so_far(&self, n: usize) -> (u64, u64);
}

/// Makes what the process needs once.
pub(super) fn prepare() {
    // Where it cannot be had, costs are measured by each thread.
    _ = (KNOWN.get(), Counter::may_be_next());
}

fn lock(known: &'static Known) -> MutexGuard<'static, Vec<(Key, Cost)>> {
    known.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The costs for `key`, if they are known in this process.
pub(super) fn known(key: &Key) -> Option<Cost> {
    lock(KNOWN.get().ok()?).iter().find(|(other, _)| other == key).map(|(_, cost)| cost.clone())
}

/// Measures the costs for `key`, and keeps them. None if calls were not counted, as other events held the counters.
pub(super) fn measure(key: &Key, slots: &Slots, thread: &dyn Calibrated) -> Option<Cost> {
    let cost = cost(&key.set, slots, thread)?;
    if let Ok(known) = KNOWN.get() {
        lock(known).push((key.clone(), cost.clone()));
    }
    Some(cost)
}

impl Cost {
    /// Where it is not known.
    pub(super) fn nothing(set: usize, slots: usize) -> Self {
        let (own, whole) = (vec![0; set], vec![0; slots]);
        Self { noise: own.clone(), own_caller: own.clone(), own, extra: whole.clone(), whole }
    }
}

/// Calls that are looked at one by one.
const SAMPLES: usize = 31;
/// Loops of calls, and of how many.
const LOOPS: usize = 7;
const CALLS: u32 = 32;

fn cost(set: &[usize], slots: &Slots, thread: &dyn Calibrated) -> Option<Cost> {
    // The first ones are in cold caches, and grow histograms.
    thread.as_program(&|| run(marked));
    let middle = |samples: &Vec<u64>| samples.get(samples.len() / 2).copied();
    let seen = samples(set.len(), thread, marked);
    let own: Vec<u64> = seen.iter().map(middle).collect::<Option<_>>()?;
    let most = seen.iter().map(|samples| samples.get(samples.len() * 9 / 10).copied().unwrap_or(0));
    let noise = most.zip(&own).map(|(most, own)| most.saturating_sub(*own)).collect();
    let more = |slot: &Slot, with: fn(), without: fn()| {
        if slot.source.is_none() {
            return Some(0);
        }
        let (with, without) = counted(slot, thread, with, without)?;
        Some((with.saturating_sub(without) + u64::from(CALLS / 2)) / u64::from(CALLS))
    };
    let whole: Vec<u64> = slots.iter().map(|slot| more(slot, marked, unmarked)).collect::<Option<_>>()?;
    let callers: Vec<u64> =
        slots.iter().map(|slot| more(slot, marked_caller, unmarked_caller)).collect::<Option<_>>()?;
    let extra = callers.iter().zip(&whole).map(|(caller, leaf)| caller.saturating_sub(*leaf)).collect();
    // A sample is of the caller and of the call inside it: `own` and more.
    let both: Vec<u64> = samples(set.len(), thread, marked_caller).iter().map(middle).collect::<Option<_>>()?;
    let both = both.iter().zip(&own).zip(set);
    let own_caller = both.map(|((both, own), &at)| both.saturating_sub(own + whole[at])).collect();
    Some(Cost { own, noise, own_caller, whole, extra })
}

/// What each event of the set counted in some calls of `call`, sorted.
fn samples(events: usize, thread: &dyn Calibrated, call: fn()) -> Vec<Vec<u64>> {
    let mut seen = vec![Vec::with_capacity(SAMPLES); events];
    for _ in 0..SAMPLES {
        let before: Vec<_> = (0..events).map(|n| thread.so_far(n)).collect();
        thread.as_program(&|| black_box(call)());
        for (n, (seen, before)) in seen.iter_mut().zip(before).enumerate() {
            let after = thread.so_far(n);
            // Unless the call was not counted.
            if after.0 > before.0 {
                seen.push(after.1.wrapping_sub(before.1));
            }
        }
    }
    for seen in &mut seen {
        seen.sort_unstable();
    }
    seen
}

/// What the slot's event has in loops of two kinds of calls, which take turns: the least of a few each, as whatever disturbs a loop makes it
/// dearer, and a cost that is too high takes away what calls did themselves. None if a kind was never counted.
fn counted(slot: &Slot, thread: &dyn Calibrated, first: fn(), second: fn()) -> Option<(u64, u64)> {
    let run_once = |call: fn()| between(slot, || thread.as_program(&|| run(call)));
    let loops: Vec<_> = (0..LOOPS).map(|_| (run_once(first), run_once(second))).collect();
    let first = loops.iter().filter_map(|pair| pair.0).min()?;
    let second = loops.iter().filter_map(|pair| pair.1).min()?;
    Some((first, second))
}

/// What a slot's event counts while `work` runs. None if it was not counted all the while.
fn between(slot: &Slot, work: impl FnOnce()) -> Option<u64> {
    let begin = Moment::of(slot);
    work();
    begin?.until_now(slot)
}

/// What a slot's event says at one moment.
#[derive(Clone, Copy)]
pub(super) enum Moment {
    Ticks(u64),
    Counter(Reading),
}

impl Moment {
    pub(super) fn of(slot: &Slot) -> Option<Self> {
        match slot.counter() {
            Some(counter) => counter.read().ok().map(Self::Counter),
            None => Some(Self::Ticks(clock::ticks())),
        }
    }

    /// What was counted since. None if it was not counted all the while.
    pub(super) fn until_now(self, slot: &Slot) -> Option<u64> {
        match (self, Self::of(slot)?) {
            (Self::Ticks(begin), Self::Ticks(end)) => end.checked_sub(begin),
            (Self::Counter(begin), Self::Counter(end)) => match end.since(&begin) {
                Delta::Exact(counted) => Some(counted),
                Delta::Scaled { .. } | Delta::Unmeasured => None,
            },
            _ => None,
        }
    }
}

fn run(call: fn()) {
    let call = black_box(call);
    for _ in 0..CALLS {
        call();
    }
}

#[inline(never)]
fn marked() {
    // As the attribute's expansion does it.
    let _perfmark = private::enter(&EMPTY);
    black_box(());
}

#[inline(never)]
fn unmarked() {
    black_box(());
}

#[inline(never)]
fn marked_caller() {
    let _perfmark = private::enter(&EMPTY);
    marked();
}

#[inline(never)]
fn unmarked_caller() {
    marked();
    black_box(());
}
