//! An allocator that opens and drops a counter of its own in each call, when enabled.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use perfmark_rdpmc::{Attr, Counter, Software};

use super::{best_attr, open, open_resources};

struct Counting;

thread_local! {
    /// Whether this thread's calls open counters. Not during such an opening itself.
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

// SAFETY: forwards to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: required of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: required of the caller.
        unsafe { System.dealloc(memory, layout) };
    }
}

pub(super) fn opens_counters() {
    const COUNTERS: usize = 30;
    let attr = best_attr();
    if open(&attr).is_none() {
        return;
    }
    let before = open_resources();
    COUNTS.set(true);
    let counters: Vec<_> = (0..COUNTERS).map(|_| open(&attr)).collect();
    drop(counters);
    COUNTS.set(false);
    assert_eq!(open_resources(), before);
    println!("{} counters opened by the allocator while the test opened {COUNTERS}", OPENED.get());
    assert!(OPENED.get() as usize > 2 * COUNTERS);
}
