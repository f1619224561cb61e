//! What the probe costs: measured once for each set of events, on an empty marked function beside an unmarked one.
//!
//! A call's own value loses what an empty call sees of itself. The marked calls around it lose what their counters see
//! of the whole probe. A call with marked calls inside, a caller, takes a somewhat longer way at its end, and so has
//! costs of its own.

use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use perfmark_rdpmc::{CounterSet, Delta, Reading, clock};

use super::counters::{EventSlot, EventSlots};
use super::overhead::{MeasuredOverhead, OverheadKey};
use crate::mark::Mark;
use crate::opening;
use crate::per_process::PerProcess;

/// Functions to be called, all made in the same manner: some do nothing, marked as the attribute's expansion does it,
/// others are the same without a mark.
pub(crate) struct CalibrationCalls {
    pub(crate) unmarked: fn(),
    /// Of the mark `empty`.
    pub(crate) marked: fn(),
    /// Of the mark `skipped`, whose calls are.
    pub(crate) skipped: fn(),
    /// Of the mark `drawn`, of which one call in some is measured.
    pub(crate) drawn: fn(),
    pub(crate) unmarked_caller: fn(),
    /// Of the mark `caller`; it calls the marked one.
    pub(crate) marked_caller: fn(),
    /// Of the mark `caller`, too; it calls the unmarked one.
    pub(crate) marked_caller_of_unmarked: fn(),
    /// Calls that are suspended once, where they can be.
    pub(crate) unmarked_suspended: fn(),
    pub(crate) marked_suspended: fn(),
    /// Of the mark `empty`, and not made of polls: a call that comes to its end, and one that is left by `return`.
    pub(crate) completed: fn(),
    pub(crate) returned_early: fn(),
    pub(crate) empty_mark: &'static Mark,
    pub(crate) caller_mark: &'static Mark,
    pub(crate) skipped_mark: &'static Mark,
    pub(crate) drawn_mark: &'static Mark,
}

impl std::fmt::Debug for CalibrationCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CalibrationCalls").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Cache(Mutex<Vec<(OverheadKey, MeasuredOverhead)>>);

static CACHE: PerProcess<Cache> = PerProcess::new();

/// How the calibration gets at the thread that it runs on.
pub(super) trait CalibrationThread {
    /// Lets `calls` make calls of marks, as the program does. They must not allocate: the program's allocator may be
    /// marked, too.
    fn run_calls(&self, calls: &dyn Fn());

    /// How many calls of the mark event `n` of the set counted, and what it saw in them all.
    fn count_and_sum(&self, mark: &Mark, n: usize) -> (u64, u64);
}

/// Makes what the process needs once.
pub(super) fn prepare() {
    // Where it cannot be had, costs are measured by each thread.
    _ = CACHE.get();
    // It reads the machine's files, which nobody needs to who opens no counter.
    if opening::why_not().is_none() {
        _ = CounterSet::is_supported();
    }
}

fn lock(known: &'static Cache) -> MutexGuard<'static, Vec<(OverheadKey, MeasuredOverhead)>> {
    known.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The costs for `key`, if they are known in this process.
pub(super) fn cached(key: &OverheadKey) -> Option<MeasuredOverhead> {
    lock(CACHE.get().ok()?).iter().find(|(other, _)| other == key).map(|(_, cost)| cost.clone())
}

/// Measures the costs for `key`, and keeps them. None if calls were not counted, as other events held the counters.
pub(super) fn measure(
    key: &OverheadKey,
    slots: &EventSlots,
    kinds: &CalibrationCalls,
    thread: &dyn CalibrationThread,
) -> Option<MeasuredOverhead> {
    let cost = measure_all(key, slots, kinds, thread)?;
    if let Ok(known) = CACHE.get() {
        lock(known).push((key.clone(), cost.clone()));
    }
    Some(cost)
}

/// Calls that are looked at one by one. In an interpreter their cost does not matter.
const SAMPLES: usize = if cfg!(miri) { 3 } else { 31 };
/// Loops of calls, and of how many.
const LOOPS: usize = if cfg!(miri) { 1 } else { 7 };
pub(super) const CALLS: u32 = if cfg!(miri) { 2 } else { 32 };

fn measure_all(
    key: &OverheadKey,
    slots: &EventSlots,
    kinds: &CalibrationCalls,
    thread: &dyn CalibrationThread,
) -> Option<MeasuredOverhead> {
    // The first ones are in cold caches, and grow histograms.
    thread.run_calls(&|| run(kinds.marked_caller));
    let events = key.set.len();
    let seen = samples(events, thread, kinds.empty, kinds.marked);
    // As it is where calls follow one another: by itself a call is dearer, and functions of a few nanoseconds would
    // lose what is their own.
    let own = means(events, thread, kinds.empty, kinds.marked)?;
    let most = seen.iter().map(|samples| samples.get(samples.len() * 9 / 10).copied().unwrap_or(0));
    let noise = most.zip(&own).map(|(most, own)| most.saturating_sub(*own)).collect();
    let loops = [
        kinds.unmarked,
        kinds.marked,
        kinds.unmarked_caller,
        kinds.marked_caller,
        kinds.skip,
        kinds.draw,
        kinds.unmarked_twice,
        kinds.marked_twice,
        kinds.ended,
        kinds.returned,
    ];
    let [bare, whole, bare_caller, caller, skip, draw, bare_twice, twice, ended, returned] =
        in_loops(slots, thread, loops)?;
    let more = |with: &[u64], without: &[u64]| -> Vec<u64> {
        let a_call =
            |(with, without): (&u64, &u64)| (with.saturating_sub(*without) + u64::from(CALLS / 2)) / u64::from(CALLS);
        with.iter().zip(without).map(a_call).collect()
    };
    // In the loop of which one call is drawn, the others are skipped.
    let drawn = draw.iter().zip(&bare).map(|(draw, bare)| draw.saturating_sub(*bare));
    let (whole, caller, skip) = (more(&whole, &bare), more(&caller, &bare_caller), more(&skip, &bare));
    let suspend =
        more(&twice, &bare_twice).iter().zip(&whole).map(|(twice, whole)| twice.saturating_sub(2 * whole)).collect();
    let draw = drawn
        .zip(skip.iter().zip(&whole))
        .map(|(drawn, (skip, whole))| drawn.saturating_sub(u64::from(CALLS - 1) * skip + whole))
        .collect();
    let early = more(&returned, &ended);
    let own_early = key.set.iter().map(|&at| early[at]).collect();
    let extra = caller.iter().zip(&whole).map(|(caller, leaf)| caller.saturating_sub(*leaf)).collect();
    let callers = means(events, thread, kinds.caller, kinds.marked_caller)?;
    let around = means(events, thread, kinds.caller, kinds.around_unmarked)?;
    // A caller sees the call inside it, too: what it does, and its probe.
    let inside =
        around.iter().zip(&own).zip(&key.set).map(|((around, own), &at)| around.saturating_sub(*own) + whole[at]);
    let own_caller = callers.iter().zip(inside).map(|(callers, inside)| callers.saturating_sub(inside)).collect();
    Some(MeasuredOverhead { own, noise, own_caller, whole, extra, skip, draw, suspend, early, own_early })
}

/// What each event of the set counted in some calls of `call`, which is so marked; sorted.
fn samples(events: usize, thread: &dyn CalibrationThread, mark: &Mark, call: fn()) -> Vec<Vec<u64>> {
    let mut seen = vec![Vec::with_capacity(SAMPLES); events];
    for _ in 0..SAMPLES {
        let before: Vec<_> = (0..events).map(|n| thread.count_and_sum(mark, n)).collect();
        thread.run_calls(&|| black_box(call)());
        for (n, (seen, before)) in seen.iter_mut().zip(before).enumerate() {
            let after = thread.count_and_sum(mark, n);
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

/// What each event of the set counts in a call of `call`, which is so marked, on average: the least of a few loops, as
/// in [`in_loops`]. None if it was never counted in a whole loop.
fn means(events: usize, thread: &dyn CalibrationThread, mark: &Mark, call: fn()) -> Option<Vec<u64>> {
    let mut least = vec![None::<u64>; events];
    for _ in 0..LOOPS {
        let before: Vec<_> = (0..events).map(|n| thread.count_and_sum(mark, n)).collect();
        thread.run_calls(&|| run(call));
        for (n, (least, before)) in least.iter_mut().zip(before).enumerate() {
            let after = thread.count_and_sum(mark, n);
            if after.0 - before.0 == u64::from(CALLS) {
                let mean = (after.1.wrapping_sub(before.1) + u64::from(CALLS / 2)) / u64::from(CALLS);
                *least = Some(least.map_or(mean, |least| least.min(mean)));
            }
        }
    }
    least.into_iter().collect()
}

/// What the slots count in loops of some kinds of calls, which take turns: the least of a few each, as whatever
/// disturbs a loop makes it dearer, and a cost that is too high takes away what calls did themselves. None if a kind
/// was never counted in some event.
fn in_loops<const N: usize>(
    slots: &EventSlots,
    thread: &dyn CalibrationThread,
    kinds: [fn(); N],
) -> Option<[Vec<u64>; N]> {
    let mut least = [const { Vec::new() }; N];
    for least in &mut least {
        least.resize(slots.len(), None::<u64>);
    }
    for _ in 0..LOOPS {
        for (kind, least) in kinds.iter().zip(&mut least) {
            let begun: Vec<_> = slots.iter().map(|slot| SlotReading::of(slot)).collect();
            thread.run_calls(&|| run(*kind));
            // The other way round, so that the same stands between the two readings of each.
            for ((slot, begun), least) in slots.iter().zip(begun).zip(least).rev() {
                let counted = begun.and_then(|begun| begun.elapsed(slot));
                *least = (*least).into_iter().chain(counted).min();
            }
        }
    }
    let known = least.map(|least| least.into_iter().collect::<Option<Vec<u64>>>());
    if known.iter().any(Option::is_none) { None } else { Some(known.map(Option::unwrap_or_default)) }
}

/// What a slot's event says at one moment.
#[derive(Clone, Copy)]
pub(super) enum SlotReading {
    Ticks(u64),
    Counter(Reading),
}

impl SlotReading {
    pub(super) fn of(slot: &EventSlot) -> Option<Self> {
        match slot.counter() {
            Some(counter) => counter.read().ok().map(Self::Counter),
            None => Some(Self::Ticks(clock::ticks())),
        }
    }

    /// What was counted since. None if it was not counted all the while.
    pub(super) fn elapsed(self, slot: &EventSlot) -> Option<u64> {
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
