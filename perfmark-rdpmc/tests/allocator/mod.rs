//! An allocator that opens and drops a counter of its own in the middle of a call, when asked to.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use perfmark_rdpmc::{Attr, Counter, Software};

use super::{held, most_telling, open};

struct Counting;

thread_local! {
    /// Calls until then.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    match LEFT.get() {
        None => {}
        Some(0) => {
            LEFT.set(None);
            drop(Counter::open(&Attr::new(Software::TaskClock)));
        }
        Some(left) => LEFT.set(Some(left - 1)),
    }
}

// SAFETY: the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's word.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's word.
        unsafe { System.dealloc(memory, layout) };
    }
}

/// A counter within each call of the allocator's that opening and dropping another takes.
pub(super) fn opens_counters() {
    let attr = most_telling();
    if open(&attr).is_none() {
        return;
    }
    let before = held();
    let mut calls = 0;
    loop {
        LEFT.set(Some(calls));
        drop(open(&attr));
        if LEFT.replace(None).is_some() {
            break;
        }
        calls += 1;
    }
    println!("{calls} calls of the allocator, a counter opened in each");
    assert!(calls > 2);
    assert_eq!(held(), before);
}
