//! A thread's state, and how the two ends of a marked call find it.
//!
//! A thread's recorder lies in memory of its own that a fork wipes: zeroes mean that it is not set up, so a forked child starts cold
//! without being told. It is found through a thread-local without a destructor, which stays readable while later destructors run. A probe
//! takes it out of there, so that a mark met in a signal handler meanwhile finds none.
#![allow(unsafe_code, reason = "raw pointers to state that outlives thread-locals")]

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, compiler_fence};

use perfmark_rdpmc::Region;

use super::calibrate::{self, Calibrated, Cost, EMPTY, Key, Moment};
use super::frames::{Header, NO_FRAME, SERIAL, Space, Stack, Token};
use super::plan::{Plan, Planned};
use super::sources::{self, Slot, Slots};
use super::{errno::KeepErrno, long, probe, thread_end};
use crate::arena::Arena;
use crate::cells::{EventCells, MarkCells, Probe, ThreadCells};
use crate::config::wanted;
use crate::events::events;
use crate::mark::{Mark, PLACES};
use crate::registry::registry;
use crate::{per_process, start};

/// What the thread is doing, as far as marks are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// The program's own work, or one end of a marked call: then the recorder is taken out.
    Program,
    /// perfmark's cold work: a mark met now is in an allocator, and no call of the program's.
    Own,
    /// Calls of the mark that probes are measured by: another one met now is in a signal handler.
    Calibration,
    /// The thread's cells are folded; calls are only counted.
    Ended,
}

pub(super) struct Thread {
    /// Null if there is none yet, while a probe has taken it out, and while the thread does perfmark's own work.
    recorder: Cell<*mut Recorder>,
    /// The same, but never taken out.
    home: Cell<*mut Recorder>,
    doing: Cell<Doing>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            recorder: Cell::new(ptr::null_mut()),
            home: Cell::new(ptr::null_mut()),
            doing: Cell::new(Doing::Program),
        }
    };
}

/// A thread's state. Zeroes are one not set up.
#[repr(C)]
pub(super) struct Recorder {
    pub(super) stack: Stack,
    /// Where it is taken out of, and put back.
    thread: *const Thread,
    /// Null while not set up.
    books: *mut Books,
    /// This thread's plans by the mark's place; null where the mark was not called.
    plans: [*const Plan; PLACES],
    space: Space,
}

/// The part on the heap.
struct Books {
    #[allow(clippy::vec_box, reason = "pointers to them are kept")]
    plans: Vec<Box<Plan>>,
    slots: Slots,
    /// The sets of events that its marks have, as places in `slots`.
    sets: Vec<Vec<usize>>,
    /// Whether some plans are in no place.
    has_unplaced: bool,
    /// Whether its marks have several sets of events, so that what their probes cost is kept by event.
    keeps_costs: bool,
    cells: Arc<ThreadCells>,
}

/// A call as its guard holds it: not for another thread.
#[derive(Debug)]
pub(crate) struct Call {
    token: Token,
    thread: *const Thread,
}

impl Call {
    /// One that has no frame, and no end.
    pub(crate) const NONE: Self = Self { token: NO_FRAME, thread: ptr::null() };

    /// Whether it has to be ended.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.token != NO_FRAME
    }
}

impl Thread {
    /// Takes the recorder out. None where a probe or perfmark's own work has it, and where there is none.
    #[inline]
    fn take(&self) -> Option<NonNull<Recorder>> {
        let recorder = NonNull::new(self.recorder.get())?;
        self.recorder.set(ptr::null_mut());
        compiler_fence(SeqCst);
        Some(recorder)
    }
}

/// Puts the recorder back into its `Thread`, and gives the call that was begun.
///
/// # Safety
///
/// It was taken out of there.
#[inline]
pub(super) unsafe fn put_back(recorder: *mut Recorder, token: Token) -> Call {
    // SAFETY: the thread-local of the thread that this is, which outlives its recorder.
    let thread = unsafe { &*(*recorder).thread };
    compiler_fence(SeqCst);
    thread.recorder.set(recorder);
    Call { token, thread }
}

/// Begins a call.
#[inline(never)]
pub(crate) fn enter(mark: &'static Mark, place: u32) -> Call {
    THREAD.with(|thread| {
        let Some(recorder) = thread.take() else { return enter_without(thread, mark) };
        let recorder = recorder.as_ptr();
        // SAFETY: this thread's recorder, and a place within the table.
        let plan = unsafe { *(&raw const (*recorder).plans).cast::<*const Plan>().add(place as usize) };
        if plan.is_null() {
            thread.recorder.set(recorder);
            return first_call(thread, mark);
        }
        // SAFETY: a plan of this thread's, whose recorder it is.
        unsafe { ((*plan).ends.get().begin)(recorder, plan) }
    })
}

/// Ends a call.
#[inline]
pub(crate) fn leave(call: &Call) {
    // By value, in registers.
    leave_call(call.token, call.thread);
}

#[inline(never)]
fn leave_call(token: Token, thread: *const Thread) {
    // SAFETY: of the thread that this is: a call does not leave its thread.
    let thread = unsafe { &*thread };
    // None: a signal handler longjmps or ends a frame of the thread it interrupted. The frame stays for the next one to notice.
    let Some(recorder) = thread.take() else { return };
    let recorder = recorder.as_ptr();
    // SAFETY: this thread's recorder, in a forked child zeroes. The call begun last, if it is still open, is the innermost.
    unsafe {
        if (*recorder).stack.serial != token {
            return leave_caller(thread, recorder, token);
        }
        let header = (*recorder).stack.end.cast::<Header>().sub(1);
        ((*(*header).plan).ends.get().end_leaf)(recorder, header);
    }
}

/// Ends a call after which others were begun.
///
/// # Safety
///
/// The recorder is this thread's, taken out of `thread`.
#[inline(never)]
unsafe fn leave_caller(thread: &Thread, recorder: *mut Recorder, token: Token) {
    // SAFETY: the caller's word.
    let end = unsafe { (*recorder).stack.end };
    if end.is_null() {
        // A forked child's, wiped: its parent's calls are not its own.
        thread.recorder.set(recorder);
        return;
    }
    let header = end.cast::<Header>().wrapping_sub(1);
    // SAFETY: the innermost frame's, or the one below the first, whose serial number is no token; and the caller's word.
    unsafe {
        if (*header).serial == token {
            ((*(*header).plan).ends.get().end)(recorder, header);
        } else {
            long::leave(recorder, token);
        }
    }
}

/// Runs perfmark's own work on this thread: marks met in it (in an allocator) are no calls. None if this thread is at it already, so
/// that a lock which it holds is not taken again.
pub(crate) fn own_work<R>(work: impl FnOnce() -> R) -> Option<R> {
    THREAD.with(|thread| {
        // A probe that it interrupts holds no lock, and is in no allocator.
        if matches!(thread.doing.get(), Doing::Own | Doing::Calibration) {
            return None;
        }
        let _restore = Restore::own(thread);
        Some(work())
    })
}

/// Ends own work, also if it panics.
struct Restore<'a> {
    thread: &'a Thread,
    doing: Doing,
    recorder: *mut Recorder,
}

impl<'a> Restore<'a> {
    fn own(thread: &'a Thread) -> Self {
        let doing = thread.doing.replace(Doing::Own);
        Self { thread, doing, recorder: thread.recorder.replace(ptr::null_mut()) }
    }
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.thread.recorder.set(self.recorder);
        self.thread.doing.set(self.doing);
    }
}

impl Recorder {
    /// Where its histograms grow.
    pub(super) fn arena(&self) -> &Arena {
        // SAFETY: a recorder whose calls end is set up.
        &unsafe { &*self.books }.cells.arena
    }

    /// Whether marks have several sets of events, so that what their probes cost is kept by event.
    pub(super) fn keeps_costs(&self) -> bool {
        // SAFETY: as above.
        unsafe { &*self.books }.keeps_costs
    }

    /// Puts a plan into its place, if it has one.
    fn place(&mut self, place: usize, plan: *const Plan) {
        if place != 0 {
            self.plans[place] = plan;
        }
    }

    /// Takes note of a probe's cost: the whole, or what a caller's has more.
    pub(super) fn pay(&self, plan: &Plan, which: impl Fn((u64, u64)) -> u64) {
        // SAFETY: as above.
        for (slot, cost) in unsafe { &*self.books }.slots.iter().zip(&*plan.costs.borrow()) {
            slot.cost.set(slot.cost.get().wrapping_add(which(*cost)));
        }
    }
}

/// A call where there is no recorder to be taken: the thread's first, or one made by perfmark's own work, or by a signal handler.
#[cold]
#[inline(never)]
fn enter_without(thread: &Thread, mark: &'static Mark) -> Call {
    let count = match thread.doing.get() {
        Doing::Program if thread.home.get().is_null() => return first_call(thread, mark),
        Doing::Program | Doing::Calibration => &mark.interrupted,
        Doing::Ended => &mark.unrecorded,
        Doing::Own => return Call::NONE,
    };
    mark.register();
    count.fetch_add(1, Relaxed);
    Call::NONE
}

/// A thread's first call of a mark: sets up what is missing, then begins.
#[cold]
#[inline(never)]
fn first_call(thread: &Thread, mark: &'static Mark) -> Call {
    let _errno = KeepErrno::new();
    if thread.doing.get() == Doing::Calibration {
        return enter_without(thread, mark);
    }
    let prepared = {
        let _restore = Restore::own(thread);
        let began = moments(thread);
        start::start();
        if start::is_off() {
            mark.switch_off();
            return Call::NONE;
        }
        mark.register();
        prepare(thread, mark, &began)
    };
    let Ok((memory, plan)) = prepared else {
        mark.unrecorded.fetch_add(1, Relaxed);
        return Call::NONE;
    };
    // Taken out, as for every probe.
    thread.recorder.set(ptr::null_mut());
    compiler_fence(SeqCst);
    // SAFETY: a plan of this thread's, whose recorder it is.
    unsafe { ((*plan).ends.get().begin)(memory.as_ptr(), plan) }
}

/// What the thread's slots say now.
fn moments(thread: &Thread) -> Vec<Option<Moment>> {
    // SAFETY: null, or this thread's recorder, which nobody else uses while the thread does its own work; and its books.
    let books = unsafe { thread.home.get().as_ref().and_then(|recorder| recorder.books.as_ref()) };
    books.map_or_else(Vec::new, |books| books.slots.iter().map(|slot| Moment::of(slot)).collect())
}

/// Makes the thread's recorder where there is none, and the mark's plan in it.
fn prepare(
    thread: &Thread,
    mark: &'static Mark,
    began: &[Option<Moment>],
) -> io::Result<(NonNull<Recorder>, *const Plan)> {
    let (events, memory) = (events()?, set_up(thread)?);
    // SAFETY: this thread's recorder, which nobody else uses while the thread does its own work; calibration ends the borrow.
    let recorder = || unsafe { &mut *memory.as_ptr() };
    // SAFETY: the same.
    let books = || unsafe { &mut *recorder().books };
    let place = mark.place() as usize;
    // A mark that has no place, or had none yet when it was called first: known, but not found in the table.
    let is_unplaced = place == 0 || books().has_unplaced;
    let known = books().plans.iter().find(|plan| {
        // SAFETY: cells live as long as the books.
        is_unplaced && ptr::eq(unsafe { (*plan.cells).mark }, mark)
    });
    if let Some(plan) = known {
        let plan = &raw const **plan;
        recorder().place(place, plan);
        return Ok((memory, plan));
    }
    let mut slots = sources::slots_for(&wanted(mark), &mut books().slots, events);
    // Time first, then the counters as they were opened: marks that name the same events in another order have the same set.
    slots.sort_by_key(|&at| (books().slots[at].counter().is_some(), at));
    let known = books().sets.iter().position(|set| *set == slots);
    let set = known.unwrap_or_else(|| books().sets.len());
    if known.is_none() {
        books().sets.push(slots);
        if set > 0 {
            keep_costs(recorder(), books());
            for known in 0..set {
                let cost = calibrate(thread, memory, known);
                books().plans.iter().filter(|plan| plan.set == known).for_each(|plan| apply(plan, &cost, true));
            }
        }
    }
    let cost = calibrate(thread, memory, set);
    let plan = {
        let books = books();
        let slots = &books.sets[set];
        let probe = |n: usize| Probe { own: cost.own[n], whole: cost.whole[slots[n]], noise: cost.noise[n] };
        let cells = slots.iter().enumerate().map(|(n, &at)| EventCells::new(books.slots[at].event, probe(n))).collect();
        let cells = books.cells.add(MarkCells::new(mark, cells));
        let plan = Box::new(plan_for(books, cells, set));
        apply(&plan, &cost, books.keeps_costs);
        books.plans.push(plan);
        books.plans.last().map_or(ptr::null(), |plan| &raw const **plan)
    };
    books().has_unplaced |= place == 0;
    recorder().place(place, plan);
    leave_out(recorder(), books(), began);
    Ok((memory, plan))
}

/// Makes the thread's recorder where there is none.
fn set_up(thread: &Thread) -> io::Result<NonNull<Recorder>> {
    /// Recorders set up so far, in this process and those that it was forked from: a guard of the parent's finds no call of its number.
    static SET_UP: AtomicU64 = AtomicU64::new(0);
    /// Calls of a thread have numbers below it.
    const CALLS: u64 = 1 << 40;
    let registry = registry()?;
    let memory: NonNull<Recorder> = match NonNull::new(thread.home.get()) {
        Some(recorder) => recorder,
        None => per_process::map(size_of::<Recorder>())?.cast(),
    };
    // SAFETY: this thread's own, mapped; zeroes are a recorder not set up. Nobody else uses it while the thread does its own work.
    let recorder = unsafe { &mut *memory.as_ptr() };
    if recorder.books.is_null() {
        let cells = Arc::new(ThreadCells::new());
        registry.add(Arc::clone(&cells));
        let books = Books {
            plans: Vec::new(),
            slots: Vec::new(),
            sets: Vec::new(),
            has_unplaced: false,
            keeps_costs: false,
            cells,
        };
        recorder.books = Box::into_raw(Box::new(books));
        recorder.stack.set_up(&raw mut recorder.space);
        recorder.stack.serial = (SET_UP.fetch_add(1, Relaxed) * CALLS) & SERIAL;
        recorder.thread = thread;
        thread.home.set(memory.as_ptr());
        thread_end::call_at_end(end_of_thread, memory.as_ptr().cast());
    }
    Ok(memory)
}

/// A plan for the events of `set`, with that place for its figures.
fn plan_for(books: &Books, cells: *const MarkCells, set: usize) -> Plan {
    let slots = &books.sets[set];
    let events: Box<[Planned]> = slots.iter().map(|&at| Planned::new(&books.slots[at], at)).collect();
    let is_long = books.keeps_costs || slots.iter().any(|&at| books.slots[at].is_kernels());
    let ends = if is_long { long::ENDS } else { probe::ends(&events) };
    let costs = RefCell::new(vec![(0, 0); books.slots.len()]);
    Plan { ends: Cell::new(ends), cells, events, set, costs }
}

/// Takes note of what a plan's probe costs.
fn apply(plan: &Plan, cost: &Cost, keeps_costs: bool) {
    for (n, planned) in plan.events.iter().enumerate() {
        planned.own.set(cost.own[n]);
        planned.own_caller.set(cost.own_caller[n]);
        planned.whole.set(cost.whole[planned.at]);
        planned.extra.set(cost.extra[planned.at]);
    }
    if keeps_costs {
        plan.costs.replace(cost.whole.iter().copied().zip(cost.extra.iter().copied()).collect());
    }
}

/// From now on the thread keeps what probes cost by event: its marks have several sets of events.
fn keep_costs(recorder: &mut Recorder, books: &mut Books) {
    let so_far = |planned: &Planned, calls: u64, callers: u64| {
        calls.wrapping_mul(planned.whole.get()).wrapping_add(callers.wrapping_mul(planned.extra.get()))
    };
    if std::mem::replace(&mut books.keeps_costs, true) {
        return;
    }
    for plan in &books.plans {
        plan.ends.set(long::ENDS);
        for planned in &plan.events {
            planned.slot().cost.set(so_far(planned, recorder.stack.serial, recorder.stack.callers));
        }
    }
    for frame in recorder.stack.iter() {
        // SAFETY: a frame on the stack, of this thread, which is at nothing else.
        unsafe {
            let Header { serial, callers, .. } = *frame.header;
            for (planned, span) in frame.events() {
                span.cost = so_far(planned, serial & SERIAL, callers);
            }
        }
    }
}

/// What the probe of a set costs on this thread: measured on a recorder beside the thread's own, so that nothing of the program's is touched.
fn calibrate(thread: &Thread, memory: NonNull<Recorder>, set: usize) -> Cost {
    struct Here<'a> {
        thread: &'a Thread,
        beside: NonNull<Recorder>,
        cells: &'a MarkCells,
    }
    impl Calibrated for Here<'_> {
        fn as_program(&self, calls: &dyn Fn()) {
            let doing = self.thread.doing.replace(Doing::Calibration);
            let own = self.thread.recorder.replace(self.beside.as_ptr());
            calls();
            self.thread.recorder.set(own);
            self.thread.doing.set(doing);
        }

        fn so_far(&self, n: usize) -> (u64, u64) {
            self.cells.events[n].values.so_far()
        }
    }
    // SAFETY: set up.
    let own = unsafe { (*memory.as_ptr()).books };
    // SAFETY: the same. Calls use the books by shared references only.
    let books = unsafe { &*own };
    let slots = &books.sets[set];
    let kind = |slot: &Slot| slot.source.is_some().then(|| (slot.event, slot.is_kernels()));
    let events = books.slots.iter().map(|slot| kind(slot)).collect();
    let key = Key { events, set: slots.clone(), keeps_costs: books.keeps_costs };
    if let Some(cost) = calibrate::known(&key) {
        return cost;
    }
    let unknown = || Cost::nothing(slots.len(), books.slots.len());
    let Ok(beside) = per_process::map(size_of::<Recorder>()) else { return unknown() };
    let beside: NonNull<Recorder> = beside.cast();
    let cells = slots.iter().map(|&at| EventCells::new(books.slots[at].event, Probe::default())).collect();
    let cells = MarkCells::new(&EMPTY, cells);
    let plan = plan_for(books, &raw const cells, set);
    let kept: Vec<(u64, u64)> = books.slots.iter().map(|slot| (slot.inside.get(), slot.cost.get())).collect();
    {
        // SAFETY: just mapped; zeroes are a recorder not set up.
        let beside = unsafe { &mut *beside.as_ptr() };
        beside.stack.set_up(&raw mut beside.space);
        (beside.thread, beside.books) = (thread, own);
        beside.place(EMPTY.place() as usize, &raw const plan);
    }
    let cost = calibrate::measure(&key, &books.slots, &Here { thread, beside, cells: &cells });
    for (slot, (inside, cost)) in books.slots.iter().zip(kept) {
        slot.inside.set(inside);
        slot.cost.set(cost);
    }
    // SAFETY: the thread-local names the thread's own again.
    unsafe { per_process::unmap(beside.cast(), size_of::<Recorder>()) };
    cost.unwrap_or_else(unknown)
}

/// Leaves what was counted since `began` out of the open calls: it was perfmark's own work. Where that is not known they are unmeasured.
fn leave_out(recorder: &mut Recorder, books: &Books, began: &[Option<Moment>]) {
    let slots = books.slots.iter().zip(began);
    let work: Vec<Option<u64>> = slots.map(|(slot, began)| began.and_then(|began| began.until_now(slot))).collect();
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

/// Makes what the process needs once while it has one thread: a fork in the middle of it would leave the child waiting for a thread that
/// it does not have.
pub(crate) fn prepare_process() {
    own_work(|| {
        // Where they cannot be had, the first call finds out, and says so.
        _ = (registry(), events());
        calibrate::prepare();
        thread_end::prepare();
    });
}

/// Folds the thread's cells, closes its counters, and gives its memory back.
unsafe extern "C" fn end_of_thread(recorder: *mut c_void) {
    let Some(memory) = NonNull::new(recorder.cast::<Recorder>()) else { return };
    let _errno = KeepErrno::new();
    THREAD.with(|thread| {
        thread.doing.set(Doing::Own);
        thread.recorder.set(ptr::null_mut());
        thread.home.set(ptr::null_mut());
        // SAFETY: this thread's recorder, still mapped; after a fork it is not set up.
        let books = unsafe { memory.as_ref() }.books;
        if !books.is_null() {
            // SAFETY: made by `prepare`.
            let books = unsafe { Box::from_raw(books) };
            if let Ok(registry) = registry() {
                registry.retire(&books.cells);
            }
        }
        // SAFETY: the thread-local no longer names it.
        unsafe { per_process::unmap(memory.cast(), size_of::<Recorder>()) };
        thread.doing.set(Doing::Ended);
    });
}
