//! What each thread allocated, if the program's allocator counts it.
#![allow(unsafe_code, reason = "refers to thread-local memory")]

use std::cell::Cell;
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::settings::Allocated;

/// Whether an allocator may use thread-local memory. Elsewhere, the standard library allocates that.
pub(crate) const IS_SUPPORTED: bool =
    cfg!(any(target_os = "linux", target_vendor = "apple", all(windows, target_env = "msvc")));

thread_local! {
    /// Blocks and bytes, without those of perfmark's own work. They wrap.
    static COUNTS: [Cell<u64>; 2] = const { [const { Cell::new(0) }; 2] };
}

/// Whether an allocator has counted an allocation of perfmark's own work.
static ARE_COUNTED: AtomicBool = AtomicBool::new(false);

/// Counts a block of so many bytes, which the thread allocated, `in_own_work` of perfmark or not. For the program's
/// allocator.
#[inline]
#[cfg_attr(not(perfmark_scripted), allow(unreachable_pub, reason = "scripts call it"))]
pub fn count(bytes: usize, in_own_work: bool) {
    if in_own_work {
        return ARE_COUNTED.store(true, Relaxed);
    }
    COUNTS.with(|counts| {
        for (count, more) in counts.iter().zip([1, bytes as u64]) {
            count.set(count.get().wrapping_add(more));
        }
    });
}

/// What is counted of a thread's allocations. It cannot leave its thread, which outlives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadCount(NonNull<Cell<u64>>);

impl ThreadCount {
    /// That of the calling thread, in perfmark's own work. The error is why its allocations are not counted.
    pub(crate) fn open(what: Allocated) -> Result<Self, &'static str> {
        if !IS_SUPPORTED {
            return Err("perfmark counts allocations on Linux, systems of Apple, and Windows with MSVC only");
        }
        drop(black_box(Box::new(0_u8)));
        if !ARE_COUNTED.load(Relaxed) && !cfg!(perfmark_scripted) {
            return Err("the program's allocator does not count; make a `perfmark::CountingAllocator` the \
                        `#[global_allocator]`");
        }
        Ok(Self(COUNTS.with(|counts| NonNull::from(&counts[what as usize]))))
    }

    /// What was counted until now.
    #[inline]
    pub(crate) fn get(self) -> u64 {
        // SAFETY: `COUNTS` of this thread, which has no destructor. The type is not `Send`.
        unsafe { self.0.as_ref() }.get()
    }
}
