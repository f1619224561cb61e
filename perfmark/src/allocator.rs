//! The allocator that counts what each thread allocates.
#![allow(unsafe_code, reason = "implements an allocator")]

use std::alloc::{GlobalAlloc, Layout};

#[cfg(feature = "record")]
use crate::recording::{allocated, recorder::is_in_own_work};

/// An allocator that counts what each thread allocates, for the events `allocations` and `allocated_bytes`. Another
/// allocator does the work.
///
/// ```standalone_crate
/// use std::alloc::System;
///
/// use perfmark::{CountingAllocator, perfmark};
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator<System> = CountingAllocator::new(System);
///
/// #[perfmark(time, allocations, allocated_bytes)]
/// fn words(text: &str) -> Vec<String> {
///     text.split(' ').map(str::to_owned).collect()
/// }
///
/// # fn main() {
/// words("a b c");
/// let snapshot = perfmark::snapshot();
/// if let Some(values) = snapshot.marks.first().and_then(|words| words.event("allocations")) {
///     // The vector, and three strings.
///     assert_eq!(values.total, 4);
/// }
/// # }
/// ```
///
/// `allocations` are successful calls of `alloc`, `alloc_zeroed` and `realloc`, and `allocated_bytes` the bytes that
/// were requested; of `realloc`, those by which the block grows. What is freed is not subtracted. perfmark's own
/// allocations are not counted.
///
/// A program has one allocator, for its libraries, too. In a program without one that counts, these events are not
/// available, and reports give that as the reason. Without the feature `record`, nothing is counted; neither is it on
/// systems whose thread-local memory is allocated itself, which are others than Linux, Apple's, and Windows with MSVC.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator<A>(A);

impl<A> CountingAllocator<A> {
    /// Counts what this allocator allocates.
    #[must_use]
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }

    /// Counts the block, unless there was no memory.
    #[inline]
    #[cfg_attr(not(feature = "record"), allow(unused_variables, reason = "nothing is counted"))]
    fn count(block: *mut u8, bytes: usize) -> *mut u8 {
        #[cfg(feature = "record")]
        if allocated::IS_SUPPORTED && !block.is_null() {
            allocated::count(bytes, is_in_own_work());
        }
        block
    }
}

// SAFETY: `A` does all the work. The counts are in thread-locals without destructors, so nothing else here allocates or
// unwinds.
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: this function's contract.
        Self::count(unsafe { self.0.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: this function's contract.
        Self::count(unsafe { self.0.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: this function's contract.
        Self::count(unsafe { self.0.realloc(block, layout, size) }, size.saturating_sub(layout.size()))
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: this function's contract.
        unsafe { self.0.dealloc(block, layout) };
    }
}
