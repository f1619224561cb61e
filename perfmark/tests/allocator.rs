//! A marked global allocator is counted without deadlock or recursion. perfmark's own allocations are not calls of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

mod alone;
mod executor;

use executor::{run, yield_now};
use perfmark::{Filter, perfmark};

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

/// Is suspended once. Its events do not fit into the future, so perfmark allocates memory for their cost so far.
#[perfmark(time, page_faults, minor_faults, major_faults, task_clock, cpu_clock, context_switches, cpu_migrations)]
async fn suspended() {
    yield_now().await;
}

fn calls_of_alloc() -> u64 {
    let snapshot = perfmark::snapshot();
    snapshot.marks.iter().find(|mark| mark.name == "alloc").expect("the program allocated").calls
}

#[test]
fn perfmarks_own_calls_of_a_thinned_allocator_are_not_counted() {
    const CALLS_SUSPENDED: u64 = 1_000;
    if alone::passed_in_own_process() {
        return;
    }
    perfmark::set_filter(&Filter::default().every("*::alloc", 1 << 20)).expect("slots for settings");
    run(suspended());
    // From here on, calls of the allocator are skipped.
    (0..4_096_usize).for_each(|n| _ = black_box(vec![0_u8; n + 1]));
    let (before, really_before) = (calls_of_alloc(), CALLS.load(Relaxed));
    (0..CALLS_SUSPENDED).for_each(|_| run(suspended()));
    let really = CALLS.load(Relaxed) - really_before;
    let counted = calls_of_alloc() - before;
    println!("{counted} of {really} calls counted");
    if perfmark::measure(&["page-faults"], || ()).is_err() {
        return println!("skipped: without counters, the cost so far fits into the future");
    }
    assert!(really >= CALLS_SUSPENDED, "perfmark allocates: {really}");
    // Snapshots allocate some of their memory as the program, and the main thread may allocate meanwhile.
    assert!(counted < CALLS_SUSPENDED / 2, "{counted} of {really}");
}

#[test]
fn a_marked_allocator_is_counted_and_perfmarks_own_calls_of_it_are_not() {
    if alone::passed_in_own_process() {
        return;
    }
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
