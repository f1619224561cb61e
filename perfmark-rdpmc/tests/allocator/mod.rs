//! An allocator that opens and drops a counter of its own in the middle of each call, when asked to.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use perfmark_rdpmc::{Attr, Counter, Software};

use super::{held, most_telling, open};

struct Counting;

thread_local! {
    /// Whether this thread's calls do, as far as they are not an opening's own.
    static COUNTS: Cell<bool> = const { Cell::new(false) };
    static OPENED: Cell<u32> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    if COUNTS.replace(false) {
        let opened = Counter::open(&Attr::new(Software::TaskClock)).is_ok();
        OPENED.set(OPENED.get() + u32::from(opened));
        COUNTS.set(true);
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

pub(super) fn opens_counters() {
    const COUNTERS: usize = 30;
    let attr = most_telling();
    if open(&attr).is_none() {
        return;
    }
    let before = held();
    COUNTS.set(true);
    let counters: Vec<_> = (0..COUNTERS).map(|_| open(&attr)).collect();
    drop(counters);
    COUNTS.set(false);
    assert_eq!(held(), before);
    println!("{} counters opened by the allocator while {COUNTERS} were", OPENED.get());
    assert!(OPENED.get() as usize > 2 * COUNTERS);
}
