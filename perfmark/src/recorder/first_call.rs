//! A thread's first call of a mark: what is set up then, and at the thread's end taken down.
#![allow(unsafe_code, reason = "makes what calls find by pointers")]

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::{Region, clock};

use super::calibrate::{self, Calibrated, Kinds, Moment};
use super::cold_stack::on_cold_stack;
use super::cost::{Cost, Inside, Key};
use super::counters::{Slot, Slots};
use super::draws::Draws;
use super::made::Made;
use super::plan::{EventSet, Place, Plan, place_of};
use super::stack::SERIAL;
use super::state::{Doing, Recorder, Restore, Taken, Thread, with_other, with_thread};
use super::{bind, home, left, slow, thread_end};
use crate::cells::{EventCells, MarkCells, Owner};
use crate::config::{config, manner};
use crate::errno::KeepErrno;
use crate::events::events;
use crate::graph::Graph;
use crate::mark::{Mark, is_off};
use crate::registry::{Setup, forget_parents_calls, registry};
use crate::settings::{self, Variant, events_of, every};
use crate::signals::BlockedSignals;
use crate::start;
use crate::switched::{CALLS, Switched};
use crate::sync::Arc;

/// A thread's first call of a mark: sets up what is missing. `None` where the call does nothing, and where nothing can
/// be recorded: then it is counted.
#[cold]
#[inline(never)]
pub(super) fn first_call<'a>(thread: &Thread, mark: &'static Mark, kinds: &'static Kinds) -> Option<(&'a Plan, Taken)> {
    let _errno = KeepErrno::new();
    let plan = {
        // A mark that a handler calls meanwhile would be taken for one in an allocator.
        let _signals = BlockedSignals::new();
        let _restore = Restore::doing(thread, Doing::Own);
        // When recording has ended no system call is made any more.
        if start::is_off() {
            mark.switch_off();
            return None;
        }
        on_cold_stack(|| prepare_call(thread, mark, kinds))?
    };
    // SAFETY: a plan of this thread's (CELLS).
    Some((unsafe { &*plan }, thread.take()?))
}

/// Sets up what is missing for the mark's calls. `None` where they do nothing, and where nothing can be recorded: then
/// the call is counted.
fn prepare_call(thread: &Thread, mark: &'static Mark, kinds: &'static Kinds) -> Option<*const Plan> {
    let began = made(thread).map_or_else(Vec::new, |made| made.slots.iter().map(|slot| Moment::of(slot)).collect());
    start::start();
    let Some(_setup) = Setup::begin() else {
        mark.switch_off();
        return None;
    };
    mark.register();
    // A refusal is counted, and noted in the report.
    _ = settings::apply(mark);
    let place = mark.slot();
    if is_off(place) {
        return None;
    }
    let prepared = prepare(thread, mark, kinds, settings::of_slot(place), &began).ok();
    if prepared.is_none() {
        forget_parents_calls();
        mark.unrecorded.fetch_add(1, Relaxed);
    }
    prepared
}

/// Makes the thread's recorder where there is none, and the mark's plan in it.
fn prepare(
    thread: &Thread,
    mark: &'static Mark,
    kinds: &'static Kinds,
    variant: Option<&'static Variant>,
    began: &[Option<Moment>],
) -> io::Result<*const Plan> {
    let (events, home) = (events()?, set_up(thread, mark)?);
    // SAFETY: RECORDER, until the thread ends.
    let recorder = unsafe { home.as_ref() };
    let Some(made) = made(thread) else { return Err(io::ErrorKind::Other.into()) };
    // A mark that has no place is known, but not found in the table; and one may have been given another place just
    // now, where it was before.
    let place = variant.map_or_else(|| mark.own_slot(), |variant| variant.slot);
    let known = if place == 0 {
        made.plans().find(|plan| ptr::eq(plan.cells.mark, mark) && plan.place() == 0)
    } else {
        // SAFETY: this thread's recorder.
        unsafe { place_of(home, place.into()) }.get().plan()
    };
    if let Some(plan) = known {
        return Ok(plan);
    }
    let wanted = events_of(mark, variant);
    let slots = made.slots.set_for(&wanted, events);
    let manner = manner(mark);
    let known = made.sets.iter().position(|set| set.is(&slots, manner));
    let at = known.unwrap_or_else(|| {
        // SAFETY: the set lives as long as the slots, and these stay where they are.
        let set = unsafe { EventSet::new(&slots, &made.slots, manner, kinds, slow::HOOKS) };
        made.sets.push(Box::new(set));
        made.sets.len() - 1
    });
    let every = every(mark, variant);
    let keeps_costs = made.sets.len() > 1 || every > 1 || manner.is_polled || config().has_call_graph;
    if keeps_costs && !recorder.keeps_costs.get() {
        keep_costs(made, recorder);
    }
    // A set is new, or what is there is read in another way, or by other marks as well: what it costs is to be found
    // out.
    for set in &made.sets {
        bind(thread, home, made, set);
    }
    let set = &made.sets[at];
    let cells = set.events().map(|planned| EventCells::new(planned.slot().event)).collect();
    let cells = MarkCells::new(mark, cells, every).without(made.slots.refused_of(&wanted, events));
    // SAFETY: the set lives as long as calls are made.
    let plan = unsafe { Plan::new(cells, set, variant, Draws::new(every, &recorder.random)) };
    let plan = made.cells.add(plan);
    made.plans.push(plan);
    // SAFETY: it lives as long as the cells.
    let plan_ = unsafe { &*plan };
    plan_.settle();
    plan_.note_cost();
    bind::bind_plan(plan_);
    enter_in_table(home, plan_);
    leave_out(&made.slots, recorder, began);
    Ok(plan)
}

/// What this thread's first calls made so far. Only they, and the thread's end, ask for it; none of them runs inside
/// another.
fn made<'a>(thread: &Thread) -> Option<&'a mut Made> {
    // In a forked child it is the parent's.
    thread.recorder().filter(|recorder| recorder.is_set_up())?;
    // SAFETY: made by `set_up`, if there is any; and nobody else uses it.
    unsafe { thread.made.get().cast::<Made>().as_mut() }
}

/// Puts a plan into its place, if it has one.
fn enter_in_table(home: NonNull<Recorder>, plan: &Plan) {
    if plan.place() != 0 {
        // SAFETY: this thread's recorder, or one beside it that calls are made with.
        unsafe { place_of(home, plan.place().into()) }.set(Place::of(plan));
    }
}

/// Makes the thread's recorder where there is none: it calls the mark first.
fn set_up(thread: &Thread, mark: &Mark) -> io::Result<NonNull<Recorder>> {
    /// Recorders set up so far, in this process and those that it was forked from: a guard of the parent's, or of
    /// another thread's, finds no call of its number. The numbers before the first are those of calibrations.
    static SET_UP: AtomicU64 = AtomicU64::new(1);
    let registry = registry()?;
    let known = thread.home();
    // SAFETY: RECORDER.
    if let Some(home) = known.filter(|home| unsafe { home.as_ref() }.is_set_up()) {
        return Ok(home);
    }
    let first = SET_UP.fetch_add(1, Relaxed).wrapping_mul(CALLS) & SERIAL;
    let (owner, switched) = (Owner::new(), Switched::new(first));
    let left = if known.is_none() { left::take(mark) } else { None };
    let (home, mut made) = if let Some(left) = left {
        left
    } else {
        let made = Box::new(Made::new()?);
        (known.map_or_else(home::map, Ok)?, made)
    };
    // Nobody else has these cells yet.
    if let Some(cells) = Arc::get_mut(&mut made.cells) {
        cells.give_to(owner, switched);
    }
    made.plans().for_each(Plan::forget_spans);
    let cells = &made.cells;
    registry.add(Arc::clone(cells));
    // SAFETY: mapped; zeroes are a recorder not set up.
    let recorder = unsafe { home.as_ref() };
    // Another one for each thread, and in each run.
    let seed = owner.number.wrapping_mul(SEED) ^ clock::ticks().wrapping_mul(SEED.rotate_left(32));
    recorder.random.set(seed | 1);
    recorder.generation.set(registry.generation);
    // SAFETY: just mapped, or wiped, or left by another thread; and what is made here lives until the thread ends.
    unsafe {
        home::set_up_stack(home, first);
        recorder.set_up(Arc::as_ptr(cells), cells.graph.as_ref());
    }
    thread.made.set(Box::into_raw(made).cast());
    // SAFETY: RECORDER and CELLS hold from here on. It is this thread's recorder that ends with the thread.
    unsafe {
        thread.settle(home);
        thread_end::call_at_end(end_of_thread, home.as_ptr().cast());
    }
    Ok(home)
}

/// An odd number of many different bits.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// From now on the thread keeps what probes cost by event.
fn keep_costs(made: &Made, recorder: &Recorder) {
    recorder.keeps_costs.set(true);
    // Until now all calls were of the same set, the first.
    let Some(set) = made.sets.first() else { return };
    let mut begun = recorder.stack.serial.get();
    for frame in recorder.stack.iter() {
        // Those that began in it and ended; what is in the call above it comes with that.
        let inside = Inside::of(&frame, begun);
        for planned in set.events() {
            frame.cost[planned.at].set(set.costs.of_calls(inside, planned.at));
        }
        begun = frame.number() - 1;
        // No estimates so far.
        frame.callers.set(0);
    }
}

/// Binds what entry and exit of a set's marks execute on this thread as it is now, and finds out what their probes
/// cost.
fn bind(thread: &Thread, home: NonNull<Recorder>, made: &Made, set: &EventSet) {
    // SAFETY: RECORDER.
    let keeps_costs = unsafe { home.as_ref() }.keeps_costs.get();
    let key = Key::of(&made.slots, set.places(), set.manner, keeps_costs);
    if set.key.borrow().as_ref() == Some(&key) {
        return;
    }
    bind::bind_set(set, made.slots.len(), keeps_costs);
    let nothing = Cost::nothing(&key);
    // What is measured is what nothing was subtracted from.
    set.costs.apply(&nothing);
    // Where other events hold the counters it is tried again at the next first call.
    let cost = calibrate::known(&key).or_else(|| calibrate(thread, home, made, set, &key));
    set.costs.apply(cost.as_ref().unwrap_or(&nothing));
    set.key.replace(cost.is_some().then_some(key));
    set.cost.replace(cost);
    for plan in made.plans().filter(|plan| ptr::eq(plan.set(), set)) {
        bind::bind_plan(plan);
        plan.note_cost();
    }
}

/// What the probe of a set costs on this thread: measured on a recorder beside the thread's own, so that nothing of the
/// program's is touched.
fn calibrate(thread: &Thread, own: NonNull<Recorder>, made: &Made, set: &EventSet, key: &Key) -> Option<Cost> {
    struct Here<'a> {
        thread: &'a Thread,
        beside: NonNull<Recorder>,
        marked: [&'a MarkCells; 2],
    }
    impl Calibrated for Here<'_> {
        fn as_program(&self, calls: &dyn Fn()) {
            // SAFETY: it is set up below, and given back when all is measured.
            unsafe { with_other(self.thread, self.beside, calls) };
        }

        fn so_far(&self, mark: &Mark, n: usize) -> (u64, u64) {
            let cells = self.marked.iter().find(|cells| ptr::eq(cells.mark, mark));
            cells.map_or((0, 0), |cells| cells.events[n].values.so_far())
        }
    }
    // SAFETY: RECORDER.
    slow::keep(unsafe { own.as_ref() }.stack.iter());
    // Calls beside the program's are not in its graph.
    let graph = made.cells.graph.as_ref().map(|_| Graph::new()).transpose().ok()?;
    let plan = |mark, weight, draws| {
        let cells = set.events().map(|planned| EventCells::new(planned.slot().event)).collect();
        // SAFETY: the plan does not outlive this function, nor the set.
        unsafe { Plan::new(MarkCells::new(mark, cells, weight), set, None, draws) }
    };
    let kinds = set.kinds;
    let (empty, caller) = (plan(kinds.empty, 1, Draws::default()), plan(kinds.caller, 1, Draws::default()));
    // Of each loop of calls one is drawn.
    let drawn = plan(kinds.drawn, calibrate::CALLS, Draws::default());
    let skipped = plan(kinds.skipped, u32::MAX, Draws::never());
    let beside = home::map().ok()?;
    // SAFETY: just mapped; zeroes are a recorder not set up. What it refers to lives until it is given back.
    unsafe {
        let (beside_, own) = (beside.as_ref(), own.as_ref());
        home::set_up_stack(beside, 0);
        beside_.set_up(Arc::as_ptr(&made.cells), graph.as_ref());
        beside_.keeps_costs.set(own.keeps_costs.get());
        beside_.generation.set(own.generation.get());
        beside_.random.set(SEED);
    }
    for plan in [&empty, &caller, &skipped, &drawn] {
        plan.settle();
        bind::bind_plan(plan);
        enter_in_table(beside, plan);
    }
    let here = Here { thread, beside, marked: [&empty.cells, &caller.cells] };
    let cost = calibrate::measure(key, &made.slots, kinds, &here);
    // SAFETY: the thread's word no longer names it.
    unsafe { home::give_back(beside) };
    cost
}

/// Leaves what was counted since `began` out of the open calls: it was perfmark's own work. Where that is not known
/// they are unmeasured.
fn leave_out(slots: &Slots, recorder: &Recorder, began: &[Option<Moment>]) {
    let until_now = |slot: &Slot, began: Option<Moment>| began?.until_now(slot);
    let work: Vec<_> = slots.iter().zip(began).map(|(slot, began)| until_now(slot, *began)).collect();
    for frame in recorder.stack.iter() {
        let set = Plan::of(frame).set();
        for planned in set.events() {
            let raw = frame.raw(planned.n);
            match work.get(planned.at).copied().flatten() {
                Some(work) => raw.set(raw.get().wrapping_add(work)),
                None if planned.slot().counter().is_some() => {
                    set.take_apart(frame);
                    frame.set_region(planned.n, Region::default());
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
        if thread.home().is_none() || thread.doing.get() != Doing::Program {
            return;
        }
        let (_errno, _signals) = (KeepErrno::new(), BlockedSignals::new());
        // A signal handler that interrupted entry or exit code leaves everything as it is. Nobody takes the recorder
        // any more.
        if let Some(taken) = Taken::take()
            && let Some(made) = made(thread)
        {
            made.sets.iter().for_each(|set| set.counters.forget());
            made.slots.close();
            taken.stack.clear();
        }
        thread.doing.set(Doing::Ended);
    });
}

/// Folds the thread's cells, closes its counters, and gives its memory back or leaves it to another thread.
unsafe extern "C" fn end_of_thread(recorder: *mut c_void) {
    let Some(home) = NonNull::new(recorder.cast::<Recorder>()) else { return };
    // When recording has ended nothing is done that takes a system call: what the thread holds ends with the process.
    let Some(_setup) = Setup::begin() else { return };
    let (_errno, _signals) = (KeepErrno::new(), BlockedSignals::new());
    with_thread(|thread| {
        thread.doing.set(Doing::Own);
        // After a fork there is none.
        let made = made(thread).map(NonNull::from);
        thread.unsettle();
        // SAFETY: made by `set_up`, and nobody's any more.
        let made = made.map(|made| unsafe { Box::from_raw(made.as_ptr()) });
        if let (Some(made), Ok(registry)) = (&made, registry()) {
            registry.retire(&made.cells);
        }
        // SAFETY: nothing names it any more.
        unsafe { left::leave(home, made) };
        thread.doing.set(Doing::Ended);
    });
}
