//! A thread's state, and how the two ends of a marked call find it.
//!
//! A thread's recorder lies in memory of its own that a fork wipes: zeroes mean that it is not set up, so a forked child starts cold
//! without being told. It is found through a thread-local without a destructor, which stays readable while later destructors run. A probe
//! takes it while it is at work, so that a mark met in a signal handler meanwhile leaves it alone.
#![allow(unsafe_code, reason = "raw pointers to state that outlives thread-locals")]

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize, compiler_fence};
use std::thread::panicking;

use super::calibrate;
use super::first_call::{Books, first_call};
use super::frames::{Header, NO_FRAME, SERIAL, Stack, Token};
use super::identity;
use super::long;
use super::plan::{Begin, Plan, Sums};
use super::polls::{self, Poll};
use super::thread_end;
use crate::arena::Arena;
use crate::cells::{OpenCall, ThreadCells};
use crate::errno::KeepErrno;
use crate::events::events;
use crate::graph::Graph;
use crate::mark::{Mark, PLACES};
use crate::per_process::WATCHED;
use crate::registry::{Setup, registry};
use crate::signals::HeldBack;
use crate::start;

/// What the thread is doing, as far as marks are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// The program's own work, or one end of a marked call: then the recorder is taken.
    Program,
    /// perfmark's cold work: a mark met now is in an allocator, and no call of the program's, as signal handlers wait.
    Own,
    /// Calls of the marks that probes are measured by: another one met now is in a signal handler.
    Calibration,
    /// The thread's cells are folded; calls are only counted.
    Ended,
}

pub(super) struct Thread {
    /// [`NOBODY`] if there is none yet, or none any more.
    pub(super) recorder: Cell<*mut Recorder>,
    pub(super) doing: Cell<Doing>,
    /// The recorder's books, where a leak checker sees them, which does not look into mapped memory.
    pub(super) books: Cell<*const Books>,
}

/// Stands in for a recorder that is never free.
static NOBODY: AtomicUsize = AtomicUsize::new(0);

const NO_RECORDER: *mut Recorder = (&raw const NOBODY).cast_mut().cast();

thread_local! {
    static THREAD: Thread = const {
        Thread { recorder: Cell::new(NO_RECORDER), doing: Cell::new(Doing::Program), books: Cell::new(ptr::null()) }
    };
}

/// What a recorder begins with.
#[repr(C)]
struct Head {
    /// Not 0 while it can be taken. Only the thread itself uses it, in signal handlers, too; another one that ends a call
    /// which began here loads it.
    free: AtomicUsize,
    /// The [identity](identity::of_thread) of the thread that it is set up for. Other threads look at it, too.
    owner: AtomicUsize,
}

const _: () = assert!(size_of::<Head>() == WATCHED * size_of::<usize>());

/// A thread's state. Zeroes are one not set up.
///
/// Its memory is never unmapped, as a call may end on another thread, which looks at the head: it is [kept for another one](Recorder::give_back).
#[repr(C)]
pub(super) struct Recorder {
    head: Head,
    pub(super) stack: Stack,
    /// Of its process.
    pub(super) generation: u8,
    /// Null while not set up.
    pub(super) books: *mut Books,
    /// Who was called under whom; null where that is not asked for.
    pub(super) graph: *const Graph,
    pub(super) sums: Sums,
    /// Draws the calls that are measured, of marks of which one call in some is.
    pub(super) random: Cell<u64>,
    /// By the mark's place.
    pub(super) places: [Place; PLACES],
}

/// A mark's plan, and how its calls begin: none where the mark was not called on this thread.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Place {
    pub(super) plan: *const Plan,
    pub(super) begin: Option<Begin>,
}

/// A call as its guard holds it: not for another thread.
///
/// The recorder's type is not in its own, because debug information would describe all that it is made of in each unit of the user's code.
#[derive(Debug)]
pub(crate) struct Call {
    recorder: *mut (),
    pub(super) token: Token,
}

impl Call {
    /// One that has no frame, and no end.
    pub(crate) const NONE: Self = Self { recorder: ptr::null_mut(), token: NO_FRAME };

    #[inline]
    pub(super) fn recorder(&self) -> *mut Recorder {
        self.recorder.cast()
    }

    /// Whether it has no recorder, and so was not begun.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.recorder.is_null()
    }

    /// Whether it has to be ended.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.token != NO_FRAME
    }

    /// Its recorder, which is not null, for [`leave`]; the type is not for users' crates.
    #[inline]
    pub(crate) fn parts(&self) -> (*mut (), Token) {
        (self.recorder, self.token)
    }

    /// Whether it, which was begun, ends on the thread on which it began: not always where a program switches stacks.
    #[inline]
    pub(super) fn is_own(&self) -> bool {
        // SAFETY: a call's.
        unsafe { is_own(self.recorder()) }
    }
}

/// Whether it is this thread's. That of a thread that has ended is nobody's, or already another thread's: then the call
/// is not found there.
///
/// # Safety
///
/// What a recorder is in, or was.
#[inline]
unsafe fn is_own(recorder: *mut Recorder) -> bool {
    // SAFETY: it stays mapped for ever, and the owner is an atomic.
    let owner = unsafe { &(*recorder).head.owner };
    owner.load(Relaxed) == identity::of_thread()
}

impl Thread {
    /// Whether this is a child that was forked from the thread's process: the recorder of that was wiped, its owner with it.
    fn is_forked(&self) -> bool {
        // SAFETY: this thread's recorder, still mapped, whose owner is an atomic.
        self.home().is_some_and(|recorder| unsafe { &recorder.as_ref().head }.owner.load(Relaxed) == 0)
    }

    /// Its recorder, if there is one.
    pub(super) fn home(&self) -> Option<NonNull<Recorder>> {
        NonNull::new(self.recorder.get()).filter(|recorder| recorder.as_ptr() != NO_RECORDER)
    }
}

/// Takes the recorder. False where a probe or perfmark's own work has it, and where there is none.
///
/// # Safety
///
/// This thread's, or the one that is never free.
#[inline]
pub(super) unsafe fn take(recorder: *mut Recorder) -> bool {
    // SAFETY: the caller's word. The first field is all there is of the one that is never free.
    let free = unsafe { &(*recorder).head.free };
    if free.load(Relaxed) == 0 {
        return false;
    }
    free.store(0, Relaxed);
    compiler_fence(SeqCst);
    true
}

/// Gives the recorder back, and the call that was begun.
///
/// # Safety
///
/// It was taken.
#[inline]
pub(super) unsafe fn put_back(recorder: *mut Recorder, token: Token) -> Call {
    compiler_fence(SeqCst);
    // SAFETY: the caller's word. Its address is not 0.
    unsafe { (*recorder).head.free.store(recorder.addr(), Relaxed) };
    Call { recorder: recorder.cast(), token }
}

/// Begins a call of the mark with that place. [None](Call::is_none) where that takes [`enter_unusual`], which the marked
/// function calls itself, so that the mark is not kept here.
///
/// The thread-local is found here, and not in the marked function: there it would take fewer instructions in some crates
/// than in others, and than in the calls by which probes are measured.
#[inline(never)]
pub(crate) fn enter(place: u32) -> Call {
    let (recorder, plan, begin) = take_for(place);
    // SAFETY: taken, with a plan of this thread's; or nothing is done with them.
    unsafe { begin(recorder, plan) }
}

/// The same for a poll, which is a part of a call.
#[inline(never)]
pub(super) fn enter_poll(place: u32, poll: Poll) -> Call {
    let (recorder, plan, begin) = take_for(place);
    if plan.is_null() {
        return Call::NONE;
    }
    // SAFETY: taken, with a plan of this thread's.
    unsafe { polls::begin(recorder, plan, begin, poll) }
}

/// Takes this thread's recorder for a mark with that place, whose plan it has. Otherwise the plan is null and `Begin`
/// does nothing: the caller calls one function in both cases, as a tail call.
#[inline(always)]
#[allow(clippy::inline_always, reason = "it is nearly all that its callers do")]
fn take_for(place: u32) -> (*mut Recorder, *const Plan, Begin) {
    let nothing: Begin = |_, _| Call::NONE;
    let recorder = THREAD.with(|thread| thread.recorder.get());
    // SAFETY: this thread's recorder, or the one that is never free; a place within the table.
    unsafe {
        if !take(recorder) {
            return (recorder, ptr::null(), nothing);
        }
        let Place { plan, begin } = *(&raw const (*recorder).places).cast::<Place>().add(place as usize);
        let Some(begin) = begin else {
            _ = put_back(recorder, NO_FRAME);
            return (recorder, ptr::null(), nothing);
        };
        (recorder, plan, begin)
    }
}

/// Takes note that a panic was under way when the call began, which is the one begun last.
pub(crate) fn note_panic(recorder: *mut (), token: Token) -> Call {
    let recorder = recorder.cast::<Recorder>();
    // SAFETY: this thread's recorder; a call that has a frame has one.
    unsafe {
        if token == NO_FRAME || !take(recorder) {
            return Call { recorder: recorder.cast(), token };
        }
        let token = long::note_panic(recorder, token);
        _ = put_back(recorder, NO_FRAME);
        Call { recorder: recorder.cast(), token }
    }
}

/// Ends a call of the mark that came to its end.
///
/// It is given parts of the call, in registers, as a pointer to it would keep it in memory.
#[inline(never)]
pub(crate) fn leave(recorder: *mut (), token: Token, mark: &'static Mark) {
    let recorder = recorder.cast::<Recorder>();
    // SAFETY: what a recorder is in stays mapped for ever, and its head is atomics. One that is this thread's is taken
    // before more of it is looked at. `serial` is the token only if the call with that token was begun last and its frame
    // is still there: whatever removes frames otherwise, or counts a call without one, raises `serial`.
    unsafe {
        let Head { free, owner } = &(*recorder).head;
        // One comparison, without a branch in between.
        if (owner.load(Relaxed) != identity::of_thread()) | (free.load(Relaxed) == 0) {
            return leave_untaken(recorder, token, mark);
        }
        free.store(0, Relaxed);
        compiler_fence(SeqCst);
        let Stack { end, serial, .. } = (*recorder).stack;
        // The call begun last, if it is still open, is the innermost.
        if serial != token {
            return leave_caller(recorder, token);
        }
        let header = end.cast::<Header>().sub(1);
        ((*(*header).plan).ends.get().end_leaf)(recorder, header);
    }
}

/// Ends a call of the mark that was left by `return`, `?` or a panic, or whose guard is dropped.
#[inline(never)]
pub(crate) fn leave_early(recorder: *mut (), token: Token, mark: &'static Mark) {
    if panicking() { leave_panicking(recorder, token, mark) } else { leave(recorder, token, mark) }
}

#[cold]
#[inline(never)]
fn leave_panicking(recorder: *mut (), token: Token, mark: &'static Mark) {
    let recorder = recorder.cast::<Recorder>();
    // SAFETY: as in `leave`.
    unsafe {
        if is_own(recorder) && take(recorder) {
            long::leave(recorder, token, true);
        } else {
            leave_untaken(recorder, token, mark);
        }
    }
}

/// Ends a call after which others were begun.
///
/// # Safety
///
/// The recorder is this thread's, taken.
#[inline(never)]
unsafe fn leave_caller(recorder: *mut Recorder, token: Token) {
    // SAFETY: the innermost frame's, or the one below the first, whose serial number is no token; and the caller's word.
    unsafe {
        let header = (*recorder).stack.end.cast::<Header>().sub(1);
        if (*header).serial == token {
            ((*(*header).plan).ends.get().end)(recorder, header);
        } else {
            long::leave(recorder, token, false);
        }
    }
}

/// Ends a call whose recorder cannot be taken. If it is another thread's, the call began there. Otherwise a signal
/// handler interrupted entry or exit code and ends a call here, or jumps: the frame stays until the next call removes it.
///
/// # Safety
///
/// As [`is_own`].
#[cold]
#[inline(never)]
unsafe fn leave_untaken(recorder: *mut Recorder, token: Token, mark: &'static Mark) {
    // SAFETY: the caller's word.
    if !unsafe { is_own(recorder) } {
        leave_elsewhere(mark, token);
    }
}

/// Ends a call that began on another thread, which may have ended. One of the process that this one was forked from is no
/// call of this one.
pub(super) fn leave_elsewhere(mark: &'static Mark, token: Token) {
    // A parent's calls are not the child's. When recording has ended no system call is made any more.
    if THREAD.with(Thread::is_forked) || start::is_off() {
        return;
    }
    let _errno = KeepErrno::new();
    own_work(|| {
        if let Ok(registry) = registry() {
            registry.end_elsewhere(mark, token & SERIAL);
        }
    });
}

/// Begins a call where there is no plan of its mark, or no recorder to be taken: the thread's first, or one made by
/// perfmark's own work, or by a signal handler.
#[cold]
#[inline(never)]
pub(crate) fn enter_unusual(mark: &'static Mark) -> Call {
    begin_unusual(mark, None)
}

/// The same for a call or a poll.
pub(super) fn begin_unusual(mark: &'static Mark, poll: Option<Poll>) -> Call {
    // Before anything that takes a system call.
    if start::is_off() {
        mark.switch_off();
        return Call::NONE;
    }
    THREAD.with(|thread| {
        let is_busy = || {
            // SAFETY: this thread's recorder, whose books nobody changes.
            let is_set_up = |recorder: NonNull<Recorder>| unsafe { !(*recorder.as_ptr()).books.is_null() };
            thread.home().is_some_and(|recorder| {
                is_set_up(recorder) && free(recorder.as_ptr()).is_some_and(|free| free.load(Relaxed) == 0)
            })
        };
        match thread.doing.get() {
            Doing::Program if !is_busy() => first_call(thread, mark, poll),
            Doing::Own => Call::NONE,
            // A call is counted at its first poll.
            _ if poll.is_some_and(|poll| poll != Poll::First) => Call::NONE,
            Doing::Program | Doing::Calibration => count_only(mark, &mark.interrupted),
            Doing::Ended => count_only(mark, &mark.unrecorded),
        }
    })
}

fn count_only(mark: &'static Mark, count: &AtomicU64) -> Call {
    mark.register();
    count.fetch_add(1, Relaxed);
    Call::NONE
}

/// Whether the recorder can be taken; None for the one that never can.
fn free<'a>(recorder: *mut Recorder) -> Option<&'a AtomicUsize> {
    // SAFETY: this thread's recorder, mapped as long as the thread's state names it.
    (recorder != NO_RECORDER).then(|| unsafe { &(*recorder).head.free })
}

/// Runs perfmark's own work on this thread: marks met in it (in an allocator) are no calls. None if this thread is at it already, so
/// that a lock which it holds is not taken again.
pub(crate) fn own_work<R>(work: impl FnOnce() -> R) -> Option<R> {
    THREAD.with(|thread| {
        // A probe that it interrupts holds no lock, and is in no allocator.
        if matches!(thread.doing.get(), Doing::Own | Doing::Calibration) {
            return None;
        }
        let _signals = HeldBack::new();
        let _restore = Restore::doing(thread, Doing::Own, thread.home());
        Some(work())
    })
}

/// Takes this thread's recorder for some work. Nothing is done where it has none, or where it is taken.
pub(super) fn with_recorder(work: impl FnOnce(&Recorder)) {
    THREAD.with(|thread| {
        let recorder = thread.recorder.get();
        // SAFETY: this thread's recorder, or the one that is never free; one that can be taken is set up.
        unsafe {
            if take(recorder) {
                work(&*recorder);
                put_back(recorder, NO_FRAME);
            }
        }
    });
}

/// What this thread's open calls cost so far, with its number among those that recorded. None if it recorded nothing. To be called in its
/// [own work](own_work).
pub(crate) fn in_flight() -> Option<(u64, Vec<OpenCall>)> {
    // SAFETY: this thread's recorder, which its own work has taken; zeroes are one not set up, and its books are read only.
    unsafe {
        let recorder = THREAD.with(Thread::home)?.as_ptr();
        let number = (*recorder).books.as_ref()?.cells.owner.number;
        // A call that ended on another thread goes on no more.
        long::forget_ended(recorder);
        Some((number, (*recorder).in_flight()))
    }
}

/// Ends what the thread is doing, also if that panics.
pub(super) struct Restore<'a> {
    thread: &'a Thread,
    doing: Doing,
    recorder: *mut Recorder,
    free: usize,
}

impl<'a> Restore<'a> {
    /// Nobody takes the recorder meanwhile.
    pub(super) fn doing(thread: &'a Thread, doing: Doing, recorder: Option<NonNull<Recorder>>) -> Self {
        let doing = thread.doing.replace(doing);
        let recorder = recorder.map_or(NO_RECORDER, NonNull::as_ptr);
        Self { thread, doing, recorder, free: free(recorder).map_or(0, |free| free.swap(0, Relaxed)) }
    }
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        if let Some(free) = free(self.recorder) {
            free.store(self.free, Relaxed);
        }
        self.thread.doing.set(self.doing);
    }
}

impl Recorder {
    /// From now on it can be taken.
    pub(super) fn set_free(&self) {
        self.head.free.store(ptr::from_ref(self).addr(), Relaxed);
    }

    /// It is this thread's.
    pub(super) fn own(&self) {
        self.head.owner.store(identity::of_thread(), Relaxed);
    }

    /// Takes it for the call whose plan was just made.
    pub(super) fn take_for_first_call(&self) {
        self.head.free.store(0, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Its thread's cells.
    pub(super) fn cells(&self) -> &ThreadCells {
        // SAFETY: a recorder whose calls end is set up.
        &unsafe { &*self.books }.cells
    }

    /// Where its histograms grow.
    pub(super) fn arena(&self) -> &Arena {
        &self.cells().arena
    }

    /// Who was called under whom, where that is asked for.
    pub(super) fn graph(&self) -> Option<&Graph> {
        // SAFETY: as above.
        unsafe { self.graph.as_ref() }
    }

    /// Whether marks have several sets of events, so that what their probes cost is kept by event.
    pub(super) fn keeps_costs(&self) -> bool {
        // SAFETY: as above.
        unsafe { &*self.books }.keeps_costs
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

/// Ends recording on this thread for good, when it has ended everywhere: closes its counters. Calls that are open here end as calls of nobody.
pub(crate) fn close_thread() {
    THREAD.with(|thread| {
        let Some(recorder) = thread.home().filter(|_| thread.doing.get() == Doing::Program) else { return };
        let (_errno, _signals) = (KeepErrno::new(), HeldBack::new());
        // SAFETY: this thread's recorder. Nobody else uses its books: nobody has taken it, and nobody takes it any more.
        unsafe {
            // A signal handler that interrupted one end of a call leaves everything as it is.
            if take(recorder.as_ptr())
                && let Some(books) = (*recorder.as_ptr()).books.as_mut()
            {
                books.close_counters();
                (*recorder.as_ptr()).stack.clear();
            }
        }
        thread.doing.set(Doing::Ended);
    });
}

/// Folds the thread's cells, closes its counters, and gives its memory back.
pub(super) unsafe extern "C" fn end_of_thread(recorder: *mut c_void) {
    let Some(memory) = NonNull::new(recorder.cast::<Recorder>()) else { return };
    // When recording has ended nothing is done that takes a system call: what the thread holds ends with the process.
    let Some(_setup) = Setup::begin() else { return };
    let (_errno, _signals) = (KeepErrno::new(), HeldBack::new());
    THREAD.with(|thread| {
        thread.doing.set(Doing::Own);
        thread.recorder.set(NO_RECORDER);
        // SAFETY: this thread's recorder, still mapped; after a fork it is not set up.
        let books = unsafe { memory.as_ref() }.books;
        if !books.is_null() {
            // SAFETY: made by `set_up`.
            let books = unsafe { Box::from_raw(books) };
            if let Ok(registry) = registry() {
                registry.retire(&books.cells);
            }
        }
        // SAFETY: the thread-local no longer names it.
        unsafe { Recorder::give_back(memory) };
        thread.doing.set(Doing::Ended);
    });
}
