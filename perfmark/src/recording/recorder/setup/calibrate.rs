//! Calibration: measures probe overhead once for each event set, on empty functions with and without a mark.
//!
//! perfmark subtracts from a call's value what an empty call shows. It subtracts from the values of marked calls around
//! what the complete probe costs. The exit of a caller executes more instructions than that of a leaf call, so both are
//! measured.

use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use perfmark_rdpmc::CounterSet;

use crate::platform::per_process::PerProcess;
use crate::recording::mark::Mark;
use crate::recording::recorder::event_slots::EventSlots;
use crate::recording::recorder::thread::overhead::{CalibrationCalls, MeasuredOverhead, OverheadKey};
use crate::settings::counter_access;

/// How often each function is called in a loop.
const CALLS: u32 = if cfg!(miri) { 2 } else { 32 };

#[derive(Debug, Default)]
struct Cache(Mutex<Vec<(OverheadKey, MeasuredOverhead)>>);

static CACHE: PerProcess<Cache> = PerProcess::new();

/// The thread that calibration runs on.
pub(crate) trait CalibrationThread {
    /// Runs `calls`, which call marks as a program does. They must not allocate, because the program's allocator may be
    /// marked.
    fn run_calls(&self, calls: &dyn Fn());

    /// The same while thinned marks skip their calls.
    fn run_skipped(&self, calls: &dyn Fn());

    /// What an open call counts in each event of the set, without calls inside, while it calls these. Each of them is
    /// between two bursts, or none `is_between`.
    fn own_around(&self, calls: &dyn Fn(), is_between: bool) -> Vec<u64>;

    /// The number of the mark's calls in which event `n` of the set was counted, and the sum of their values.
    fn count_and_sum(&self, mark: &Mark, n: usize) -> (u64, u64);
}

/// Creates what the process needs once.
pub(crate) fn prepare() {
    // If there is no memory for it, each thread measures overhead for itself.
    _ = CACHE.get();
    // This reads the machine's files, which is needless if no counter is opened.
    if counter_access::refusal().is_none() {
        _ = CounterSet::is_supported();
    }
}

fn lock(cache: &'static Cache) -> MutexGuard<'static, Vec<(OverheadKey, MeasuredOverhead)>> {
    cache.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The overhead for `key`, if it was measured in this process.
pub(crate) fn cached(key: &OverheadKey) -> Option<MeasuredOverhead> {
    lock(CACHE.get().ok()?).iter().find(|(other, _)| other == key).map(|(_, overhead)| overhead.clone())
}

/// Measures the overhead for `key` and keeps it. `None` if the counters were in use by other events.
pub(crate) fn measure(
    key: &OverheadKey,
    slots: &EventSlots,
    calls: &CalibrationCalls,
    thread: &dyn CalibrationThread,
) -> Option<MeasuredOverhead> {
    let mut overhead = measure_all(key, slots, calls, thread)?;
    // A probe does not block. What the loops show is the work of other threads.
    overhead.clear(&key.set, |slot| slots[slot].is_off_cpu());
    if let Ok(cache) = CACHE.get() {
        lock(cache).push((key.clone(), overhead.clone()));
    }
    Some(overhead)
}

/// The number of single calls that `samples` measures. Their cost does not matter in an interpreter.
const SAMPLES: usize = if cfg!(miri) { 1 } else { 31 };
/// The number of loops, and of calls in each.
const LOOPS: usize = if cfg!(miri) { 1 } else { 7 };

fn measure_all(
    key: &OverheadKey,
    slots: &EventSlots,
    calls: &CalibrationCalls,
    thread: &dyn CalibrationThread,
) -> Option<MeasuredOverhead> {
    // The first calls run with cold caches and grow histograms.
    thread.run_calls(&|| run(calls.marked_caller));
    let events = key.set.len();
    let samples = samples(events, thread, calls.empty_mark, calls.marked);
    // The mean over consecutive calls, not of single calls. A single call costs more, and functions of a few
    // nanoseconds would lose some of their own cost.
    let in_leaf = means(events, thread, calls.empty_mark, calls.marked)?;
    let most = samples.iter().map(|samples| samples.get(samples.len() * 9 / 10).copied().unwrap_or(0));
    let noise = most.zip(&in_leaf).map(|(most, in_leaf)| most.saturating_sub(*in_leaf)).collect();
    let loops = [
        calls.unmarked,
        calls.marked,
        calls.unmarked_caller,
        calls.marked_caller,
        calls.unmarked_suspended,
        calls.marked_suspended,
        calls.completed,
        calls.returned_early,
    ];
    let (counted, times) = in_loops(slots, loops, &|call| thread.run_calls(&|| run(call)))?;
    let [unmarked, marked, unmarked_caller, caller, bare_suspended, suspended, completed, returned] = &counted;
    let run_skipped = |call| thread.run_skipped(&|| run(call));
    let beside_skipped = [calls.unmarked, calls.skipped, calls.marked_caller_of_skipped];
    let ([unmarked_beside, skipped, caller_of_skipped], _) = &in_loops(slots, beside_skipped, &run_skipped)?;
    // The caller's probe, and the rest of the function.
    let (of_caller, rest) = (difference(caller_of_skipped, skipped), difference(unmarked_caller, marked));
    let (total, caller) = (difference(marked, unmarked), difference(caller, unmarked_caller));
    let skipped = difference(skipped, unmarked_beside);
    let without = rest.iter().zip(&total).map(|(rest, total)| rest + total);
    let skipped_extra = of_caller.iter().zip(without).map(|(with, without)| with.saturating_sub(without)).collect();
    let least = |is_between| {
        let each = (0..LOOPS).map(|_| thread.own_around(&|| run(calls.skipped), is_between));
        each.reduce(|least, own| least.iter().zip(own).map(|(least, own)| own.min(*least)).collect())
            .unwrap_or_default()
    };
    let between_bursts = if key.has_thinned() { difference(&least(true), &least(false)) } else { Vec::new() };
    let suspend_extra = difference(suspended, bare_suspended)
        .iter()
        .zip(&total)
        .map(|(suspended, total)| suspended.saturating_sub(2 * total))
        .collect();
    // Zero for times. Ticks are coarse on some processors: a call shorter than a tick would get a negative value.
    let mut early_extra: Vec<u64> = (slots.iter().zip(difference(returned, completed)))
        .map(|(slot, extra)| if slot.repeats() { extra } else { 0 })
        .collect();
    // At most what an empty call counts, so that no value is negative.
    for (&slot, &in_leaf) in key.set.iter().zip(&in_leaf) {
        early_extra[slot] = early_extra[slot].min(in_leaf);
    }
    let in_early = key.set.iter().map(|&slot| early_extra[slot]).collect();
    let caller_extra = caller.iter().zip(&total).map(|(caller, leaf)| caller.saturating_sub(*leaf)).collect();
    let callers = means(events, thread, calls.caller_mark, calls.marked_caller)?;
    let callers_of_unmarked = means(events, thread, calls.caller_mark, calls.marked_caller_of_unmarked)?;
    // The value of a caller includes the inner call: its body and its probe.
    let inner = callers_of_unmarked
        .iter()
        .zip(&in_leaf)
        .zip(&key.set)
        .map(|((caller, in_leaf), &slot)| caller.saturating_sub(*in_leaf) + total[slot]);
    let in_caller = callers.iter().zip(inner).map(|(caller, inner)| caller.saturating_sub(inner)).collect();
    let [unmarked_time, marked_time, ..] = times;
    Some(MeasuredOverhead {
        call_ns: marked_time.saturating_sub(unmarked_time).as_nanos() as f64 / f64::from(CALLS),
        in_leaf,
        noise,
        in_caller,
        total,
        caller_extra,
        skipped,
        skipped_extra,
        between_bursts,
        suspend_extra,
        early_extra,
        in_early,
    })
}

/// What one call more counts, for each event slot, if loops count this.
#[inline(never)]
fn difference(with: &[u64], without: &[u64]) -> Vec<u64> {
    let per_call =
        |(with, without): (&u64, &u64)| (with.saturating_sub(*without) + u64::from(CALLS / 2)) / u64::from(CALLS);
    with.iter().zip(without).map(per_call).collect()
}

/// The values of single calls of `call`, which has this mark, for each event of the set; sorted.
fn samples(events: usize, thread: &dyn CalibrationThread, mark: &Mark, call: fn()) -> Vec<Vec<u64>> {
    let mut samples = vec![Vec::with_capacity(SAMPLES); events];
    for _ in 0..SAMPLES {
        let before: Vec<_> = (0..events).map(|n| thread.count_and_sum(mark, n)).collect();
        thread.run_calls(&|| black_box(call)());
        for (n, (samples, before)) in samples.iter_mut().zip(before).enumerate() {
            let after = thread.count_and_sum(mark, n);
            // Leaves out a call that was not counted.
            if after.0 > before.0 {
                samples.push(after.1.wrapping_sub(before.1));
            }
        }
    }
    for samples in &mut samples {
        samples.sort_unstable();
    }
    samples
}

/// The mean value of a call of `call`, which has this mark, for each event of the set. It is the least of several
/// loops, as in [`in_loops`]. `None` if an event was counted completely in no loop.
#[inline(never)]
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

/// What each event slot counts in a loop of each function, which `run` runs: the least of several loops, which take
/// turns. Every disturbance makes a loop more expensive, and overhead that is too high would hide what calls cost.
/// `None` if an event was counted in no loop of a function. Also returns the time that a loop of each function takes.
fn in_loops<const N: usize>(
    slots: &EventSlots,
    loops: [fn(); N],
    run: &dyn Fn(fn()),
) -> Option<([Vec<u64>; N], [Duration; N])> {
    let (counted, times) = in_all_loops(slots, &loops, run)?;
    counted.try_into().ok().zip(times.try_into().ok())
}

/// The same; it is compiled once.
fn in_all_loops(slots: &EventSlots, loops: &[fn()], run: &dyn Fn(fn())) -> Option<(Vec<Vec<u64>>, Vec<Duration>)> {
    let mut least = vec![vec![None::<u64>; slots.len()]; loops.len()];
    let mut times = vec![Duration::MAX; loops.len()];
    for _ in 0..LOOPS {
        for ((call, least), time) in loops.iter().zip(&mut least).zip(&mut times) {
            let begun = Instant::now();
            run(*call);
            *time = (*time).min(begun.elapsed());
            let before: Vec<_> = slots.iter().map(|slot| slot.reading()).collect();
            run(*call);
            // In reverse order, so that the same instructions are between the two readings of each slot.
            for ((slot, before), least) in slots.iter().zip(before).zip(least).rev() {
                let now = slot.reading();
                let counted = before.zip(now).and_then(|(before, now)| now.exactly_since(before));
                *least = (*least).into_iter().chain(counted).min();
            }
        }
    }
    let known: Option<Vec<_>> = least.into_iter().map(|least| least.into_iter().collect()).collect();
    Some((known?, times))
}

fn run(call: fn()) {
    let call = black_box(call);
    for _ in 0..CALLS {
        call();
    }
}
