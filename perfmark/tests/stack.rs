//! How much stack a marked call takes. Threads with small stacks, and signal handlers on an alternate stack, have
//! little. The test fills a stack with a pattern, and checks how far down it was overwritten.
#![cfg(all(feature = "record", any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux"))]

use std::cell::Cell;
use std::rc::Rc;
use std::thread;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult};
use perfmark::perfmark;

/// The most that a thread's first call may take, in bytes.
const MOST: usize = if cfg!(debug_assertions) { 9 << 10 } else { 4 << 10 };
/// The most that a later call may take.
const MOST_LATER: usize = if cfg!(debug_assertions) { 6 << 10 } else { 2 << 10 };

const PAINT: u64 = 0x5ca1_ab1e_0ddb_a115;
const STACK: usize = 256 << 10;

/// How many bytes of stack `work` takes below its caller.
fn depth(work: fn()) -> usize {
    let stack = DefaultStack::new(STACK).expect("memory");
    let words = |stack: &DefaultStack| {
        let base: *mut u64 = std::ptr::with_exposed_provenance_mut(stack.base().get());
        (base.wrapping_sub(STACK / size_of::<u64>()), STACK / size_of::<u64>())
    };
    let (limit, count) = words(&stack);
    // SAFETY: the memory is the stack's own, above its guard page, and nothing uses it yet.
    unsafe { std::slice::from_raw_parts_mut(limit, count) }.fill(PAINT);
    let top = Rc::new(Cell::new(0));
    let mut coroutine = Coroutine::with_stack(stack, {
        let top = Rc::clone(&top);
        move |_, ()| {
            let here = 0_u8;
            top.set((&raw const here).addr());
            work();
        }
    });
    assert!(matches!(coroutine.resume(()), CoroutineResult::<(), ()>::Return(())));
    let stack = coroutine.into_stack();
    let (limit, count) = words(&stack);
    // SAFETY: as above; the coroutine has ended.
    let words = unsafe { std::slice::from_raw_parts(limit, count) };
    let unused = words.iter().position(|&word| word != PAINT).expect("something was written");
    assert!(unused > 0, "the stack is too small");
    top.get() - limit.addr() - unused * size_of::<u64>()
}

fn on_a_new_thread<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    thread::spawn(work).join().expect("it does not panic")
}

#[perfmark(time)]
fn timed() {}

#[perfmark]
fn default_events() {}

#[perfmark(page_faults, context_switches, task_clock, instructions, cycles)]
fn many_events() {}

#[perfmark(time, every = 10)]
fn every() {}

#[perfmark(time, generic)]
fn generic<T: Default>() -> T {
    T::default()
}

#[test]
fn a_call_takes_little_of_the_stack() {
    let mut most = 0;
    let mut first = |what: &str, work: fn()| {
        // The process has not used these events yet, and then another thread already has.
        for whose in ["process's", "thread's"] {
            let depth = on_a_new_thread(move || depth(work));
            println!("{depth:6} bytes: the {whose} first call of {what}");
            most = most.max(depth);
        }
    };
    first("time", timed);
    first("the default events", default_events);
    first("many events", many_events);
    // One of these calls begins a burst, and another one ends it.
    first("every = 10", || (0..100).for_each(|_| every()));
    first("a generic function", || _ = generic::<u8>());
    first("several marks", || {
        timed();
        many_events();
        every();
        _ = generic::<u16>();
    });
    let later = on_a_new_thread(|| {
        timed();
        depth(timed)
    });
    println!("{later:6} bytes: a later call");
    assert!(most <= MOST, "a first call took {most} bytes of the stack, and may take {MOST}");
    assert!(later <= MOST_LATER, "a later call took {later} bytes of the stack, and may take {MOST_LATER}");
}

/// As small as threads can be where the C library itself needs little.
#[test]
fn threads_of_16_kib_make_marked_calls() {
    let thread = thread::Builder::new().stack_size(16 << 10);
    thread.spawn(|| (timed(), default_events(), many_events())).expect("it starts").join().expect("it does not panic");
}
