//! A thread's first call of a mark: what is set up then, and at the thread's end taken down.
#![allow(unsafe_code, reason = "makes what calls find by pointers")]

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::{Region, clock};

use super::calibrate::{self, CalibrationCalls, CalibrationThread, SlotReading};
use super::call_token::SERIAL;
use super::cold_stack::on_cold_stack;
use super::counters::{EventSlot, EventSlots};
use super::draws::Draws;
use super::memory::{self, PlanPtr, plan_entry};
use super::overhead::{InnerCalls, MeasuredOverhead, OverheadKey};
use super::plan::{EventSet, Plan};
use super::resources::Resources;
use super::state::{
    Activity, ActivityGuard, HeldRecorder, Recorder, ThreadState, with_calibration_recorder, with_thread,
};
use super::{bind, reuse, slow, thread_end};
use crate::cells::{EventCells, MarkCells, Owner};
use crate::config::{config, manner};
use crate::errno::KeepErrno;
use crate::events::events;
use crate::graph::Graph;
use crate::mark::{Mark, is_off};
use crate::registry::{Setup, forget_parents_calls, registry};
use crate::settings::{self, Variant, every, wanted};
use crate::signals::HeldBack;
use crate::start;
use crate::switched::{CALLS, Switched};
use crate::sync::Arc;

/// A thread's first call of a mark: sets up what is missing. `None` where the call does nothing, and where nothing can
/// be recorded: then it is counted.
#[cold]
#[inline(never)]
pub(super) fn first_call<'a>(
    thread: &ThreadState,
    mark: &'static Mark,
    calibration_calls: &'static CalibrationCalls,
) -> Option<(&'a Plan, HeldRecorder)> {
    let _errno = KeepErrno::new();
    let plan = {
        // A mark that a handler calls meanwhile would be taken for one in an allocator.
        let _signals = HeldBack::new();
        let _restore = ActivityGuard::set(thread, Activity::OwnWork);
        // When recording has ended no system call is made any more.
        if start::is_off() {
            mark.switch_off();
            return None;
        }
        on_cold_stack(|| prepare_call(thread, mark, calibration_calls))?
    };
    // SAFETY: a plan of this thread's (CELLS).
    Some((unsafe { &*plan }, thread.acquire()?))
}

/// Sets up what is missing for the mark's calls. `None` where they do nothing, and where nothing can be recorded: then
/// the call is counted.
fn prepare_call(
    thread: &ThreadState,
    mark: &'static Mark,
    calibration_calls: &'static CalibrationCalls,
) -> Option<*const Plan> {
    let before_setup = resources(thread)
        .map_or_else(Vec::new, |resources| resources.slots.iter().map(|slot| SlotReading::of(slot)).collect());
    start::start();
    let Some(_setup) = Setup::begin() else {
        mark.switch_off();
        return None;
    };
    mark.register();
    // A refusal is counted, and noted in the report.
    _ = settings::apply(mark);
    let slot = mark.slot();
    if is_off(slot) {
        return None;
    }
    let prepared = prepare_plan(thread, mark, calibration_calls, settings::of_slot(slot), &before_setup).ok();
    if prepared.is_none() {
        forget_parents_calls();
        mark.unrecorded.fetch_add(1, Relaxed);
    }
    prepared
}

/// Makes the thread's recorder where there is none, and the mark's plan in it.
fn prepare_plan(
    thread: &ThreadState,
    mark: &'static Mark,
    calibration_calls: &'static CalibrationCalls,
    variant: Option<&'static Variant>,
    before_setup: &[Option<SlotReading>],
) -> io::Result<*const Plan> {
    let (events, recorder_ptr) = (events()?, set_up_recorder(thread, mark)?);
    // SAFETY: RECORDER, until the thread ends.
    let recorder = unsafe { recorder_ptr.as_ref() };
    let Some(resources) = resources(thread) else { return Err(io::ErrorKind::Other.into()) };
    // A mark that has no place is known, but not found in the table; and one may have been given another place just
    // now, where it was before.
    let slot = variant.map_or_else(|| mark.own_slot(), |variant| variant.slot);
    let known = if slot == 0 {
        resources.plans().find(|plan| ptr::eq(plan.cells.mark, mark) && plan.slot() == 0)
    } else {
        // SAFETY: this thread's recorder.
        unsafe { plan_entry(recorder_ptr, slot.into()) }.get().plan()
    };
    if let Some(plan) = known {
        return Ok(plan);
    }
    let wanted = wanted(mark, variant);
    let slots = resources.slots.slot_indices_for(&wanted, events);
    let manner = manner(mark);
    let known = resources.sets.iter().position(|set| set.matches(&slots, manner));
    let at = known.unwrap_or_else(|| {
        // SAFETY: the set lives as long as the slots, and these stay where they are.
        let set = unsafe { EventSet::new(&slots, &resources.slots, manner, calibration_calls, slow::HOOKS) };
        resources.sets.push(Box::new(set));
        resources.sets.len() - 1
    });
    let every = every(mark, variant);
    let tracks_overhead = resources.sets.len() > 1 || every > 1 || manner.is_polled || config().has_call_graph;
    if tracks_overhead && !recorder.tracks_overhead.get() {
        start_tracking_overhead(resources, recorder);
    }
    // A set is new, or what is there is read in another way, or by other marks as well: what it costs is to be found
    // out.
    for set in &resources.sets {
        bind_and_calibrate(thread, recorder_ptr, resources, set);
    }
    let set = &resources.sets[at];
    let cells = set.events().map(|event| EventCells::new(event.slot().event)).collect();
    let cells = MarkCells::new(mark, cells, every).without(resources.slots.refused_among(&wanted, events));
    // SAFETY: the set lives as long as calls are made.
    let plan = unsafe { Plan::new(cells, set, variant, Draws::new(every, &recorder.random)) };
    let plan = resources.cells.add(plan);
    resources.plans.push(plan);
    // SAFETY: it lives as long as the cells.
    let plan_ref = unsafe { &*plan };
    plan_ref.set_event_cells();
    plan_ref.publish_overhead();
    bind::bind_plan(plan_ref);
    add_to_table(recorder_ptr, plan_ref);
    exclude_setup(&resources.slots, recorder, before_setup);
    Ok(plan)
}

/// What this thread's first calls made so far. Only they, and the thread's end, ask for it; none of them runs inside
/// another.
fn resources<'a>(thread: &ThreadState) -> Option<&'a mut Resources> {
    // In a forked child it is the parent's.
    thread.recorder().filter(|recorder| recorder.is_set_up())?;
    // SAFETY: made by `set_up`, if there is any; and nobody else uses it.
    unsafe { thread.resources.get().cast::<Resources>().as_mut() }
}

/// Puts a plan into its place, if it has one.
fn add_to_table(recorder_ptr: NonNull<Recorder>, plan: &Plan) {
    if plan.slot() != 0 {
        // SAFETY: this thread's recorder, or one beside it that calls are made with.
        unsafe { plan_entry(recorder_ptr, plan.slot().into()) }.set(PlanPtr::of(plan));
    }
}

/// Makes the thread's recorder where there is none: it calls the mark first.
fn set_up_recorder(thread: &ThreadState, mark: &Mark) -> io::Result<NonNull<Recorder>> {
    /// Recorders set up so far, in this process and those that it was forked from: a guard of the parent's, or of
    /// another thread's, finds no call of its number. The numbers before the first are those of calibrations.
    static RECORDERS: AtomicU64 = AtomicU64::new(1);
    let registry = registry()?;
    let known = thread.recorder_ptr();
    // SAFETY: RECORDER.
    if let Some(recorder_ptr) = known.filter(|recorder_ptr| unsafe { recorder_ptr.as_ref() }.is_set_up()) {
        return Ok(recorder_ptr);
    }
    let first = RECORDERS.fetch_add(1, Relaxed).wrapping_mul(CALLS) & SERIAL;
    let (owner, switched) = (Owner::new(), Switched::new(first));
    let left = if known.is_none() { reuse::take(mark) } else { None };
    let (recorder_ptr, mut resources) = if let Some(left) = left {
        left
    } else {
        let resources = Box::new(Resources::new()?);
        (known.map_or_else(memory::allocate, Ok)?, resources)
    };
    // Nobody else has these cells yet.
    if let Some(cells) = Arc::get_mut(&mut resources.cells) {
        cells.give_to(owner, switched);
    }
    resources.plans().for_each(Plan::reset_spans);
    let cells = &resources.cells;
    registry.add(Arc::clone(cells));
    // SAFETY: mapped; zeroes are a recorder not set up.
    let recorder = unsafe { recorder_ptr.as_ref() };
    // Another one for each thread, and in each run.
    let seed = owner.number.wrapping_mul(SEED) ^ clock::ticks().wrapping_mul(SEED.rotate_left(32));
    recorder.random.set(seed | 1);
    recorder.generation.set(registry.generation);
    // SAFETY: just mapped, or wiped, or left by another thread; and what is made here lives until the thread ends.
    unsafe {
        memory::set_up_stack(recorder_ptr, first);
        recorder.set_up(Arc::as_ptr(cells), cells.graph.as_ref());
    }
    thread.resources.set(Box::into_raw(resources).cast());
    // SAFETY: RECORDER and CELLS hold from here on. It is this thread's recorder that ends with the thread.
    unsafe {
        thread.set_recorder(recorder_ptr);
        thread_end::call_at_end(end_of_thread, recorder_ptr.as_ptr().cast());
    }
    Ok(recorder_ptr)
}

/// An odd number of many different bits.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// From now on the thread keeps what probes cost by event.
fn start_tracking_overhead(resources: &Resources, recorder: &Recorder) {
    recorder.tracks_overhead.set(true);
    // Until now all calls were of the same set, the first.
    let Some(set) = resources.sets.first() else { return };
    let mut begun = recorder.stack.serial.get();
    for frame in recorder.stack.iter() {
        // Those that began in it and ended; what is in the call above it comes with that.
        let inner = InnerCalls::of(&frame, begun);
        for event in set.events() {
            frame.inner_overhead[event.slot_index].set(set.overhead.of_inner_calls(inner, event.slot_index));
        }
        begun = frame.number() - 1;
        // No estimates so far.
        frame.inner_callers.set(0);
    }
}

/// Binds what entry and exit of a set's marks execute on this thread as it is now, and finds out what their probes
/// cost.
fn bind_and_calibrate(thread: &ThreadState, recorder_ptr: NonNull<Recorder>, resources: &Resources, set: &EventSet) {
    // SAFETY: RECORDER.
    let tracks_overhead = unsafe { recorder_ptr.as_ref() }.tracks_overhead.get();
    let key = OverheadKey::of(&resources.slots, set.used_slot_indices(), set.manner, tracks_overhead);
    if set.overhead_key.borrow().as_ref() == Some(&key) {
        return;
    }
    bind::bind_set(set, resources.slots.len(), tracks_overhead);
    let zero = MeasuredOverhead::zero(&key);
    // What is measured is what nothing was subtracted from.
    set.overhead.set(&zero);
    // Where other events hold the counters it is tried again at the next first call.
    let measured = calibrate::cached(&key).or_else(|| calibrate_set(thread, recorder_ptr, resources, set, &key));
    set.overhead.set(measured.as_ref().unwrap_or(&zero));
    set.overhead_key.replace(measured.is_some().then_some(key));
    set.measured_overhead.replace(measured);
    for plan in resources.plans().filter(|plan| ptr::eq(plan.set(), set)) {
        bind::bind_plan(plan);
        plan.publish_overhead();
    }
}

/// What the probe of a set costs on this thread: measured on a recorder beside the thread's own, so that nothing of the
/// program's is touched.
fn calibrate_set(
    thread: &ThreadState,
    program: NonNull<Recorder>,
    resources: &Resources,
    set: &EventSet,
    key: &OverheadKey,
) -> Option<MeasuredOverhead> {
    struct Calibration<'a> {
        thread: &'a ThreadState,
        scratch_ptr: NonNull<Recorder>,
        marked: [&'a MarkCells; 2],
    }
    impl CalibrationThread for Calibration<'_> {
        fn run_calls(&self, calls: &dyn Fn()) {
            // SAFETY: it is set up below, and given back when all is measured.
            unsafe { with_calibration_recorder(self.thread, self.scratch_ptr, calls) };
        }

        fn count_and_sum(&self, mark: &Mark, n: usize) -> (u64, u64) {
            let cells = self.marked.iter().find(|cells| ptr::eq(cells.mark, mark));
            cells.map_or((0, 0), |cells| cells.events[n].values.so_far())
        }
    }
    // SAFETY: RECORDER.
    slow::detach(unsafe { program.as_ref() }.stack.iter());
    // Calls beside the program's are not in its graph.
    let graph = resources.cells.graph.as_ref().map(|_| Graph::new()).transpose().ok()?;
    let plan = |mark, weight, draws| {
        let cells = set.events().map(|event| EventCells::new(event.slot().event)).collect();
        // SAFETY: the plan does not outlive this function, nor the set.
        unsafe { Plan::new(MarkCells::new(mark, cells, weight), set, None, draws) }
    };
    let calibration_calls = set.calibration_calls;
    let (empty, caller) =
        (plan(calibration_calls.empty, 1, Draws::default()), plan(calibration_calls.caller, 1, Draws::default()));
    // Of each loop of calls one is drawn.
    let drawn = plan(calibration_calls.drawn, calibrate::CALLS, Draws::default());
    let skipped = plan(calibration_calls.skipped, u32::MAX, Draws::never());
    let scratch_ptr = memory::allocate().ok()?;
    // SAFETY: just mapped; zeroes are a recorder not set up. What it refers to lives until it is given back.
    unsafe {
        let (scratch, program) = (scratch_ptr.as_ref(), program.as_ref());
        memory::set_up_stack(scratch_ptr, 0);
        scratch.set_up(Arc::as_ptr(&resources.cells), graph.as_ref());
        scratch.tracks_overhead.set(program.tracks_overhead.get());
        scratch.generation.set(program.generation.get());
        scratch.random.set(SEED);
    }
    for plan in [&empty, &caller, &skipped, &drawn] {
        plan.set_event_cells();
        bind::bind_plan(plan);
        add_to_table(scratch_ptr, plan);
    }
    let calibration = Calibration { thread, scratch_ptr, marked: [&empty.cells, &caller.cells] };
    let measured = calibrate::measure(key, &resources.slots, calibration_calls, &calibration);
    // SAFETY: the thread's word no longer names it.
    unsafe { memory::free(scratch_ptr) };
    measured
}

/// Leaves what was counted since `began` out of the open calls: it was perfmark's own work. Where that is not known
/// they are unmeasured.
fn exclude_setup(slots: &EventSlots, recorder: &Recorder, before_setup: &[Option<SlotReading>]) {
    let elapsed = |slot: &EventSlot, before_setup: Option<SlotReading>| before_setup?.elapsed(slot);
    let work: Vec<_> =
        slots.iter().zip(before_setup).map(|(slot, before_setup)| elapsed(slot, *before_setup)).collect();
    for frame in recorder.stack.iter() {
        let set = Plan::of(frame).set();
        for event in set.events() {
            let raw = frame.raw(event.n);
            match work.get(event.slot_index).copied().flatten() {
                Some(work) => raw.set(raw.get().wrapping_add(work)),
                None if event.slot().counter().is_some() => {
                    set.split_locks(frame);
                    frame.set_region(event.n, Region::default());
                }
                None => {}
            }
        }
    }
}

/// Ends recording on this thread for good, when it has ended everywhere: closes its counters. Calls that are open here
/// end as calls of nobody.
pub(crate) fn close_thread() {
    with_thread(|thread| {
        if thread.recorder_ptr().is_none() || thread.activity.get() != Activity::Program {
            return;
        }
        let (_errno, _signals) = (KeepErrno::new(), HeldBack::new());
        // A signal handler that interrupted entry or exit code leaves everything as it is. Nobody takes the recorder
        // any more.
        if let Some(taken) = HeldRecorder::acquire()
            && let Some(resources) = resources(thread)
        {
            resources.sets.iter().for_each(|set| set.counters.forget());
            resources.slots.close();
            taken.stack.clear();
        }
        thread.activity.set(Activity::Ended);
    });
}

/// Folds the thread's cells, closes its counters, and gives its memory back or leaves it to another thread.
unsafe extern "C" fn end_of_thread(recorder: *mut c_void) {
    let Some(recorder_ptr) = NonNull::new(recorder.cast::<Recorder>()) else { return };
    // When recording has ended nothing is done that takes a system call: what the thread holds ends with the process.
    let Some(_setup) = Setup::begin() else { return };
    let (_errno, _signals) = (KeepErrno::new(), HeldBack::new());
    with_thread(|thread| {
        thread.activity.set(Activity::OwnWork);
        // After a fork there is none.
        let resources = resources(thread).map(NonNull::from);
        thread.clear_recorder();
        // SAFETY: made by `set_up`, and nobody's any more.
        let resources = resources.map(|resources| unsafe { Box::from_raw(resources.as_ptr()) });
        if let (Some(resources), Ok(registry)) = (&resources, registry()) {
            registry.retire(&resources.cells);
        }
        // SAFETY: nothing names it any more.
        unsafe { reuse::put_or_free(recorder_ptr, resources) };
        thread.activity.set(Activity::Ended);
    });
}
