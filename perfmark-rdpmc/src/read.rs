//! The seqlock loop: reads an event's count and times from its page, without a system call.
//!
//! The kernel makes `lock` odd, writes the page, and makes `lock` even again. The thread that owns the event reads the
//! page and the hardware counter, and starts over if `lock` was odd or has changed. The kernel writes while it
//! interrupts this very thread, so compiler ordering is sufficient (`tools/lib/perf/mmap.c`, linux 6.12). Only reset
//! and mmap write from other CPUs.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::compiler_fence;

use crate::arch::Processor;
use crate::sys::{CAP_BIT0_IS_DEPRECATED, CAP_USER_RDPMC, CAP_USER_TIME, CAP_USER_TIME_SHORT, MmapPage};

/// The number of tries. The kernel's updates are much shorter. But `++lock` is not atomic, so a reset from another CPU
/// can leave it odd permanently.
const TRIES: usize = 100;

/// The capability bits that allow user space to read the counter.
const READABLE: u64 = CAP_BIT0_IS_DEPRECATED | CAP_USER_RDPMC;

/// A count and its times at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserRead {
    pub(crate) value: u64,
    pub(crate) enabled: u64,
    pub(crate) running: u64,
    /// The contents of the page, valid while its lock has this value.
    pub(crate) lock: u32,
    pub(crate) index: u32,
    pub(crate) offset: u64,
    pub(crate) width: u16,
    /// Whether the times are those of the kernel's last update.
    pub(crate) has_stale_times: bool,
}

/// The page of an event that is off the PMU, valid while its lock has this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InactiveRead {
    pub(crate) value: u64,
    pub(crate) running: u64,
    pub(crate) lock: u32,
}

/// Why a page cannot be read in user space now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoUserRead {
    /// Linux before 3.12: the capability bits have another meaning.
    OldKernel,
    /// The page does not allow user space to read.
    NotAllowed,
    /// No counter that user space may read is assigned to the event now.
    NoIndex,
    /// The event was off the PMU before, and the page does not allow computing current times.
    NoTimes,
    /// The lock was odd or changed in every try.
    Busy,
}

/// Reads `page` and the counter that it names.
///
/// If the page does not allow computing current times, and the event was never off the PMU, the times are those of the
/// kernel's last update. Their difference is correct all the same.
///
/// # Safety
///
/// `page` belongs to an event that was opened on the calling thread.
#[allow(unsafe_code, reason = "reads the counter that the page names, which is valid only on the event's own thread")]
#[inline]
pub(crate) unsafe fn read<P: Processor>(page: &MmapPage, processor: &P) -> Result<UserRead, NoUserRead> {
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
            // SAFETY: the page named it, and the caller guarantees the thread.
            let raw = unsafe { processor.read(processor.counter(index - 1)) };
            value = value.wrapping_add(sign_extend(raw, width));
        }
        compiler_fence(Acquire);
        if page.lock.load(Relaxed) != lock {
            continue;
        }
        return if capabilities & CAP_BIT0_IS_DEPRECATED == 0 {
            Err(NoUserRead::OldKernel)
        } else if capabilities & CAP_USER_RDPMC == 0 {
            Err(NoUserRead::NotAllowed)
        } else if index == 0 {
            Err(NoUserRead::NoIndex)
        } else if !timed && !never_off {
            Err(NoUserRead::NoTimes)
        } else {
            Ok(UserRead { value, enabled, running, lock, index, offset, width, has_stale_times: !timed })
        };
    }
    Err(NoUserRead::Busy)
}

/// Reads the page of an event that is off the PMU: its count and running time do not change while it is off.
pub(crate) fn read_inactive(page: &MmapPage) -> Option<InactiveRead> {
    let lock = page.lock.load(Relaxed);
    compiler_fence(Acquire);
    let read = InactiveRead {
        value: page.offset.load(Relaxed).cast_unsigned(),
        running: page.time_running.load(Relaxed),
        lock,
    };
    let is_off = page.index.load(Relaxed) == 0;
    compiler_fence(Acquire);
    (is_off && lock & 1 == 0 && page.lock.load(Relaxed) == lock).then_some(read)
}

/// Sign-extends the low `width` bits of a counter, to be added to the page's offset. The kernel programs counters to
/// start at a negative value.
#[inline]
pub(crate) fn sign_extend(raw: u64, width: u16) -> u64 {
    let unused = 64 - u32::from(width.clamp(1, 64));
    ((raw << unused).cast_signed() >> unused).cast_unsigned()
}

/// Nanoseconds from the kernel's last update of the page's times to `ticks`.
#[inline]
fn since_update(page: &MmapPage, capabilities: u64, ticks: u64) -> u64 {
    let mut ticks = ticks;
    if capabilities & CAP_USER_TIME_SHORT != 0 {
        // The tick counter has fewer than 64 bits: adds its distance from the last known value, modulo its width.
        let known = page.time_cycles.load(Relaxed);
        ticks = known.wrapping_add(ticks.wrapping_sub(known) & page.time_mask.load(Relaxed));
    }
    let scaled = u128::from(ticks) * u128::from(page.time_mult.load(Relaxed));
    let shift = u32::from(page.time_shift.load(Relaxed));
    #[expect(clippy::cast_possible_truncation, reason = "the kernel computes modulo 2^64, so truncation is intended")]
    let nanoseconds = scaled.checked_shr(shift).unwrap_or(0) as u64;
    page.time_offset.load(Relaxed).wrapping_add(nanoseconds)
}

#[cfg(test)]
mod tests;
#[cfg(all(test, target_arch = "x86_64", target_os = "linux", not(any(miri, perfmark_unsupported))))]
mod trapped;
