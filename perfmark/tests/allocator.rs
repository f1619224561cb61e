//! A marked global allocator is counted without deadlock or recursion. perfmark's own allocations are not calls of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use perfmark::perfmark;

struct Marked;

static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: forwards every call to the system's allocator.
unsafe impl GlobalAlloc for Marked {
    #[perfmark(time)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    #[perfmark(time)]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Marked = Marked;

#[test]
fn a_marked_allocator_is_counted_and_perfmarks_own_calls_of_it_are_not() {
    let marked = || {
        let snapshot = perfmark::snapshot();
        let alloc = snapshot.marks.iter().find(|mark| mark.name == "alloc").expect("the program allocated");
        (alloc.calls, alloc.interrupted)
    };
    // The allocations of the snapshot are perfmark's own, so they are not counted. Its drop here is.
    let (before, _) = marked();
    let really_before = CALLS.load(Relaxed);
    let threads: Vec<_> = (1..=4_usize)
        .map(|n| std::thread::spawn(move || (0..1_000).map(|m| black_box(vec![0_u8; n * m + 1]).len()).sum::<usize>()))
        .collect();
    let total: usize = threads.into_iter().map(|thread| thread.join().expect("does not panic")).sum();
    assert_eq!(total, 4_000 + (1 + 2 + 3 + 4) * 499_500);
    let really = CALLS.load(Relaxed) - really_before;
    let (after, interrupted) = marked();
    let of_snapshot = CALLS.load(Relaxed) - really - really_before;
    assert_eq!(interrupted, 0, "no allocation happened inside a probe");
    let counted = after - before;
    // Meanwhile, the main thread, which runs the tests, may allocate.
    assert!(of_snapshot > 10, "a snapshot allocates: {of_snapshot}");
    assert!((4_000..really + of_snapshot / 2).contains(&counted), "{counted} of {really}, and {of_snapshot}");
}
