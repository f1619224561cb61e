//! The metadata page of a counter, for programs with a custom read loop.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use crate::counter::Counter;
use crate::sys::{
    CAP_BIT0_IS_DEPRECATED, CAP_USER_RDPMC, CAP_USER_TIME, CAP_USER_TIME_SHORT, CAP_USER_TIME_ZERO, MmapPage,
};

/// A counter's metadata page, which only the kernel writes: `struct perf_event_mmap_page`. Each method is one relaxed
/// load. The values belong together if [`lock`](Self::lock) was even before the first load, and is the same
/// after the last one. So that the compiler keeps this order, put a `compiler_fence(Acquire)` after the first load of
/// the lock and before the last one, and leave out the option `nomem` where `asm!` reads the hardware counter. The
/// processor needs no fence, because the kernel writes the page on this thread's CPU.
///
/// [`Counter::read_user`] runs this loop. The example `page` writes it out:
///
/// ```
#[doc = include_str!("../examples/page.rs")]
/// ```
///
/// Only the thread that opened the counter may read by it:
///
/// ```compile_fail
/// fn can_be_sent<T: Send>() {}
/// can_be_sent::<perfmark_rdpmc::Page<'_>>();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    page: &'a MmapPage,
    of_thread: PhantomData<*const ()>,
}

/// A method for each field.
macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident: $number:ty;)*) => {$(
        $(#[$doc])*
        #[inline]
        #[must_use]
        pub fn $field(self) -> $number {
            self.page.$field.load(Relaxed)
        }
    )*};
}

/// A method for each capability bit.
macro_rules! capabilities {
    ($($(#[$doc:meta])* $name:ident: $bit:expr;)*) => {$(
        $(#[$doc])*
        #[inline]
        #[must_use]
        pub fn $name(self) -> bool {
            const BITS: u64 = CAP_BIT0_IS_DEPRECATED | $bit;
            self.page.capabilities.load(Relaxed) & BITS == BITS
        }
    )*};
}

impl Page<'_> {
    fields! {
        /// The version of the structure.
        version: u32;
        /// The lowest version that it is compatible with.
        compat_version: u32;
        /// Odd while the kernel writes, and changed afterwards.
        lock: u32;
        /// The hardware counter plus 1; 0 if only `read(2)` can read the event now.
        index: u32;
        /// What to add to the hardware counter.
        offset: i64;
        /// Nanoseconds for which the event was enabled, up to the last update.
        time_enabled: u64;
        /// Nanoseconds for which the event was on the PMU, up to the last update.
        time_running: u64;
        /// The bits of the hardware counter.
        pmc_width: u16;
        /// The shift for times.
        time_shift: u16;
        /// The multiplier for times.
        time_mult: u32;
        /// What to add to times since the last update.
        time_offset: u64;
        /// The kernel's clock at tick 0; see [`KernelClock`](crate::clock::KernelClock).
        time_zero: u64;
        /// A recent tick, if the tick counter has fewer than 64 bits.
        time_cycles: u64;
        /// The bits of the tick counter, if it has fewer than 64.
        time_mask: u64;
    }

    capabilities! {
        /// Whether user space may read the hardware counter.
        cap_user_rdpmc: CAP_USER_RDPMC;
        /// Whether times can be brought up to now by the tick counter.
        cap_user_time: CAP_USER_TIME;
        /// Whether `time_zero` is valid.
        cap_user_time_zero: CAP_USER_TIME_ZERO;
        /// Whether `time_cycles` and `time_mask` are valid.
        cap_user_time_short: CAP_USER_TIME_SHORT;
    }
}

impl Counter {
    /// The counter's page, for a custom read loop. `None` for an event without a page: a software event, or one
    /// without user-space reads. On several kinds of core it is that of the first kind.
    #[must_use]
    pub fn page(&self) -> Option<Page<'_>> {
        self.pmu_event().page().ok().map(|mapping| Page { page: mapping.page(), of_thread: PhantomData })
    }
}
