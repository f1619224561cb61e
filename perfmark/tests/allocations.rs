//! What calls allocate, with an allocator that counts: exact, also on several threads, and without perfmark's own work.
#![cfg(feature = "record")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::pin::pin;
use std::thread;

mod executor;

use executor::{run, yield_now};
use perfmark::{CountingAllocator, Values, measure, perfmark};

/// Has no memory for blocks of this size.
struct Limited;

const TOO_LARGE: usize = 12_345;

// SAFETY: the system's allocator does the work, or there is no memory.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() == TOO_LARGE {
            return std::ptr::null_mut();
        }
        // SAFETY: this function's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: this function's contract.
        unsafe { System.dealloc(block, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator<Limited> = CountingAllocator::new(Limited);

fn bytes(count: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(count))
}

#[perfmark(time, allocations, allocated_bytes)]
fn inner(count: usize) -> Vec<u8> {
    bytes(count)
}

#[perfmark(time, allocations, allocated_bytes)]
fn outer(count: usize) -> usize {
    let own = bytes(1_000);
    // The first call of `inner` on a thread allocates much of perfmark's own.
    let inside: usize = (0..3).map(|_| inner(count).capacity()).sum();
    own.capacity() + inside
}

#[perfmark(allocations, allocated_bytes)]
fn early(count: usize) -> Result<Vec<u8>, std::num::ParseIntError> {
    let all = bytes(count);
    let _: u8 = black_box("no number").parse()?;
    Ok(all)
}

#[perfmark(allocations, allocated_bytes)]
fn panics(count: usize) {
    let _all = bytes(count);
    std::panic::resume_unwind(Box::new(7_u8));
}

#[perfmark(allocations, allocated_bytes)]
async fn polled(count: usize) {
    let first = bytes(count);
    yield_now().await;
    let second = bytes(count);
    black_box((first, second));
}

#[perfmark(time, allocations, allocated_bytes)]
fn grows() {
    let mut all = bytes(100);
    all.extend([1; 100]);
    all.reserve_exact(900);
    black_box(&mut all).shrink_to(200);
    black_box(vec![0_u8; 64]);
    let layout = Layout::from_size_align(TOO_LARGE, 1).expect("valid");
    // SAFETY: the size is not 0.
    assert!(unsafe { std::alloc::alloc(layout) }.is_null());
}

#[perfmark(allocations, allocated_bytes)]
fn none() {
    black_box(7);
}

/// The values of allocations and of bytes of the mark with this name.
fn values(name: &str) -> [Values; 2] {
    let snapshot = perfmark::snapshot();
    let mark = snapshot.marks.iter().find(|mark| mark.name == name).expect("called");
    ["allocations", "allocated_bytes"].map(|event| mark.event(event).expect("recorded").clone())
}

/// Total and self of both.
fn sums(name: &str) -> [(i64, Option<i64>); 2] {
    values(name).map(|values| (values.total, values.self_sum))
}

#[test]
fn calls_allocate_what_they_and_those_inside_do_on_each_thread() {
    let threads: Vec<_> = (1..=8).map(|n| thread::spawn(move || (0..50).map(|_| outer(n)).sum::<usize>())).collect();
    let total: usize = threads.into_iter().map(|thread| thread.join().expect("does not panic")).sum();
    assert_eq!(total, 8 * 50 * 1_000 + 50 * 3 * 36);
    assert_eq!(sums("outer"), [(8 * 50 * 4, Some(8 * 50)), (400_000 + 150 * 36, Some(400_000))]);
    assert_eq!(sums("inner"), [(8 * 150, Some(8 * 150)), (150 * 36, Some(150 * 36))]);
    let [blocks, bytes] = values("outer");
    assert_eq!((blocks.min, blocks.max, bytes.min, bytes.max), (Some(4), Some(4), Some(1_003), Some(1_024)));
}

#[test]
fn calls_that_end_early_or_by_a_panic_have_what_they_allocated() {
    (0..10).for_each(|_| assert!(early(300).is_err()));
    assert_eq!(sums("early").map(|(total, _)| total), [10, 3_000]);
    assert!(std::panic::catch_unwind(|| panics(500)).is_err());
    // The panic allocates memory, too.
    let [blocks, bytes] = values("panics").map(|values| values.unwound_total);
    assert!((2..10).contains(&blocks) && (501..2_000).contains(&bytes), "{blocks} blocks, {bytes} bytes");
}

#[test]
fn an_async_call_has_what_its_polls_allocate() {
    run(async {
        let mut call = pin!(polled(70));
        let mut others = Vec::new();
        std::future::poll_fn(|context| {
            others.push(bytes(9_000));
            call.as_mut().poll(context)
        })
        .await;
    });
    assert_eq!(sums("polled").map(|(total, _)| total), [2, 140]);
}

#[test]
fn a_block_that_grows_counts_as_one_more_of_the_bytes_by_which_it_grows() {
    grows();
    // 100 bytes; 900 more; fewer; 64 zeroes. There was no memory for the last one.
    assert_eq!(sums("grows"), [(4, Some(4)), (1_064, Some(1_064))]);
    none();
    assert_eq!(values("none").map(|values| (values.measured, values.max)), [(1, Some(0)); 2]);
}

#[test]
fn a_piece_of_work_is_measured_by_itself() {
    let measured = measure(&["allocations", "allocated-bytes", "time"], || bytes(77)).expect("they are counted");
    assert_eq!((measured.count("allocations"), measured.count("allocated_bytes")), (Some(1), Some(77)));
}
