//! Other fork handlers that use counters: registered before any of this crate's could be, or by a program before its first counter.

use std::cell::RefCell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::{Counter, Delta, Region};

use super::{counts, in_child, most_telling, of_events, open};

/// Before all other constructors.
#[used]
#[unsafe(link_section = ".init_array.00001")]
static FIRST: extern "C" fn() = {
    extern "C" fn first() {
        // SAFETY: handlers that do nothing before `earlier` asks for it.
        unsafe { libc::pthread_atfork(Some(turn_over), Some(turn_over), Some(in_early_child)) };
    }
    first
};

thread_local! {
    /// The thread's counters. None: the handlers do nothing.
    static COUNTERS: RefCell<Vec<Counter>> = const { RefCell::new(Vec::new()) };
}

static RAN: AtomicU32 = AtomicU32::new(0);

/// Drops a counter, and opens one.
extern "C" fn turn_over() {
    COUNTERS.with_borrow_mut(|counters| {
        if counters.is_empty() {
            return;
        }
        drop(counters.remove(0));
        counters.extend(open(&most_telling()));
        assert!(counters.iter().all(|counter| counter.read().is_ok()), "all are this process's");
        RAN.fetch_add(1, Relaxed);
    });
}

/// Finds the parent's counters gone, and opens one in their place.
fn take_over(counters: &mut Vec<Counter>) {
    for counter in counters.drain(..) {
        let error = counter.read().expect_err("the parent's");
        assert!(error.to_string().contains("forked"), "{error}");
    }
    counters.extend(open(&most_telling()));
    RAN.fetch_add(1, Relaxed);
}

extern "C" fn in_early_child() {
    COUNTERS.with_borrow_mut(|counters| {
        if !counters.is_empty() {
            take_over(counters);
        }
    });
}

pub(crate) fn earlier() {
    let attr = most_telling();
    let Some(kept) = open(&attr) else { return };
    COUNTERS.with_borrow_mut(|counters| counters.extend([open(&attr), open(&attr)].into_iter().flatten()));
    for fork in 1..=20 {
        let child = in_child(|| {
            assert!(kept.read().is_err() && kept.read_user().is_none(), "the parent's");
            COUNTERS.with_borrow(|counters| assert!(counters.len() == 1 && counters[0].read().is_ok(), "its own"));
            assert_eq!(of_events().len(), 1, "descriptors");
            // Before the fork, and in the child.
            RAN.load(Relaxed) == 2 * fork && counts(&attr)
        });
        assert!(child, "fork {fork}");
        assert_eq!(of_events().len(), 3);
        // Before the fork, and after it.
        assert_eq!(RAN.load(Relaxed), 2 * fork);
    }
    println!("20 forks, {} counters dropped and as many opened by earlier handlers", RAN.load(Relaxed));
    assert!(kept.read().is_ok());
}

thread_local! {
    /// As `COUNTERS`, for the handler that the program registers.
    static PROGRAMS: RefCell<Vec<Counter>> = const { RefCell::new(Vec::new()) };
}

extern "C" fn in_child_of_program() {
    PROGRAMS.with_borrow_mut(|counters| {
        for counter in counters.iter() {
            let mut region = Region::default();
            counter.begin(&mut region);
            assert_eq!((counter.end(&region), counter.read_user()), (Delta::Unmeasured, None));
        }
        take_over(counters);
    });
}

pub(crate) fn of_a_program() {
    // SAFETY: a function without arguments.
    unsafe { libc::pthread_atfork(None, None, Some(in_child_of_program)) };
    let attr = most_telling();
    let Some(counter) = open(&attr) else { return };
    // Remembers what its page says.
    counter.begin(&mut Region::default());
    PROGRAMS.with_borrow_mut(|counters| counters.push(counter));
    assert!(in_child(|| {
        PROGRAMS.with_borrow(|counters| assert!(counters.len() == 1 && counters[0].read().is_ok(), "its own"));
        RAN.load(Relaxed) == 1 && of_events().len() == 1
    }));
    PROGRAMS.with_borrow(|counters| assert!(counters[0].read().is_ok(), "the parent's goes on"));
}
