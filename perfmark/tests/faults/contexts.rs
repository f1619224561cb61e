//! Calls in unexpected contexts: in panics, signal handlers, destructors, exit handlers, and the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::os::unix::thread::JoinHandleExt as _;
use std::panic::{catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::thread;

use perfmark::perfmark;

use crate::ledger::{Function, count, ledger};
use crate::{CALLS, deep, handles, on_threads, unwinds, work};

pub(crate) fn panics() {
    on_threads(4, || (0..CALLS).for_each(|_| assert!(catch_unwind(unwinds).is_err())));
    // The thread itself ends by a panic.
    assert!(thread::spawn(unwinds).join().is_err());
    work(1);
}

/// Calls made while a panic unwinds the thread, which end like any other. Also, panics in destructors, which unwind the
/// calls around them.
pub(crate) fn panics_in_destructors() {
    struct Calls(bool);
    impl Drop for Calls {
        fn drop(&mut self) {
            work(2);
            // Caught before it meets the panic in progress.
            assert!(catch_unwind(|| resume_unwind(Box::new("inside"))).is_err());
            if !self.0 {
                resume_unwind(Box::new("of the destructor"));
            }
        }
    }
    for _ in 0..CALLS {
        let while_unwinding = || {
            let _calls = Calls(true);
            unwinds();
        };
        assert!(catch_unwind(while_unwinding).is_err());
        assert!(catch_unwind(|| drop(Calls(false))).is_err());
    }
}

/// Signals, many of which interrupt the entry or exit of a call.
pub(crate) fn signal_handlers() {
    // Each round has first calls and ends of threads, where signals are met most.
    (0..5).for_each(|_| signals(20, 1));
}

/// Threads send themselves signals, and receive others in the middle of calls. Returns when their handlers have run
/// that often, with that many calls each.
pub(crate) fn signals(handlers: u64, calls: u64) {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    static CALLS_EACH: AtomicU64 = AtomicU64::new(0);
    extern "C" fn handler(_: libc::c_int) {
        (0..CALLS_EACH.load(Relaxed)).for_each(|_| handles());
    }
    CALLS_EACH.store(calls, SeqCst);
    IS_DONE.store(false, SeqCst);
    // SAFETY: the handler calls a marked function, which is what this tests.
    unsafe { libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t) };
    let at_work = || {
        thread::spawn(|| {
            // A thread's first call of a mark allocates, so it must not be in a handler that interrupts the allocator.
            handles();
            block(libc::SIG_UNBLOCK);
            while !IS_DONE.load(Relaxed) {
                work(1);
                // SAFETY: the signal has a handler.
                unsafe { libc::raise(libc::SIGUSR1) };
            }
        })
    };
    // Threads begin with it blocked.
    block(libc::SIG_BLOCK);
    let threads = [at_work(), at_work()];
    block(libc::SIG_UNBLOCK);
    let so_far = ledger().ended(Function::handles);
    while ledger().ended(Function::handles) < so_far + handlers * calls {
        for thread in &threads {
            // SAFETY: the thread is not joined yet.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
        }
        thread::yield_now();
    }
    IS_DONE.store(true, Relaxed);
    for thread in threads {
        thread.join().expect("does not panic");
    }
}

/// Blocks or unblocks SIGUSR1 on the calling thread.
fn block(how: libc::c_int) {
    // SAFETY: a live set, which sigemptyset initializes.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGUSR1);
        assert_eq!(libc::pthread_sigmask(how, &raw const set, ptr::null_mut()), 0);
    }
}

pub(crate) fn thread_locals_destructors() {
    thread_ends(64, 8);
}

/// Threads that make that many calls each in destructors: of a thread-local that existed before the thread's first
/// call, of one that did not, and of a pthread key, in each of its rounds (POSIX, `pthread_key_create`). So calls are
/// also made while the thread's cells are folded.
pub(crate) fn thread_ends(threads: u64, calls: u64) {
    struct AtEnd(Cell<u64>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            (0..self.0.get()).for_each(work);
        }
    }
    thread_local! {
        static BEFORE: AtEnd = const { AtEnd(Cell::new(0)) };
        static AFTER: AtEnd = const { AtEnd(Cell::new(0)) };
    }
    unsafe extern "C" fn round(calls: *mut libc::c_void) {
        (0..calls.addr() as u64).for_each(work);
        if ROUNDS.replace(ROUNDS.get() + 1) < 3 {
            // SAFETY: the key is the one that this is the destructor of.
            unsafe { libc::pthread_setspecific(KEY.load(SeqCst), calls) };
        }
    }
    thread_local!(static ROUNDS: Cell<u32> = const { Cell::new(0) });
    static KEY: AtomicU32 = AtomicU32::new(0);
    let mut key = 0;
    // SAFETY: the pointer is to a live key.
    assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(round)) }, 0);
    KEY.store(key, SeqCst);
    let thread = move || {
        BEFORE.with(|at_end| at_end.0.set(calls / 2));
        work(1);
        AFTER.with(|at_end| at_end.0.set(calls / 2));
        // SAFETY: the key is the one above; the value is a number, not a pointer.
        unsafe { libc::pthread_setspecific(key, ptr::without_provenance(usize::try_from(calls / 4).expect("small"))) };
    };
    for _ in 0..threads / 8 {
        on_threads(8, thread);
    }
}

/// Handlers that run before the report is written, so that their calls are in it, and one that runs after it.
pub(crate) fn exit_handlers() {
    extern "C" fn before() {
        (0..CALLS).for_each(work);
    }
    AFTER_EXIT.store(true, SeqCst);
    // SAFETY: the functions take no arguments.
    unsafe {
        assert_eq!(libc::atexit(before), 0);
        assert_eq!(libc::atexit(before), 0);
    }
}

static AFTER_EXIT: AtomicBool = AtomicBool::new(false);

/// Registered before all others, so it runs after them.
#[used]
#[unsafe(link_section = ".init_array.00001")]
static FIRST: extern "C" fn() = {
    extern "C" fn first() {
        // SAFETY: the function takes no arguments.
        unsafe { libc::atexit(after) };
    }
    extern "C" fn after() {
        if AFTER_EXIT.load(SeqCst) {
            (0..CALLS).for_each(|_| after_the_report());
            thread::spawn(after_the_report).join().expect("does not panic");
            assert!(perfmark::snapshot().marks.iter().any(|mark| mark.calls == CALLS + 1));
        }
    }
    first
};

/// Its calls are in no report.
#[perfmark(time, page_faults)]
fn after_the_report() {
    black_box(());
}

/// More nested calls than perfmark has frames for.
pub(crate) fn deep_recursion() {
    on_threads(2, || deep(10_000));
    deep(10_000);
}

/// Makes marked calls on threads that enable this.
struct Allocator;

thread_local! {
    static IS_MARKED: Cell<bool> = const { Cell::new(false) };
    /// Set inside a marked call of the allocator, where allocations are perfmark's own.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: forwards every call to the system's allocator.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !IS_MARKED.get() {
            // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
            return unsafe { System.alloc(layout) };
        }
        let is_inside = IS_INSIDE.replace(true);
        let counted = (!is_inside).then(|| count(Function::allocates));
        let memory = allocates(layout);
        drop(counted);
        IS_INSIDE.set(is_inside);
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[perfmark(time, page_faults)]
fn allocates(layout: Layout) -> *mut u8 {
    // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
    unsafe { System.alloc(layout) }
}

pub(crate) fn marked_allocator() {
    allocations(4, 500);
}

/// Threads that allocate that often each, through a marked allocator.
pub(crate) fn allocations(threads: u64, each: u64) {
    on_threads(threads, move || {
        IS_MARKED.set(true);
        (0..each).for_each(|n| drop(black_box(Box::new(n))));
        IS_MARKED.set(false);
    });
}
