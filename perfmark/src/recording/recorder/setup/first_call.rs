//! A thread's first call of a mark sets up what its calls need, and the thread's end takes it down.
#![allow(unsafe_code, reason = "creates the data that calls reach by pointers")]

use std::cell::Cell;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::EmulatedCounter;

use super::cold_stack::on_cold_stack;
use super::resources::Resources;
use super::{at_first_call, calibrate, reuse, thread_end};
use crate::compact::index_or_push;
use crate::platform::errno::KeepErrno;
use crate::platform::signals::BlockedSignals;
use crate::platform::sync::Arc;
use crate::recording::cells::{
    MarkCells, Owner, Switched,
    registry::{Registry, Setup, forget_parents_calls, registry},
};
use crate::recording::events::events;
use crate::recording::mark::mark_settings::{self, Variant};
use crate::recording::mark::{CallMode, Mark, Measured};
use crate::recording::recorder::hooks::{bind, slow};
use crate::recording::recorder::thread::{
    Activity, ActivityGuard, CalibrationCalls, EventSet, HeldRecorder, InnerCalls, OverheadKey, Plan, ProbeOverhead,
    ThreadState, with_recorder, with_thread,
};
use crate::recording::recorder::values::exclude_work::Readings;
use crate::recording::recorder::values::self_estimate::restart_bursts;
use crate::recording::{random, start};
use crate::settings::recording::{is_off, settings};

/// Begins a thread's first call of a mark: sets up what it needs. `None` if the mark is off, or if nothing can be
/// recorded; the call is counted in the second case, if `counts`.
#[cold]
#[inline(never)]
pub(crate) fn first_call<'a>(
    thread: &ThreadState,
    mark: &'static Mark,
    calibration_calls: &'static CalibrationCalls,
    counts: bool,
) -> Option<(HeldRecorder, &'a Plan)> {
    // SAFETY: RESOURCES: the reference ends with the statement.
    let of_slots = unsafe { resources(thread) }.and_then(|resources| Some(resources.slots.emulated()?.counts()));
    let _errno = KeepErrno::new();
    // On the thread's first call, only `measure` may count.
    let of_thread = if of_slots.is_none() { EmulatedCounter::of_thread() } else { None };
    let emulated_counts = of_slots.or_else(|| of_thread.as_ref().map(EmulatedCounter::counts));
    let plan = {
        // Signals are blocked because a mark in a handler would be taken for one in an allocator.
        let _signals = BlockedSignals::new();
        let _restore = ActivityGuard::set(thread, Activity::OwnWork);
        // After recording has ended, no system call is allowed.
        if is_off() {
            mark.switch_off();
            return None;
        }
        on_cold_stack(|| prepare_call(thread, mark, calibration_calls, counts))
    };
    // SAFETY: RESOURCES: the reference ends with the next statement.
    let of_slots = unsafe { resources(thread) }.and_then(|resources| resources.slots.emulated());
    if let Some((before, counter)) = emulated_counts.zip(of_slots.or(of_thread.as_ref())) {
        counter.set_back(&before);
    }
    // SAFETY: CELLS: `prepare_call` returned a plan of this thread.
    plan.and_then(|plan| Some((thread.acquire()?, unsafe { &*plan })))
}

/// Sets up what the mark's calls need. `None` if the mark is off, or if nothing can be recorded; the call is counted in
/// the second case, if `counts`.
fn prepare_call(
    thread: &ThreadState,
    mark: &'static Mark,
    calibration_calls: &'static CalibrationCalls,
    counts: bool,
) -> Option<*const Plan> {
    // Before calls of calibration look.
    note_samples_of(thread);
    // SAFETY: RESOURCES: the reference ends with the statement.
    let before_setup =
        unsafe { resources(thread) }.map(|resources| Readings::new(&resources.slots, &resources.recorder));
    start::start();
    let Some(_setup) = Setup::begin() else {
        mark.switch_off();
        return None;
    };
    mark.register();
    at_first_call::run();
    // If the mark keeps its former settings, the report says so.
    _ = mark_settings::apply(mark);
    if mark.is_off() {
        // SAFETY: RESOURCES: the reference ends with the statement.
        if let Some(resources) = unsafe { resources(thread) } {
            exclude_setup(before_setup.as_ref(), resources);
        }
        return None;
    }
    let prepared =
        prepare_plan(thread, mark, calibration_calls, mark_settings::of_slot(mark.slot()), before_setup.as_ref()).ok();
    if prepared.is_none() {
        forget_parents_calls();
        mark.unrecorded.fetch_add(counts.into(), Relaxed);
    }
    prepared
}

/// Creates the thread's recorder, if there is none, and the mark's plan in it.
fn prepare_plan(
    thread: &ThreadState,
    mark: &'static Mark,
    calibration_calls: &'static CalibrationCalls,
    variant: Option<&'static Variant>,
    before_setup: Option<&Readings>,
) -> io::Result<*const Plan> {
    let (events, registry) = (events()?, registry()?);
    // SAFETY: RESOURCES: nothing below gets another reference.
    let resources = unsafe { resources(thread) }.map_or_else(|| set_up_recorder(thread, mark, registry), Ok)?;
    let recorder = resources.recorder;
    // The thread may know a mark that its call did not find: a mark without a slot is not in the table, and a mark may
    // have returned to a former slot just now.
    let slot = variant.map_or_else(|| mark.own_slot(), |variant| variant.slot);
    let existing = if slot == 0 {
        // The plans of a thinned mark are compared with its settings below.
        resources.plans_at(0).find(|plan| ptr::eq(plan.cells.mark, mark) && plan.member().is_none())
    } else {
        // SAFETY: CELLS: a plan of this thread. Slots of marks and variants are below `SLOTS`.
        unsafe { recorder.find_plan(slot.into()) }
    };
    if let Some(plan) = existing {
        exclude_setup(before_setup, resources);
        return Ok(plan);
    }
    let mark_settings = mark_settings::resolve(mark, variant);
    let (wanted, mode) = (mark_settings::events(mark, variant), mark_settings.mode);
    let is_budgeted = mode.measured == Measured::WithinBudget;
    let may_be_thinned = mark_settings.may_be_thinned();
    let every = if is_budgeted { 0 } else { mark_settings.every };
    let forget = |slot| recorder.forget_plan(slot);
    let member_ptr = if may_be_thinned {
        // SAFETY: the recorder's memory stays mapped.
        unsafe { resources.thinning.member(mark, slot, every, recorder.count(slot), forget) }
    } else {
        ptr::null()
    };
    // SAFETY: CELLS: null, or `thinning` lives as long as the thread's cells.
    let member = unsafe { member_ptr.as_ref() };
    let thinned = member.and_then(|member| resources.thinning.every(member));
    // The mark may have had these settings before.
    let has_settings =
        |plan: &&Plan| plan.member().is_some() && ptr::eq(plan.cells.mark, mark) && plan.every() == thinned;
    if let Some(plan) = member.and_then(|_| resources.plans_at(slot).find(has_settings)) {
        use_plan(plan, resources, before_setup);
        return Ok(plan);
    }
    let measured = if thinned.is_some() { Measured::InBursts } else { Measured::All };
    let mode = CallMode { measured, ..mode };
    let slots = resources.slots.slot_indices_for(&wanted, events);
    let new_set = || {
        // SAFETY: slots and sets are parts of `resources` and live equally long. Slots are boxed and do not move.
        let set = unsafe { EventSet::new(&slots, &resources.slots, mode, calibration_calls, slow::HOOKS) };
        let innermost = recorder.stack.innermost().map_or(0, |frame| frame.number());
        resources.samplings.add_set(&set, innermost, &resources.cells);
        Box::new(set)
    };
    let index = index_or_push(&mut resources.sets, |set| set.matches(&slots, mode), new_set);
    let tracks_overhead = resources.sets.len() > 1 || mode.is_polled || may_be_thinned || settings().has_call_graph;
    if tracks_overhead && !recorder.tracks_overhead.get() {
        start_tracking_overhead(resources);
    }
    if may_be_thinned && !recorder.has_thinned.replace(true) {
        for plan in resources.plans() {
            registry.teach(&plan.cells);
            plan.reset_spans();
        }
        // No mark was thinned until now.
        let mut begun = recorder.stack.serial.get();
        for frame in recorder.stack.iter() {
            frame.begin_unthinned(begun - frame.number());
            begun = frame.number() - 1;
        }
    }
    // Every set is checked again: its overhead depends on the thread's events, on how they are read, and on whether the
    // thread tracks overhead and has thinned marks.
    for set in &resources.sets {
        bind_and_calibrate(thread, resources, set);
    }
    let set = &resources.sets[index];
    let mut cells = MarkCells::new(mark, set.new_cells(), thinned.unwrap_or(1));
    (cells.is_thinned, cells.missing) = (thinned.is_some(), resources.slots.refused_among(&wanted, events));
    // SAFETY: CELLS: sets and members live as long as the plans that the thread's calls use.
    let plan = unsafe { Plan::new(cells, set, slot, member_ptr) };
    let plan = resources.cells.add(plan);
    resources.plans.push(plan);
    // SAFETY: CELLS: it lives as long as the thread's cells.
    let plan_ref = unsafe { &*plan };
    if recorder.has_thinned.get() {
        registry.teach(&plan_ref.cells);
    }
    for event in set.events().filter(|event| event.slot().is_ticks() && plan_ref.leaves_preemption_out()) {
        plan_ref.cells.events[event.n].values.set_longest(resources.thinning.preemption.long);
    }
    plan_ref.set_event_cells();
    plan_ref.publish_overhead();
    resources.samplings.add_plan(plan_ref);
    bind::bind_plan(plan_ref);
    use_plan(plan_ref, resources, before_setup);
    Ok(plan)
}

/// Lets the mark's calls use this plan of the thread, and bursts be as frequent as its thinned marks need.
fn use_plan(plan: &Plan, resources: &Resources, before_setup: Option<&Readings>) {
    let recorder = &resources.recorder;
    if let Some(member) = plan.member() {
        // SAFETY: CELLS: the plan lives as long as the thread's cells.
        unsafe { member.add_plan(plan) };
    }
    // SAFETY: CELLS: as above.
    unsafe { recorder.set_plan(plan) };
    exclude_setup(before_setup, resources);
    // After each first call, because that may have changed the slots.
    // SAFETY: CELLS: both are boxed, and live as long as the thread's cells.
    unsafe { recorder.set_thinning(&resources.thinning, &resources.slots) };
    restart_bursts(recorder);
}

/// Leaves the setup of a call out of the calls around it. Before the thread's first call, there are none.
fn exclude_setup(before: Option<&Readings>, resources: &Resources) {
    if let Some(before) = before {
        before.exclude_work_since(&resources.slots, &resources.recorder);
        // The setup may have waited, and used the CPU for long.
        resources.thinning.preemption.begin();
    }
}

thread_local! {
    /// What the thread's first calls allocated; null before. It is in thread-local memory because leak checkers do not
    /// search mapped memory.
    static RESOURCES: Cell<*mut Resources> = const { Cell::new(ptr::null_mut()) };
}

/// The resources of this thread's recorder. Only first calls and the thread's end use them, and none of these runs
/// inside another.
///
/// # Safety
///
/// RESOURCES: there is no other reference to them as long as this one lives.
#[allow(clippy::mut_from_ref, reason = "this function's contract")]
unsafe fn resources(thread: &ThreadState) -> Option<&mut Resources> {
    // In a forked child, the recorder is wiped, and the resources are the parent's.
    thread.recorder().filter(|recorder| recorder.is_set_up())?;
    // SAFETY: null, or the box that `set_up_recorder` stored; this function's contract.
    unsafe { RESOURCES.get().as_mut() }
}

/// Creates the thread's recorder. `mark` is the first mark that the thread calls.
fn set_up_recorder<'a>(thread: &ThreadState, mark: &Mark, registry: &Registry) -> io::Result<&'a mut Resources> {
    let existing = thread.recorder();
    let first = registry.next_numbers();
    let (owner, switched) = (Owner::new(), Switched::new(first));
    let reused = if existing.is_none() { reuse::take(mark) } else { None };
    let mut resources = reused.map_or_else(|| Resources::new(existing).map(Box::new), Ok)?;
    // No other thread refers to these cells yet.
    if let Some(cells) = Arc::get_mut(&mut resources.cells) {
        cells.give_to(owner, switched);
    }
    resources.plans().for_each(Plan::reset_spans);
    resources.samplings.attach(&resources.cells);
    let (recorder, cells) = (resources.recorder, &resources.cells);
    registry.add(Arc::clone(cells));
    recorder.random.set(random::seed(owner.number));
    recorder.generation.set(registry.generation);
    recorder.set_up_stack(first);
    // SAFETY: CELLS: `resources` owns the cells, and lives until the thread ends.
    unsafe { recorder.set_up(Arc::as_ptr(cells), cells.graph.as_ref()) };
    let resources = Box::into_raw(resources);
    RESOURCES.set(resources);
    // It is in no gap yet, so marked functions skip none of this work's calls.
    // SAFETY: RECORDER and CELLS hold from here on.
    unsafe { thread.replace_recorder(Some(recorder)) };
    thread_end::call_at_end(end_of_thread);
    // SAFETY: RESOURCES: the thread had none before, so there is no other reference.
    Ok(unsafe { &mut *resources })
}

/// Lets a test repeat which calls of the calling thread are in bursts. Has no effect before the thread's first call.
pub fn seed_bursts(seed: u64) {
    with_recorder(|recorder| recorder.random.set(seed | 1));
}

/// Makes the thread's frames track overhead for each event slot from now on.
fn start_tracking_overhead(resources: &Resources) {
    let recorder = &resources.recorder;
    recorder.tracks_overhead.set(true);
    // Until now, all calls used the first set.
    let Some(set) = resources.sets.first() else { return };
    let mut begun = recorder.stack.serial.get();
    for frame in recorder.stack.iter() {
        // The calls inside this frame that ended, without those inside the frame above, which passes them on.
        let inner = InnerCalls::of(&frame, begun);
        for event in set.events() {
            frame.inner_overhead[event.slot_index].set(set.overhead.of_inner_calls(inner, event.slot_index));
        }
        begun = frame.number() - 1;
        frame.inner_callers().set(0);
    }
}

/// Binds the hooks of a set's marks for the thread's current events and settings, and measures their probe overhead.
/// Does nothing if these have not changed.
fn bind_and_calibrate(thread: &ThreadState, resources: &Resources, set: &EventSet) {
    let recorder = &resources.recorder;
    let key = OverheadKey::of(&resources.slots, set.used_slot_indices(), set.mode, recorder);
    if set.overhead_key.borrow().as_ref() == Some(&key) {
        return;
    }
    bind::bind_set(set, resources.slots.len(), recorder);
    // Calibration must measure values from which nothing is subtracted.
    set.overhead.set(&ProbeOverhead::default());
    // If the counters are in use by other events, the next first call tries again.
    let measured = calibrate::cached(&key).or_else(|| calibrate::measure(thread, resources, set, &key));
    set.overhead.set(&measured.map(|measured| measured.probe).unwrap_or_default());
    set.overhead_key.replace(measured.is_some().then_some(key));
    set.measured_overhead.replace(measured);
    if set.mode.measured == Measured::InBursts {
        resources.thinning.learned.apply_to(set);
    }
    for plan in resources.plans().filter(|plan| ptr::eq(plan.set(), set)) {
        bind::bind_plan(plan);
        plan.publish_overhead();
    }
}

/// Ends recording on this thread when it has ended everywhere, and closes its counters. Open calls are not recorded.
pub(crate) fn close_thread() {
    with_thread(|thread| {
        if thread.recorder().is_none() || thread.activity.get() != Activity::Program {
            return;
        }
        let (_errno, _signals) = (KeepErrno::new(), BlockedSignals::new());
        // If this runs in a signal handler that interrupted entry or exit code, that code still uses the recorder.
        // Nobody acquires the recorder after it.
        if let Some(recorder) = HeldRecorder::acquire()
            // SAFETY: RESOURCES: first calls and the thread's end hold the recorder's pointer cleared, so this is in
            // none of them.
            && let Some(resources) = unsafe { resources(thread) }
        {
            resources.sets.iter().for_each(|set| set.counters.forget());
            resources.slots.close();
            recorder.stack.clear();
        }
        thread.activity.set(Activity::Ended);
    });
}

/// Notes which call the samples of this thread until now belong to.
pub(crate) fn note_samples() {
    with_thread(note_samples_of);
}

fn note_samples_of(thread: &ThreadState) {
    // If this runs in a signal handler that interrupted entry or exit code, that code may write a note, too.
    if thread.interrupts_hook.get() {
        return;
    }
    // SAFETY: RESOURCES: the reference ends with this function, whose callers have none.
    if let Some(resources) = unsafe { resources(thread) } {
        resources.samplings.look(&resources.recorder);
    }
}

/// Runs at the thread's end: merges its cells into the registry, closes its counters, and frees or reuses its memory.
fn end_of_thread() {
    // After recording has ended, no system call is allowed. The process's end releases what the thread holds.
    let Some(_setup) = Setup::begin() else { return };
    let (_errno, _signals) = (KeepErrno::new(), BlockedSignals::new());
    with_thread(|thread| {
        let Some(recorder) = thread.recorder() else { return };
        thread.activity.set(Activity::OwnWork);
        note_samples_of(thread);
        // There are none in a forked child.
        // SAFETY: RESOURCES: the reference becomes a pointer at once.
        let resources = unsafe { resources(thread) }.map(NonNull::from);
        thread.clear_recorder();
        // SAFETY: `set_up_recorder` made the box, and `clear_recorder` removed the last way to reach it. At its end, a
        // thread is in no hook and in no first call.
        let resources = resources.map(|resources| unsafe { Box::from_raw(resources.as_ptr()) });
        if let (Some(resources), Ok(registry)) = (&resources, registry()) {
            registry.retire(&resources.cells);
            resources.samplings.detach(&resources.cells);
        }
        match resources {
            Some(resources) => reuse::put(resources),
            // SAFETY: nothing refers to the recorder any more.
            None => unsafe { recorder.free() },
        }
        thread.activity.set(Activity::Ended);
    });
}
