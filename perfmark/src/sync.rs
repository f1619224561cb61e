//! What threads share their figures by: the standard library's, or loom's, which tries the orders in which threads may run (`recorder/model`).

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

/// A number as the only thread that writes it reads it: together with others, where the processor can.
///
/// # Safety
///
/// No other thread writes it.
#[inline]
#[allow(unsafe_code, reason = "reads past the atomic")]
pub(crate) unsafe fn own(number: &AtomicU64) -> u64 {
    // SAFETY: the caller's word.
    unsafe {
        #[cfg(not(all(test, perfmark_loom)))]
        return *number.as_ptr();
        #[cfg(all(test, perfmark_loom))]
        number.unsync_load()
    }
}
