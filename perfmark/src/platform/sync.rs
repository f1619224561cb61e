//! The synchronization primitives: the standard library's, or loom's, which tries all orders in which threads may run
//! (`recorder/tests/model`).

#[cfg(not(all(test, perfmark_loom)))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64},
};

#[cfg(all(test, perfmark_loom))]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64},
};

/// Reads a number that only the calling thread writes. The compiler may combine this with other reads.
///
/// # Safety
///
/// No other thread writes it.
#[inline]
#[allow(unsafe_code, reason = "reads past the atomic")]
pub(crate) unsafe fn own(number: &AtomicU64) -> u64 {
    // SAFETY: this function's contract.
    unsafe {
        #[cfg(not(all(test, perfmark_loom)))]
        return *number.as_ptr();
        #[cfg(all(test, perfmark_loom))]
        number.unsync_load()
    }
}
