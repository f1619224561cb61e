//! A thread's state, and how the two ends of a marked call find it.
//!
//! A thread's recorder lies in memory of its own that a fork wipes: zeroes mean that it is not set up, so a forked child starts cold
//! without being told. It is found through a thread-local without a destructor, which stays readable while later destructors run.
#![allow(unsafe_code, reason = "raw pointers to state that outlives thread-locals")]

use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;

use super::frames::Frames;
use super::probe::{NO_FRAME, Token, begin, end, end_out_of_order};
use super::sources::{self, Slot};
use super::{errno::KeepErrno, thread_end};
use crate::cells::{EventCells, MarkCells, ThreadCells};
use crate::config::config;
use crate::events::{What, events};
use crate::mark::Mark;
use crate::registry::registry;
use crate::{per_process, start};

/// What the thread is doing, as far as marks are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// The program's own work.
    Program,
    /// One end of a marked call: a mark met now is in a signal handler.
    Probe,
    /// perfmark's cold work: a mark met now is in an allocator, and no call of the program's.
    Own,
    /// The thread's cells are folded; calls are only counted.
    Ended,
}

struct Thread {
    doing: Cell<Doing>,
    recorder: Cell<*mut Recorder>,
}

thread_local! {
    static THREAD: Thread =
        const { Thread { doing: Cell::new(Doing::Program), recorder: Cell::new(ptr::null_mut()) } };
}

/// A thread's state. Zeroes are one not set up.
struct Recorder {
    /// Null while not set up.
    books: *mut Books,
    frames: Frames,
}

/// The part on the heap.
struct Books {
    /// This thread's cells by the mark's index; null where the mark was not called.
    marks: Vec<*const MarkCells>,
    slots: Vec<Slot>,
    cells: Arc<ThreadCells>,
}

/// Begins a call.
#[inline(never)]
pub(crate) fn enter(mark: &'static Mark) -> Token {
    THREAD.with(|thread| {
        if thread.doing.get() != Doing::Program {
            return met_at_work(thread, mark);
        }
        thread.doing.set(Doing::Probe);
        compiler_fence(SeqCst);
        // SAFETY: null, or this thread's live recorder, which nobody else uses while the thread is in a probe.
        let recorder = unsafe { thread.recorder.get().as_mut() };
        let token = match recorder.and_then(|recorder| recorder.known(mark)) {
            Some((books, cells, frames)) => begin(&mut books.slots, cells, frames),
            None => first_call(thread, mark),
        };
        compiler_fence(SeqCst);
        thread.doing.set(Doing::Program);
        token
    })
}

/// Ends the call that `enter` gave the token for.
#[inline(never)]
pub(crate) fn leave(token: Token) {
    THREAD.with(|thread| {
        if thread.doing.get() != Doing::Program {
            // A signal handler longjmps or ends a frame of the thread it interrupted: its own frame stays for the next one to notice.
            return;
        }
        thread.doing.set(Doing::Probe);
        compiler_fence(SeqCst);
        // SAFETY: as in `enter`.
        if let Some(recorder) = unsafe { thread.recorder.get().as_mut() } {
            // SAFETY: null, or this recorder's live books.
            if let Some(books) = unsafe { recorder.books.as_mut() }
                && !end(&mut books.slots, &mut recorder.frames, &books.cells.arena, token)
            {
                end_out_of_order(&mut books.slots, &mut recorder.frames, &books.cells.arena, token);
            }
        }
        compiler_fence(SeqCst);
        thread.doing.set(Doing::Program);
    });
}

/// Runs perfmark's own work on this thread: marks met in it (in an allocator) are no calls. None if this thread is at it already, so
/// that a lock which it holds is not taken again.
pub(crate) fn own_work<R>(work: impl FnOnce() -> R) -> Option<R> {
    THREAD.with(|thread| match thread.doing.get() {
        Doing::Probe | Doing::Own => None,
        before @ (Doing::Program | Doing::Ended) => {
            thread.doing.set(Doing::Own);
            // Restored by a destructor, also if the work panics.
            let _restore = Restore { thread, before };
            Some(work())
        }
    })
}

struct Restore<'a> {
    thread: &'a Thread,
    before: Doing,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.thread.doing.set(self.before);
    }
}

impl Recorder {
    #[inline]
    fn known(&mut self, mark: &Mark) -> Option<(&mut Books, &MarkCells, &mut Frames)> {
        // SAFETY: null, or this recorder's live books.
        let books = unsafe { self.books.as_mut() }?;
        let cells = *books.marks.get(mark.index() as usize)?;
        // SAFETY: null, or cells that live as long as the thread's.
        let cells = unsafe { cells.as_ref() }?;
        Some((books, cells, &mut self.frames))
    }
}

#[cold]
#[inline(never)]
fn met_at_work(thread: &Thread, mark: &'static Mark) -> Token {
    let count = match thread.doing.get() {
        Doing::Probe => &mark.interrupted,
        Doing::Ended => &mark.unrecorded,
        Doing::Own | Doing::Program => return NO_FRAME,
    };
    if mark.index() == 0 {
        mark.register();
    }
    count.fetch_add(1, Relaxed);
    NO_FRAME
}

/// A thread's first call of a mark: sets up what is missing, then begins.
#[cold]
#[inline(never)]
fn first_call(thread: &Thread, mark: &'static Mark) -> Token {
    thread.doing.set(Doing::Own);
    let _errno = KeepErrno::new();
    start::start();
    if start::is_off() {
        return NO_FRAME;
    }
    if mark.index() == 0 {
        mark.register();
    }
    let prepared = prepare(thread, mark);
    thread.doing.set(Doing::Probe);
    // SAFETY: this thread's live recorder, which nobody else uses while the thread is in a probe.
    let known = prepared.ok().and_then(|mut recorder| unsafe { recorder.as_mut() }.known(mark));
    if let Some((books, cells, frames)) = known {
        begin(&mut books.slots, cells, frames)
    } else {
        mark.unrecorded.fetch_add(1, Relaxed);
        NO_FRAME
    }
}

/// Makes the thread's recorder where there is none, and the mark's cells in it.
fn prepare(thread: &Thread, mark: &'static Mark) -> io::Result<NonNull<Recorder>> {
    let (registry, events) = (registry()?, events()?);
    let memory: NonNull<Recorder> = match NonNull::new(thread.recorder.get()) {
        Some(recorder) => recorder,
        None => per_process::map(size_of::<Recorder>())?.cast(),
    };
    // SAFETY: this thread's own, mapped; zeroes are a recorder not set up.
    let recorder = unsafe { &mut *memory.as_ptr() };
    if recorder.books.is_null() {
        let cells = Arc::new(ThreadCells::new());
        registry.add(Arc::clone(&cells));
        recorder.books = Box::into_raw(Box::new(Books { marks: Vec::new(), slots: Vec::new(), cells }));
        thread.recorder.set(memory.as_ptr());
        thread_end::call_at_end(end_of_thread, memory.as_ptr().cast());
    }
    // SAFETY: set above, or before.
    let books = unsafe { &mut *recorder.books };
    let wanted: Vec<What> = match mark.events {
        [] => config().events.clone(),
        names => names.iter().map(|name| What::parse(name)).collect(),
    };
    let slots = sources::slots_for(&wanted, &mut books.slots, events);
    let cells = slots.into_iter().map(|(event, slot)| EventCells::new(event, slot)).collect();
    let index = mark.index() as usize;
    if books.marks.len() <= index {
        books.marks.resize(index + 1, ptr::null());
    }
    books.marks[index] = books.cells.add(MarkCells::new(mark, cells));
    Ok(memory)
}

/// Makes what the process needs once while it has one thread: a fork in the middle of it would leave the child waiting for a thread that
/// it does not have.
pub(crate) fn prepare_process() {
    own_work(|| {
        // Where they cannot be had, the first call finds out, and says so.
        _ = (registry(), events());
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
