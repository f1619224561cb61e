//! The seqlock loop: an event's count and times, read from its page without the kernel.
//!
//! The kernel makes `lock` odd, writes the page, and makes `lock` even again. The thread that owns the event reads the page and
//! the hardware counter, and starts over if `lock` was odd or is another than before. Because the kernel writes while it
//! interrupts this very thread, the order of the compiler is enough (`tools/lib/perf/mmap.c`, linux 6.12); only reset and mmap
//! write from other CPUs.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::compiler_fence;

use crate::arch::Processor;
use crate::sys::{CAP_BIT0_IS_DEPRECATED, CAP_USER_RDPMC, CAP_USER_TIME, CAP_USER_TIME_SHORT, MmapPage};

/// How often the loop starts over. The kernel's updates last far less; but `++lock` is no atomic, so that a reset from another CPU
/// can leave it odd for good.
const TRIES: usize = 100;

/// The bits that a page shows when user space may read its counter.
const READABLE: u64 = CAP_BIT0_IS_DEPRECATED | CAP_USER_RDPMC;

/// A count with its times, as of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserRead {
    pub(crate) value: u64,
    pub(crate) enabled: u64,
    pub(crate) running: u64,
    /// What the page said, as long as its lock is this.
    pub(crate) lock: u32,
    pub(crate) index: u32,
    pub(crate) offset: u64,
    pub(crate) width: u16,
    /// Whether the times are of the kernel's last update.
    pub(crate) is_late: bool,
}

/// What a page says of an event that is off the PMU, as long as its lock is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) value: u64,
    pub(crate) running: u64,
    pub(crate) lock: u32,
}

/// Why only read(2) knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskKernel {
    /// Linux before 3.12: the capability bits mean something else.
    OldKernel,
    /// The page says that user space may not read.
    NotAllowed,
    /// No counter is assigned to the event now, or none that user space may read.
    NoIndex,
    /// The event was off the PMU before, and the page's times cannot be brought up to now.
    NoTimes,
    /// The lock was odd or moving in every try.
    Busy,
}

/// Reads `page` and the counter that it names.
///
/// Where the page's times cannot be brought up to now and the event was never off the PMU, they are those of the kernel's last
/// update: their difference is right all the same.
///
/// # Safety
///
/// `page` is the page of an event that was opened on the calling thread.
#[allow(unsafe_code, reason = "reads the counter that the page names, which is right only on the event's own thread")]
#[inline]
pub(crate) unsafe fn read<P: Processor>(page: &MmapPage, processor: &P) -> Result<UserRead, AskKernel> {
    for _ in 0..TRIES {
        let lock = page.lock.load(Relaxed);
        if lock & 1 != 0 {
            processor.pause();
            continue;
        }
        compiler_fence(Acquire);
        let capabilities = page.capabilities.load(Relaxed);
        let mut enabled = page.time_enabled.load(Relaxed);
        let mut running = page.time_running.load(Relaxed);
        let never_off = enabled == running;
        let index = page.index.load(Relaxed);
        let offset = page.offset.load(Relaxed).cast_unsigned();
        let readable = capabilities & READABLE == READABLE && index != 0;
        let width = page.pmc_width.load(Relaxed);
        let timed = capabilities & CAP_USER_TIME != 0;
        if timed {
            let delta = since_update(page, capabilities, processor.ticks());
            enabled = enabled.wrapping_add(delta);
            running = running.wrapping_add(delta);
        }
        let mut value = offset;
        if readable {
            // SAFETY: the page named it, and the caller vouches for the thread.
            let raw = unsafe { processor.read(processor.counter(index - 1)) };
            value = value.wrapping_add(sign_extend(raw, width));
        }
        compiler_fence(Acquire);
        if page.lock.load(Relaxed) != lock {
            continue;
        }
        return if capabilities & CAP_BIT0_IS_DEPRECATED == 0 {
            Err(AskKernel::OldKernel)
        } else if capabilities & CAP_USER_RDPMC == 0 {
            Err(AskKernel::NotAllowed)
        } else if index == 0 {
            Err(AskKernel::NoIndex)
        } else if !timed && !never_off {
            Err(AskKernel::NoTimes)
        } else {
            Ok(UserRead { value, enabled, running, lock, index, offset, width, is_late: !timed })
        };
    }
    Err(AskKernel::Busy)
}

/// Reads a page whose event is known to be off the PMU: its count and running time stand still, and are what the kernel left there.
pub(crate) fn rest(page: &MmapPage) -> Option<Rest> {
    let lock = page.lock.load(Relaxed);
    compiler_fence(Acquire);
    let rest =
        Rest { value: page.offset.load(Relaxed).cast_unsigned(), running: page.time_running.load(Relaxed), lock };
    let is_off = page.index.load(Relaxed) == 0;
    compiler_fence(Acquire);
    (is_off && lock & 1 == 0 && page.lock.load(Relaxed) == lock).then_some(rest)
}

/// The low `width` bits of a counter, which the kernel programs to start negative, as a number to be added to the page's offset.
#[inline]
pub(crate) fn sign_extend(raw: u64, width: u16) -> u64 {
    let unused = 64 - u32::from(width.clamp(1, 64));
    ((raw << unused).cast_signed() >> unused).cast_unsigned()
}

/// Nanoseconds from the kernel's last update of the page's times until the tick.
#[inline]
fn since_update(page: &MmapPage, capabilities: u64, ticks: u64) -> u64 {
    let mut ticks = ticks;
    if capabilities & CAP_USER_TIME_SHORT != 0 {
        // The tick counter has fewer than 64 bits: its distance from the last known value, within its width.
        let known = page.time_cycles.load(Relaxed);
        ticks = known.wrapping_add(ticks.wrapping_sub(known) & page.time_mask.load(Relaxed));
    }
    let scaled = u128::from(ticks) * u128::from(page.time_mult.load(Relaxed));
    let shift = u32::from(page.time_shift.load(Relaxed));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel computes modulo 2^64: cutting off is what it means"
    )]
    let nanoseconds = scaled.checked_shr(shift).unwrap_or(0) as u64;
    page.time_offset.load(Relaxed).wrapping_add(nanoseconds)
}

#[cfg(test)]
mod tests;
#[cfg(all(test, target_arch = "x86_64", target_os = "linux", not(any(miri, perfmark_unsupported))))]
mod trapped;
