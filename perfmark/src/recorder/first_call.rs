//! A thread's first call of a mark: what is set up then.
#![allow(unsafe_code, reason = "raw pointers to state that outlives thread-locals")]

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use perfmark_rdpmc::{Region, clock};

use super::calibrate::{self, Calibrated, Cost, Key, Moment};
use super::cold_stack::on_cold_stack;
use super::empty::Kinds;
use super::frames::{SERIAL, Space};
use super::plan::{Costs, Draws, Plan, Planned, Set};
use super::polls::{self, Poll};
use super::sources::{Slot, Slots};
use super::thread::{Call, Doing, Place, Recorder, Restore, Thread, end_of_thread};
use super::thread_end;
use crate::cells::{EventCells, MarkCells, Owner, ThreadCells};
use crate::config::{config, manner};
use crate::errno::KeepErrno;
use crate::events::events;
use crate::graph::Graph;
use crate::mark::{Mark, is_off};
use crate::per_process::PerProcess;
use crate::registry::{Setup, forget_parents_calls, registry};
use crate::settings::{self, Variant, every, wanted};
use crate::signals::HeldBack;
use crate::switched::{CALLS, Switched};
use crate::sync::Arc;
use crate::{per_process, start};

/// The part of a thread's recorder that its first calls alone change.
pub(super) struct Books {
    /// They live as long as the cells.
    plans: Vec<*const Plan>,
    slots: Slots,
    /// The sets of events that its marks have.
    #[allow(clippy::vec_box, reason = "pointers to them are kept")]
    sets: Vec<Box<Set>>,
    /// Whether probes differ in what they cost, so that this is kept by event.
    pub(super) keeps_costs: bool,
    pub(super) cells: Arc<ThreadCells>,
}

/// A thread's first call of a mark: sets up what is missing, then begins.
#[cold]
#[inline(never)]
pub(super) fn first_call(thread: &Thread, mark: &'static Mark, poll: Option<Poll>) -> Call {
    let _errno = KeepErrno::new();
    let prepared = {
        // A mark that a handler calls meanwhile would be taken for one in an allocator.
        let _signals = HeldBack::new();
        let _restore = Restore::doing(thread, Doing::Own, thread.home());
        // When recording has ended no system call is made any more.
        if start::is_off() {
            mark.switch_off();
            return Call::NONE;
        }
        on_cold_stack(|| prepare_call(thread, mark))
    };
    let Some((recorder, plan)) = prepared else { return Call::NONE };
    // SAFETY: a plan of this thread's, whose recorder it is, and which is taken for it.
    unsafe {
        recorder.as_ref().take_for_first_call();
        let begin = (*plan).ends.get().begin;
        match poll {
            None => begin(recorder.as_ptr(), plan),
            Some(poll) => polls::begin(recorder.as_ptr(), plan, begin, poll),
        }
    }
}

/// Sets up what is missing for the mark's calls. None where they do nothing, and where nothing can be recorded: then the call is counted.
fn prepare_call(thread: &Thread, mark: &'static Mark) -> Option<(NonNull<Recorder>, *const Plan)> {
    let began = moments(thread);
    start::start();
    let Some(_setup) = Setup::begin() else {
        mark.switch_off();
        return None;
    };
    mark.register();
    // A refusal is counted, and noted in the report.
    _ = settings::apply(mark);
    let place = mark.place();
    if is_off(place) {
        return None;
    }
    let prepared = prepare(thread, mark, settings::of_place(place), &began).ok();
    if prepared.is_none() {
        forget_parents_calls();
        mark.unrecorded.fetch_add(1, Relaxed);
    }
    prepared
}

/// What the thread's slots say now.
fn moments(thread: &Thread) -> Vec<Option<Moment>> {
    // SAFETY: this thread's recorder, which nobody else uses while the thread does its own work; and its books.
    let books = thread.home().and_then(|recorder| unsafe { recorder.as_ref().books.as_ref() });
    books.map_or_else(Vec::new, |books| books.slots.iter().map(|slot| Moment::of(slot)).collect())
}

/// Makes the thread's recorder where there is none, and the mark's plan in it.
fn prepare(
    thread: &Thread,
    mark: &'static Mark,
    variant: Option<&'static Variant>,
    began: &[Option<Moment>],
) -> io::Result<(NonNull<Recorder>, *const Plan)> {
    let (events, memory) = (events()?, set_up(thread)?);
    // SAFETY: this thread's recorder, which nobody else uses while the thread does its own work; calibration ends the borrow.
    let recorder = || unsafe { &mut *memory.as_ptr() };
    // SAFETY: the same; looked up before the recorder is borrowed.
    let books = || unsafe { &mut *recorder().books };
    // A mark that has no place is known, but not found in the table; and one may have been given another place just now, where it was before.
    let place = variant.map_or_else(|| mark.own_place(), |variant| variant.place);
    let known = if place == 0 {
        books().plans().find(|plan| ptr::eq(plan.cells.mark, mark) && plan.place() == 0)
    } else {
        // SAFETY: null, or a plan of this thread's, as they live as long as the cells.
        unsafe { recorder().places[place as usize].plan.as_ref() }
    };
    if let Some(plan) = known {
        return Ok((memory, plan));
    }
    let wanted = wanted(mark, variant);
    let slots = books().slots.set_for(&wanted, events);
    let manner = manner(mark);
    let known = books().sets.iter().position(|set| set.is(&slots, manner));
    let at = known.unwrap_or_else(|| {
        let set = Set::new(&slots, &books().slots, manner);
        books().sets.push(Box::new(set));
        books().sets.len() - 1
    });
    let every = every(mark, variant);
    let keeps_costs = books().sets.len() > 1 || every > 1 || manner.is_polled;
    if keeps_costs && !books().keeps_costs {
        keep_costs(books(), recorder());
    }
    // A set is new, or what is there is read in another way, or by other marks as well: what it costs is to be found out.
    for n in 0..books().sets.len() {
        bind(thread, memory, n);
    }
    let plan = {
        let books = books();
        let set = &books.sets[at];
        let cells = set.events().map(|planned| EventCells::new(planned.slot().event)).collect();
        let cells = MarkCells::new(mark, cells, every).without(books.slots.refused_of(&wanted, events));
        let plan = Plan::new(cells, set, variant, Draws::new(every, &recorder().random));
        plan.tell();
        let plan = books.cells.add(plan);
        books.plans.push(plan);
        // SAFETY: it lives as long as the cells.
        unsafe { &*plan }.bind();
        plan
    };
    // SAFETY: it lives as long as the cells.
    recorder().place(unsafe { &*plan });
    leave_out(books(), recorder(), began);
    Ok((memory, plan))
}

impl Books {
    pub(super) fn close_counters(&mut self) {
        self.slots.close();
    }

    fn plans(&self) -> impl Iterator<Item = &Plan> {
        // SAFETY: they live as long as the cells.
        self.plans.iter().map(|&plan| unsafe { &*plan })
    }
}

/// What threads that ended had mapped. A forked child begins without.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<GivenBack>>);

/// Zeroes, and nobody's.
#[derive(Debug)]
struct GivenBack(NonNull<u8>);

// SAFETY: nobody uses it but who takes it out of the list.
unsafe impl Send for GivenBack {}

static KEPT: PerProcess<Kept> = PerProcess::new();

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Vec<GivenBack>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is mapped for a thread. Frames are reached through the stack's pointers alone, also while the whole recorder is borrowed: so their room is
/// beside it.
#[repr(C)]
struct Home {
    recorder: Recorder,
    space: Space,
}

impl Recorder {
    /// Maps one that is not set up, or takes one that was given back.
    fn map() -> io::Result<NonNull<Self>> {
        let kept = KEPT.get().ok().and_then(|kept| kept.lock().pop());
        match kept {
            Some(home) => Ok(home.0.cast()),
            None => Ok(per_process::map(size_of::<Home>())?.cast()),
        }
    }

    /// The room for its frames.
    ///
    /// # Safety
    ///
    /// It was given by [`map`](Self::map).
    unsafe fn space(recorder: NonNull<Self>) -> *mut Space {
        // SAFETY: the caller's word.
        unsafe { &raw mut (*recorder.cast::<Home>().as_ptr()).space }
    }

    /// Gives back what [`map`](Self::map) gave, for another thread: zeroed, without memory, and mapped. There are as many as there were threads at once.
    ///
    /// # Safety
    ///
    /// Nobody uses it any more, but for looking at its head.
    pub(super) unsafe fn give_back(recorder: NonNull<Self>) {
        // SAFETY: the caller's word.
        unsafe { per_process::clear(recorder.cast(), size_of::<Home>()) };
        // Without memory for the list it stays mapped, and unused.
        if let Ok(kept) = KEPT.get() {
            kept.lock().push(GivenBack(recorder.cast()));
        }
    }

    /// The mark's plan, wherever it is.
    pub(super) fn plan_of(&self, mark: &'static Mark) -> Option<&Plan> {
        let plan = self.places.get(mark.place() as usize).map_or(ptr::null(), |place| place.plan);
        // SAFETY: null, or a plan of this thread's, as they live as long as the cells.
        if let Some(plan) = unsafe { plan.as_ref() } {
            return Some(plan);
        }
        // SAFETY: this thread's, set up; its books are used by shared references only while calls are made.
        unsafe { &*self.books }.plans().find(|plan| ptr::eq(plan.cells.mark, mark))
    }

    /// Puts a plan into its place, if it has one.
    fn place(&mut self, plan: &Plan) {
        let place = plan.place();
        if place != 0 {
            self.places[place as usize] = Place { plan, begin: Some(plan.ends.get().begin) };
        }
    }
}

/// Makes the thread's recorder where there is none.
fn set_up(thread: &Thread) -> io::Result<NonNull<Recorder>> {
    /// Recorders set up so far, in this process and those that it was forked from: a guard of the parent's, or of another thread's, finds no call of
    /// its number. The numbers before the first are those of calibrations.
    static SET_UP: AtomicU64 = AtomicU64::new(1);
    let registry = registry()?;
    let memory: NonNull<Recorder> = match thread.home() {
        Some(recorder) => recorder,
        None => Recorder::map()?,
    };
    // SAFETY: this thread's own, mapped; zeroes are a recorder not set up. Nobody else uses it while the thread does its own work.
    let recorder = unsafe { &mut *memory.as_ptr() };
    if recorder.books.is_null() {
        let graph = config().has_call_graph.then(Graph::new).transpose()?;
        let first = SET_UP.fetch_add(1, Relaxed).wrapping_mul(CALLS) & SERIAL;
        let cells = Arc::new(ThreadCells::new(Owner::new(), graph, Switched::new(first)));
        registry.add(Arc::clone(&cells));
        let books = Books { plans: Vec::new(), slots: Slots::default(), sets: Vec::new(), keeps_costs: false, cells };
        // SAFETY: mapped with it.
        recorder.stack.set_up(unsafe { Recorder::space(memory) });
        recorder.stack.serial = first;
        // Another one for each thread, and in each run.
        let seed = books.cells.owner.number.wrapping_mul(SEED) ^ clock::ticks().wrapping_mul(SEED.rotate_left(32));
        recorder.random.set(seed | 1);
        recorder.graph = books.cells.graph.as_ref().map_or(ptr::null(), ptr::from_ref);
        recorder.books = Box::into_raw(Box::new(books));
        recorder.generation = registry.generation;
        recorder.own();
        thread.recorder.set(memory.as_ptr());
        thread.books.set(recorder.books);
        thread_end::call_at_end(end_of_thread, memory.as_ptr().cast());
    }
    Ok(memory)
}

/// An odd number of many different bits.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// From now on the thread keeps what probes cost by event.
fn keep_costs(books: &mut Books, recorder: &mut Recorder) {
    books.keeps_costs = true;
    let so_far = |planned: Planned<'_>, calls: u64, callers: u64| {
        let Costs { whole, extra, .. } = &planned.set.costs;
        let (whole, extra) = (whole[planned.at].get(), extra[planned.at].get());
        calls.wrapping_mul(whole).wrapping_add(callers.wrapping_mul(extra))
    };
    // Until now all calls were of the same set, the first.
    for planned in books.sets.first().iter().flat_map(|set| set.events()) {
        recorder.sums.cost[planned.at].set(so_far(planned, recorder.stack.serial, recorder.stack.callers));
    }
    for frame in recorder.stack.iter() {
        // SAFETY: a frame on the stack, of this thread, which is at nothing else.
        unsafe {
            let (serial, callers) = ((*frame.header).serial, (*frame.header).callers);
            for (planned, span) in frame.events() {
                span.cost = so_far(planned, serial & SERIAL, callers);
            }
            // No estimates so far.
            (*frame.header).callers = 0;
        }
    }
    recorder.stack.callers = 0;
}

/// Binds what the ends of a set's marks do on this thread as it is now, and finds out what their probes cost.
fn bind(thread: &Thread, memory: NonNull<Recorder>, set: usize) {
    // SAFETY: set up, and this thread's, which uses its books by shared references only while calls are made.
    let books = unsafe { &*(*memory.as_ptr()).books };
    let (set, slots) = (&books.sets[set], &books.slots);
    let key = Key::of(slots, set, books.keeps_costs);
    if set.key.borrow().as_ref() == Some(&key) {
        return;
    }
    set.bind(slots.len(), books.keeps_costs);
    let nothing = Cost::nothing(&key);
    // What is measured is what nothing was taken off.
    set.apply(&nothing);
    // Where other events hold the counters it is tried again at the next first call.
    let cost = calibrate::known(&key).or_else(|| calibrate(thread, memory, set, &key));
    set.apply(cost.as_ref().unwrap_or(&nothing));
    set.key.replace(cost.is_some().then_some(key));
    set.cost.replace(cost);
    for plan in books.plans().filter(|plan| ptr::eq(plan.set(), &raw const **set)) {
        plan.bind();
        plan.tell();
        // SAFETY: this thread's, which nobody else uses while the thread does its own work.
        unsafe { &mut *memory.as_ptr() }.place(plan);
    }
}

/// What the probe of a set costs on this thread: measured on a recorder beside the thread's own, so that nothing of the program's is touched.
fn calibrate(thread: &Thread, memory: NonNull<Recorder>, set: &Set, key: &Key) -> Option<Cost> {
    struct Here<'a> {
        thread: &'a Thread,
        beside: NonNull<Recorder>,
        marked: [&'a MarkCells; 2],
    }
    impl Calibrated for Here<'_> {
        fn as_program(&self, calls: &dyn Fn()) {
            let doing = self.thread.doing.replace(Doing::Calibration);
            let own = self.thread.recorder.replace(self.beside.as_ptr());
            calls();
            self.thread.recorder.set(own);
            self.thread.doing.set(doing);
        }

        fn so_far(&self, mark: &Mark, n: usize) -> (u64, u64) {
            let cells = self.marked.iter().find(|cells| ptr::eq(cells.mark, mark));
            cells.map_or((0, 0), |cells| cells.events[n].values.so_far())
        }
    }
    // SAFETY: set up.
    let own = unsafe { (*memory.as_ptr()).books };
    // SAFETY: the same. Calls use the books by shared references only.
    let books = unsafe { &*own };
    let beside = Recorder::map().ok()?;
    // Calls beside the program's are not in its graph.
    let graph = books.cells.graph.as_ref().map(|_| Graph::new()).transpose().ok()?;
    let plan = |mark, weight, draws| {
        let cells = set.events().map(|planned| EventCells::new(planned.slot().event)).collect();
        Plan::new(MarkCells::new(mark, cells, weight), set, None, draws)
    };
    let kinds = Kinds::of(set.manner);
    let (empty, caller) = (plan(kinds.empty, 1, Draws::default()), plan(kinds.caller, 1, Draws::default()));
    // Of each loop of calls one is drawn.
    let drawn = plan(kinds.drawn, calibrate::CALLS, Draws::default());
    let skipped = plan(kinds.skipped, u32::MAX, Draws::never());
    {
        // SAFETY: just mapped; zeroes are a recorder not set up.
        let (beside, space) = unsafe { (&mut *beside.as_ptr(), Recorder::space(beside)) };
        beside.stack.set_up(space);
        beside.books = own;
        beside.random.set(SEED);
        beside.graph = graph.as_ref().map_or(ptr::null(), ptr::from_ref);
        for plan in [&empty, &caller, &skipped, &drawn] {
            plan.bind();
            beside.place(plan);
        }
        beside.own();
        beside.set_free();
    }
    let cost = calibrate::measure(key, &books.slots, &Here { thread, beside, marked: [&empty.cells, &caller.cells] });
    // SAFETY: the thread-local names the thread's own again.
    unsafe { Recorder::give_back(beside) };
    cost
}

/// Leaves what was counted since `began` out of the open calls: it was perfmark's own work. Where that is not known they are unmeasured.
fn leave_out(books: &Books, recorder: &mut Recorder, began: &[Option<Moment>]) {
    let until_now = |slot: &Slot, began: Option<Moment>| began?.until_now(slot);
    let work: Vec<_> = books.slots.iter().zip(began).map(|(slot, began)| until_now(slot, *began)).collect();
    for frame in recorder.stack.iter() {
        // SAFETY: a frame on the stack, of this thread, which is at nothing else.
        for (planned, span) in unsafe { frame.events() } {
            match (planned.slot().counter(), work.get(planned.at).copied().flatten()) {
                (Some(_), Some(work)) => span.region.leave_out(work),
                (Some(_), None) => span.region = Region::default(),
                (None, work) => span.value += work.unwrap_or(0),
            }
        }
    }
}
