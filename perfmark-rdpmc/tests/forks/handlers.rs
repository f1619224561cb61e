//! Other fork handlers that use counters. Some are registered before any of this crate's, some by a program before its
//! first counter.

use std::cell::RefCell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::{Counter, Delta, Region};

use super::{best_attr, counts, event_descriptors, in_child, open};

/// Runs before all other constructors.
#[used]
#[unsafe(link_section = ".init_array.00001")]
static FIRST: extern "C" fn() = {
    extern "C" fn first() {
        // SAFETY: handlers that do nothing until `earlier` enables them.
        unsafe { libc::pthread_atfork(Some(replace_one), Some(replace_one), Some(in_early_child)) };
    }
    first
};

thread_local! {
    /// The thread's counters. If empty, the handlers do nothing.
    static COUNTERS: RefCell<Vec<Counter>> = const { RefCell::new(Vec::new()) };
}

static RAN: AtomicU32 = AtomicU32::new(0);

/// Drops a counter, and opens one.
extern "C" fn replace_one() {
    COUNTERS.with_borrow_mut(|counters| {
        if counters.is_empty() {
            return;
        }
        drop(counters.remove(0));
        counters.extend(open(&best_attr()));
        assert!(counters.iter().all(|counter| counter.read().is_ok()), "all belong to this process");
        RAN.fetch_add(1, Relaxed);
    });
}

/// Checks that the parent's counters fail, and opens one of its own instead.
fn replace_all(counters: &mut Vec<Counter>) {
    for counter in counters.drain(..) {
        let error = counter.read().expect_err("the parent's");
        assert!(error.to_string().contains("forked"), "{error}");
    }
    counters.extend(open(&best_attr()));
    RAN.fetch_add(1, Relaxed);
}

extern "C" fn in_early_child() {
    COUNTERS.with_borrow_mut(|counters| {
        if !counters.is_empty() {
            replace_all(counters);
        }
    });
}

pub(crate) fn earlier() {
    let attr = best_attr();
    let Some(outer) = open(&attr) else { return };
    COUNTERS.with_borrow_mut(|counters| counters.extend([open(&attr), open(&attr)].into_iter().flatten()));
    for fork in 1..=20 {
        let child = in_child(|| {
            assert!(outer.read().is_err() && outer.read_user().is_none(), "the parent's");
            COUNTERS.with_borrow(|counters| assert!(counters.len() == 1 && counters[0].read().is_ok(), "its own"));
            assert_eq!(event_descriptors().len(), 1, "descriptors");
            // Before the fork, and in the child.
            RAN.load(Relaxed) == 2 * fork && counts(&attr)
        });
        assert!(child, "fork {fork}");
        assert_eq!(event_descriptors().len(), 3);
        // Before the fork, and after it.
        assert_eq!(RAN.load(Relaxed), 2 * fork);
    }
    println!("20 forks, {} counters dropped and as many opened by earlier handlers", RAN.load(Relaxed));
    assert!(outer.read().is_ok());
}

thread_local! {
    /// Like `COUNTERS`, for the handler that the program registers.
    static PROGRAM_COUNTERS: RefCell<Vec<Counter>> = const { RefCell::new(Vec::new()) };
}

extern "C" fn in_child_of_program() {
    PROGRAM_COUNTERS.with_borrow_mut(|counters| {
        for counter in counters.iter() {
            let mut region = Region::default();
            counter.begin(&mut region);
            assert_eq!((counter.end(&region), counter.read_user()), (Delta::Unmeasured, None));
        }
        replace_all(counters);
    });
}

pub(crate) fn of_a_program() {
    // SAFETY: a function without arguments.
    unsafe { libc::pthread_atfork(None, None, Some(in_child_of_program)) };
    let attr = best_attr();
    let Some(counter) = open(&attr) else { return };
    // The counter then remembers its page.
    counter.begin(&mut Region::default());
    PROGRAM_COUNTERS.with_borrow_mut(|counters| counters.push(counter));
    assert!(in_child(|| {
        PROGRAM_COUNTERS.with_borrow(|counters| assert!(counters.len() == 1 && counters[0].read().is_ok(), "its own"));
        RAN.load(Relaxed) == 1 && event_descriptors().len() == 1
    }));
    PROGRAM_COUNTERS.with_borrow(|counters| assert!(counters[0].read().is_ok(), "the parent's still works"));
}
