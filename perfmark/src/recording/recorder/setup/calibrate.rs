//! Calibration: measures probe overhead once for each event set, on empty functions with and without a mark.
//!
//! perfmark subtracts from a call's value what an empty call shows. It subtracts from the values of marked calls around
//! what the complete probe costs. The exit of a caller executes more instructions than that of a leaf call, so both are
//! measured.
#![allow(unsafe_code, reason = "plans and recorders are found by pointers")]

use std::array;
use std::cell::RefCell;
use std::hint::black_box;
use std::ptr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use perfmark_rdpmc::CounterSet;

use super::resources::Resources;
use super::samplings::SkippedCalls;
use crate::compact::sort_by;
use crate::platform::per_process::PerProcess;
use crate::platform::sync::Arc;
use crate::recording::cells::{Graph, MarkCells};
use crate::recording::mark::{Mark, Measured};
use crate::recording::random;
use crate::recording::recorder::event_slots::{EVENT_SLOTS, EventSlots};
use crate::recording::recorder::hooks::bind::bind_plan;
use crate::recording::recorder::thread::{
    CalibrationCalls, EventSet, HeldRecorder, MeasuredOverhead, Numbers, OverheadKey, Plan, ProbeOverhead, Thinning,
    ThreadState, detach, memory::RecorderPtr, with_calibration_recorder,
};
use crate::recording::recorder::values::open_calls::visit_open;
use crate::settings::counter_access;

/// How often each function is called in a loop.
const CALLS: u32 = if cfg!(miri) { 2 } else { 32 };

static CACHE: PerProcess<Mutex<Vec<(OverheadKey, MeasuredOverhead)>>> = PerProcess::new();

/// Creates what the process needs once.
pub(crate) fn prepare() {
    // If there is no memory for it, each thread measures overhead for itself.
    _ = CACHE.get();
    // This reads the machine's files, which is needless if no counter is opened.
    if counter_access::refusal().is_none() {
        _ = CounterSet::is_supported();
    }
}

/// The overhead for `key`, if it was measured in this process.
pub(crate) fn cached(key: &OverheadKey) -> Option<MeasuredOverhead> {
    CACHE.lock().ok()?.iter().find(|(other, _)| other == key).map(|(_, overhead)| *overhead)
}

/// The number of single calls that `samples` measures. Their cost does not matter in an interpreter.
const SAMPLES: usize = if cfg!(miri) { 1 } else { 31 };
/// The number of loops; and of loops whose calls make system calls, which take a hundred times as long.
const LOOPS: usize = if cfg!(miri) { 1 } else { 7 };
const KERNEL_LOOPS: usize = if cfg!(miri) { 1 } else { 3 };

/// The mark of calls around those that measure the probe overhead.
static AROUND: Mark = Mark::hidden(7);

/// Measures the probe overhead of a set on this thread, for `key`, and keeps it. It uses a separate recorder, so that
/// the program's data is not changed. `None` if the counters were in use by other events.
pub(crate) fn measure(
    thread: &ThreadState,
    resources: &Resources,
    set: &EventSet,
    key: &OverheadKey,
) -> Option<MeasuredOverhead> {
    let program = resources.recorder;
    detach(program.stack.iter());
    // Calibration has its own call graph.
    let graph = resources.cells.graph.as_ref().map(|_| Graph::new()).transpose().ok()?;
    let (calls, is_thinned) = (set.calibration_calls, set.mode.measured == Measured::InBursts);
    let plans = [
        plan(set, calls.empty_mark, is_thinned),
        plan(set, calls.caller_mark, is_thinned),
        plan(set, calls.skipped_mark, true),
        plan(set, &AROUND, false),
    ];
    let [empty, caller, _, around] = &plans;
    let scratch = RecorderPtr::allocate().ok()?;
    scratch.set_up_stack(0);
    // SAFETY: CELLS: cells and graph live until it is freed below.
    unsafe { scratch.set_up(Arc::as_ptr(&resources.cells), graph.as_ref()) };
    scratch.tracks_overhead.set(program.tracks_overhead.get());
    scratch.generation.set(program.generation.get());
    scratch.bursts.calibrate(false);
    let thinning = Thinning::new();
    // SAFETY: both live until the recorder is freed below.
    unsafe { scratch.set_thinning(&thinning, &resources.slots) };
    scratch.has_thinned.set(program.has_thinned.get());
    scratch.random.set(random::SEED);
    let of_skipped = SkippedCalls::new(calls.skipped_mark, set).filter(|_| program.has_thinned.get());
    for plan in &plans {
        if let Some(of_skipped) = &of_skipped {
            // SAFETY: it lives until the end of this function, as `plans` do.
            unsafe { of_skipped.give_frames(plan) };
        }
        plan.set_event_cells();
        bind_plan(plan);
        // SAFETY: CELLS: calibration uses this recorder and these plans until the end of this function.
        unsafe { scratch.set_plan(plan) };
    }
    let slots = &*resources.slots;
    let loops = if key.set.iter().any(|&slot| slots[slot].is_read_by_kernel()) { KERNEL_LOOPS } else { LOOPS };
    let measured = Calibration { key, slots, loops, thread, scratch, empty, caller, around }.measure(calls);
    drop(plans);
    // SAFETY: calibration, its only user, is over.
    unsafe { scratch.free() };
    if let (Some(measured), Ok(mut cache)) = (measured, CACHE.lock()) {
        cache.push((key.clone(), measured));
    }
    measured
}

/// A plan of one of perfmark's own marks, which is used as long as the set lives.
fn plan(set: &EventSet, mark: &'static Mark, is_thinned: bool) -> Plan {
    mark.set_slot(mark.own_slot(), is_thinned);
    let mut cells = MarkCells::new(mark, set.new_cells(), 1);
    cells.is_thinned = is_thinned;
    // SAFETY: the plan is used no longer than the set.
    unsafe { Plan::new(cells, set, mark.own_slot(), ptr::null()) }
}

struct Calibration<'a> {
    key: &'a OverheadKey,
    slots: &'a EventSlots,
    loops: usize,
    thread: &'a ThreadState,
    scratch: RecorderPtr,
    empty: &'a Plan,
    caller: &'a Plan,
    around: &'a Plan,
}

impl Calibration<'_> {
    fn measure(&self, calls: &CalibrationCalls) -> Option<MeasuredOverhead> {
        let slots = self.slots;
        // The first calls run with cold caches and grow histograms.
        self.run_calls(&|| run(calls.marked_caller));
        let most = self.nine_of_ten(self.empty, calls.marked);
        // The mean over consecutive calls, not of single calls. A single call costs more, and functions of a few
        // nanoseconds would lose some of their own cost.
        let in_leaf = self.means(self.empty, calls.marked)?;
        let loops = [
            calls.unmarked,
            calls.marked,
            calls.unmarked_caller,
            calls.marked_caller,
            calls.completed,
            calls.returned_early,
            calls.unmarked_suspended[0],
            calls.marked_suspended[0],
            calls.unmarked_suspended[1],
            calls.marked_suspended[1],
        ];
        let (counted, [unmarked_time, marked_time, ..]) =
            self.in_loops(loops, &|calls: &dyn Fn()| self.run_calls(calls))?;
        let [unmarked, marked, unmarked_caller, caller, completed, returned, of_suspended @ ..] = &counted;
        let (total, caller) = (per_call(marked, unmarked), per_call(caller, unmarked_caller));
        let caller_extra = less(&caller, &total);
        let [skipped, skipped_extra, unrecorded_extra] =
            if self.key.has_thinned { self.of_thinned(calls, &total)? } else { Default::default() };
        // The last poll of a suspended call executes more than the end of a call of one poll.
        let [bare, once, bare_twice, twice] = of_suspended;
        let (once, twice) = (per_call(once, bare), per_call(twice, bare_twice));
        // Zero for times. Ticks are coarse on some processors: a call shorter than a tick would get a negative value.
        let mut early_extra = per_call(returned, completed);
        (slots.iter().zip(&mut early_extra)).filter(|(slot, _)| !slot.repeats()).for_each(|(_, extra)| *extra = 0);
        // At most what an empty call counts, so that no value is negative.
        for (&slot, &in_leaf) in self.key.set.iter().zip(&in_leaf) {
            early_extra[slot] = early_extra[slot].min(in_leaf);
        }
        let callers = self.means(self.caller, calls.marked_caller)?;
        let callers_of_unmarked = self.means(self.caller, calls.marked_caller_of_unmarked)?;
        // The value of a caller includes the inner call: its body and its probe.
        let inner = each(&less(&callers_of_unmarked, &in_leaf), &self.of_set(&total), &|body, probe| body + probe);
        let own_around = |is_between| self.least_own_around(calls.skipped, is_between);
        let between_bursts =
            if self.key.has_thinned { per_call(&own_around(true), &own_around(false)) } else { Numbers::default() };
        let probe = ProbeOverhead {
            in_leaf,
            in_caller: less(&callers, &inner),
            total,
            caller_extra,
            skipped,
            skipped_extra,
            unrecorded_extra,
            first_suspend_extra: each(&once, &total, &|once, total| once.wrapping_sub(2 * total)),
            suspend_extra: each(&less(&twice, &once), &total, &u64::wrapping_sub),
            early_extra,
            in_early: self.of_set(&early_extra),
            // A half for its end, and one for the begin of the next one.
            at_burst_edge: between_bursts.map(|between| between / 2),
        };
        let call_ns = marked_time.saturating_sub(unmarked_time).as_nanos() as f64 / f64::from(CALLS);
        Some(MeasuredOverhead { probe, noise: less(&most, &in_leaf), call_ns })
    }

    /// The overhead of a skipped call. How much more these add: a call in which calls of thinned marks were skipped; a
    /// leaf call that is not recorded. Other leaf calls add `total`.
    fn of_thinned(&self, calls: &CalibrationCalls, total: &Numbers) -> Option<[Numbers; 3]> {
        let loops =
            [calls.unmarked_skipped, calls.skipped, calls.unmarked_caller_of_skipped, calls.marked_caller_of_skipped];
        let (counted, _) = self.in_loops(loops, &|calls: &dyn Fn()| self.run_skipped(calls))?;
        let [unmarked, skipped, unmarked_caller, caller] = &counted;
        let call = per_call(skipped, unmarked);
        let skipped_extra = less(&per_call(caller, unmarked_caller), total);
        if !self.caller.is_thinned() {
            return Some([call, skipped_extra, Numbers::default()]);
        }
        let run_beside = |calls: &dyn Fn()| {
            self.scratch.bursts.calibrate_beside();
            self.run_calls(calls);
            self.scratch.bursts.calibrate(false);
        };
        let ([unmarked, beside], _) = &self.in_loops([calls.unmarked, calls.marked], &run_beside)?;
        let unrecorded_extra = each(&per_call(beside, unmarked), total, &u64::wrapping_sub);
        Some([call, skipped_extra, unrecorded_extra])
    }

    /// Runs `calls`, which call marks as a program does. They must not allocate, because the program's allocator may be
    /// marked.
    fn run_calls(&self, calls: &dyn Fn()) {
        // Calls of thinned marks are usually inside one of another mark.
        let inside = || {
            if let Some(recorder) = HeldRecorder::acquire() {
                _ = self.around.base_hooks().begin(recorder);
            }
            calls();
            if let Some(recorder) = HeldRecorder::acquire() {
                if let Some(frame) = recorder.stack.innermost() {
                    frame.end_unthinned::<EVENT_SLOTS>(true, recorder.stack.serial.get());
                    frame.move_all_to::<EVENT_SLOTS>(&frame.below());
                    recorder.stack.pop(frame);
                }
                recorder.release();
            }
        };
        let calls: &dyn Fn() = if self.caller.is_thinned() { &inside } else { calls };
        // SAFETY: RECORDER and CELLS: `measure` sets up this recorder, and frees it after the last call.
        unsafe { with_calibration_recorder(self.thread, self.scratch, calls) };
    }

    /// The same while thinned marks skip their calls.
    fn run_skipped(&self, calls: &dyn Fn()) {
        self.scratch.bursts.calibrate(true);
        self.run_calls(calls);
        self.scratch.bursts.calibrate(false);
    }

    /// What an open call counts in each event of the set, without calls inside, while it calls these. Each of them is
    /// between two bursts, or none `is_between`.
    fn own_around(&self, calls: &dyn Fn(), is_between: bool) -> Numbers {
        let own = RefCell::new(Numbers::default());
        self.run_calls(&|| {
            if let Some(recorder) = HeldRecorder::acquire() {
                if is_between {
                    recorder.bursts.calibrate_bursts();
                }
                _ = self.caller.base_hooks().begin(recorder);
            }
            calls();
            if let Some(recorder) = HeldRecorder::acquire()
                && let Some(frame) = recorder.stack.innermost()
            {
                visit_open(&recorder, &mut |_, costs| {
                    costs.for_each(|cost| own.borrow_mut()[cost.event.n] = cost.own);
                    false
                });
                recorder.change_gap(|bursts| bursts.calibrate(false));
                self.caller.base_hooks().end(frame, recorder, false);
            }
        });
        own.into_inner()
    }

    /// The numbers of the set's slots, for each event of the set.
    fn of_set(&self, of_slots: &Numbers) -> Numbers {
        let mut numbers = Numbers::default();
        numbers.iter_mut().zip(&self.key.set).for_each(|(number, &slot)| *number = of_slots[slot]);
        numbers
    }

    /// Whether event `n` of the set is time off the CPU. A probe does not block: what is counted is the work of other
    /// threads.
    fn is_off_cpu(&self, n: usize) -> bool {
        self.key.set.get(n).is_some_and(|&slot| self.slots[slot].is_off_cpu())
    }

    /// In how many calls with this plan each event of the set is counted in `calls`, and the sum of their values.
    fn counted(&self, plan: &Plan, calls: &dyn Fn()) -> [(u64, u64); EVENT_SLOTS] {
        let events = self.key.set.len();
        let (mut before, mut counted) = ([(0, 0); EVENT_SLOTS], [(0, 0); EVENT_SLOTS]);
        (0..events).for_each(|n| before[n] = plan.cells.so_far(n));
        self.run_calls(calls);
        for n in 0..events {
            let (count, sum) = plan.cells.so_far(n);
            let sum = if self.is_off_cpu(n) { 0 } else { sum.wrapping_sub(before[n].1) };
            counted[n] = (count - before[n].0, sum);
        }
        counted
    }

    /// The value, for each event of the set, that nine of ten single calls of `call`, which has this plan, do not
    /// exceed.
    fn nine_of_ten(&self, plan: &Plan, call: fn()) -> Numbers {
        let mut samples: [_; EVENT_SLOTS] = array::from_fn(|_| Vec::with_capacity(SAMPLES));
        for _ in 0..SAMPLES {
            let counted = self.counted(plan, &|| black_box(call)());
            // Leaves out a call that was not counted.
            let known = samples.iter_mut().zip(counted).filter(|(_, (count, _))| *count > 0);
            known.for_each(|(samples, (_, value))| samples.push(value));
        }
        let mut numbers = Numbers::default();
        for (number, samples) in numbers.iter_mut().zip(&mut samples) {
            sort_by(samples, Ord::cmp);
            *number = samples.get(samples.len() * 9 / 10).copied().unwrap_or(0);
        }
        numbers
    }

    /// The mean value of a call of `call`, which has this plan, for each event of the set. It is the least of several
    /// loops, as in [`in_loops`](Self::in_loops). `None` if an event was counted completely in no loop.
    fn means(&self, plan: &Plan, call: fn()) -> Option<Numbers> {
        let mut least = [u64::MAX; EVENT_SLOTS];
        for _ in 0..self.loops {
            for (least, (count, sum)) in least.iter_mut().zip(self.counted(plan, &|| run(call))) {
                if count == u64::from(CALLS) {
                    *least = (*least).min(in_one_call(sum));
                }
            }
        }
        known(least, self.key.set.len())
    }

    /// What an open call counts by itself around calls of `call`, for each event of the set. It is the least of several
    /// loops.
    fn least_own_around(&self, call: fn(), is_between: bool) -> Numbers {
        let each_own = (0..self.loops).map(|_| self.own_around(&|| run(call), is_between));
        let mut least = each_own.reduce(|least, own| each(&least, &own, &u64::min)).unwrap_or_default();
        (0..self.key.set.len()).filter(|&n| self.is_off_cpu(n)).for_each(|n| least[n] = 0);
        least
    }

    /// What each event slot counts in a loop of each function, which `run_calls` runs: the least of several loops,
    /// which take turns. Every disturbance makes a loop more expensive, and overhead that is too high would hide what
    /// calls cost. `None` if an event was counted in no loop of a function. Also returns the time that a loop of each
    /// function takes.
    #[inline(never)]
    fn in_loops<const N: usize>(
        &self,
        functions: [fn(); N],
        run_calls: &dyn Fn(&dyn Fn()),
    ) -> Option<([Numbers; N], [Duration; N])> {
        let (mut counted, mut times) = ([[u64::MAX; EVENT_SLOTS]; N], [Duration::MAX; N]);
        for _ in 0..self.loops {
            for ((call, counted), time) in functions.iter().zip(&mut counted).zip(&mut times) {
                in_loop(self.slots, &|| run_calls(&|| run(*call)), counted, time);
            }
        }
        for counted in &mut counted {
            *counted = known(*counted, self.slots.len())?;
        }
        Some((counted, times))
    }
}

/// Lowers what each event slot counts in a loop, and its time, to those of another one.
#[inline(never)]
fn in_loop(slots: &EventSlots, run_loop: &dyn Fn(), least: &mut Numbers, time: &mut Duration) {
    let begun = Instant::now();
    run_loop();
    *time = (*time).min(begun.elapsed());
    let mut before = [None; EVENT_SLOTS];
    before.iter_mut().zip(slots.iter()).for_each(|(before, slot)| *before = slot.reading());
    run_loop();
    // In reverse order, so that the same instructions are between the two readings of each slot.
    for ((slot, before), least) in slots.iter().zip(before).zip(least).rev() {
        let now = slot.reading();
        if let Some(counted) = before.zip(now).and_then(|(before, now)| now.exactly_since(before)) {
            // A probe does not block.
            *least = (*least).min(if slot.is_off_cpu() { 0 } else { counted });
        }
    }
}

/// The first numbers, if all of them are known.
#[inline(never)]
fn known(mut numbers: Numbers, count: usize) -> Option<Numbers> {
    let (known, others) = numbers.split_at_mut(count);
    others.fill(0);
    (!known.contains(&u64::MAX)).then_some(numbers)
}

#[inline(never)]
fn each(first: &Numbers, second: &Numbers, function: &dyn Fn(u64, u64) -> u64) -> Numbers {
    array::from_fn(|n| function(first[n], second[n]))
}

fn less(numbers: &Numbers, others: &Numbers) -> Numbers {
    each(numbers, others, &u64::saturating_sub)
}

/// What one call more counts, if loops count this.
fn per_call(with: &Numbers, without: &Numbers) -> Numbers {
    each(with, without, &|with, without| in_one_call(with.saturating_sub(without)))
}

fn in_one_call(in_loop: u64) -> u64 {
    (in_loop + u64::from(CALLS / 2)) / u64::from(CALLS)
}

fn run(call: fn()) {
    let call = black_box(call);
    for _ in 0..CALLS {
        call();
    }
}
