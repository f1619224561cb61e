//! What calls of a mark do, in one number: nothing; find their plan in a slot; or, of a thinned mark, be skipped if the
//! thread is in a gap between bursts.
//!
//! On x86-64 with glibc, or linked statically, the marked function itself skips the call, in a few instructions. The
//! entry is then the offset of a thread-local pointer from the thread's control block, which is negative, and the same
//! on all threads ("ELF Handling For Thread-Local Storage", 3.4.6). So no symbol of perfmark is in the user's crate.
//! The pointer refers to the thread's [`Counts`].
#![allow(unsafe_code, reason = "finds the thread's counts")]

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) use self::local::{OFF, increment, is_off, is_skipping, set_counts, skip, skipping};

/// The slots in a thread's tables of marks. Calls of marks beyond them are recorded too, at the cost of some thousand
/// instructions each. 0 and 1 are none.
pub(crate) const SLOTS: usize = 1 << 14;

/// How many calls the thread's marked functions skipped, by the slots of their marks, with [`IS_ON`] and [`WAS_ON`].
///
/// Only the thread changes a count, and its signal handlers. So each change is atomic or a single instruction, and
/// nothing is lost if a handler comes in between.
pub(crate) type Counts = [AtomicI64; SLOTS];

/// In a count: the marked function skips calls in gaps.
const IS_ON: i64 = i64::MIN;
/// In a count: it has done so.
const WAS_ON: i64 = 1 << 62;

/// Lets the marked function skip calls in gaps from now on. Returns whether it is the first time.
pub(crate) fn switch_on(count: &AtomicI64) -> bool {
    count.fetch_or(IS_ON | WAS_ON, Relaxed) & WAS_ON == 0
}

/// Lets the marked function skip no calls from now on.
pub(crate) fn switch_off(count: &AtomicI64) {
    count.fetch_and(!IS_ON, Relaxed);
}

/// The number of calls that the marked function skipped.
pub(crate) fn skipped_in(count: &AtomicI64) -> u64 {
    (count.load(Relaxed) & !(IS_ON | WAS_ON)).cast_unsigned()
}

#[cfg(all(
    not(miri),
    target_os = "linux",
    any(target_env = "gnu", target_feature = "crt-static"),
    target_pointer_width = "64",
    target_arch = "x86_64"
))]
mod local {
    use std::arch::{asm, global_asm};

    use super::{AtomicI64, Counts, SLOTS};

    /// The entry of a mark that is off.
    pub(crate) const OFF: i64 = 0;

    /// Whether calls do nothing.
    #[inline]
    pub(crate) fn is_off(entry: i64) -> bool {
        // With `== OFF`, the compiler would replace the entry by 0 where it serves as a token, which takes a branch.
        entry.cast_unsigned() <= 1
    }

    /// Whether the marked function skips calls in gaps, if it is not off.
    #[inline]
    pub(crate) fn is_skipping(entry: i64) -> bool {
        entry <= 1
    }

    /// The counts of a thread without a recorder.
    static NOTHING: Counts = [const { AtomicI64::new(0) }; SLOTS];

    global_asm!(
        ".pushsection .tdata.{nothing}.counts,\"awT\",@progbits",
        ".p2align 3",
        ".globl {nothing}.counts",
        ".hidden {nothing}.counts",
        ".type {nothing}.counts, @object",
        ".size {nothing}.counts, 8",
        "{nothing}.counts:",
        ".quad {nothing}",
        ".popsection",
        nothing = sym NOTHING,
    );

    /// The entry of a mark with this slot whose marked function skips calls in gaps, if it can.
    pub(crate) fn skipping(_: u32) -> i64 {
        let offset;
        // SAFETY: loads a number that the linker stored.
        unsafe {
            asm!(
                "mov {offset}, qword ptr [rip + {nothing}.counts@gottpoff]",
                offset = out(reg) offset,
                nothing = sym NOTHING,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        offset
    }

    /// Makes these the thread's counts. With null, it has none.
    ///
    /// # Safety
    ///
    /// They live until others are set.
    pub(crate) unsafe fn set_counts(counts: *const Counts) {
        let counts = if counts.is_null() { &raw const NOTHING } else { counts };
        let offset = skipping(0);
        // SAFETY: the offset is that of this thread's pointer.
        unsafe {
            asm!("mov qword ptr fs:[{}], {}", in(reg) offset, in(reg) counts, options(nostack, preserves_flags));
        }
    }

    /// Adds 1 to a number that only this thread changes, and its signal handlers.
    ///
    /// # Safety
    ///
    /// It is a live number.
    #[inline]
    pub(crate) unsafe fn increment(number: *mut i64) {
        // SAFETY: this function's contract.
        unsafe { asm!("inc qword ptr [{}]", in(reg) number, options(nostack)) };
    }

    /// Skips the call that begins if the thread is in a gap, and if the slot's marked function may skip calls.
    ///
    /// # Safety
    ///
    /// The entry is that of a mark that skips calls, and the slot is below [`SLOTS`]. If its count is on, a number is
    /// `FROM_GAP` bytes before the counts: in a gap, minus the number of calls that are left in it.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "a few instructions")]
    pub(crate) unsafe fn skip<const FROM_GAP: usize>(entry: i64, slot: u64) -> bool {
        // SAFETY: this function's contract. The thread's counts are found anew: a program that switches stacks may be
        // on another thread within one function. Only this thread changes the numbers, and its signal handlers, so each
        // change is a single instruction, but not atomic. At the end of a gap, handlers see that it is over.
        unsafe {
            asm!(
                "mov {counts}, qword ptr fs:[{entry}]",
                "cmp qword ptr [{counts} + {slot}*8], 0",
                "jns {is_measured}",
                "inc qword ptr [{counts} - {from_gap}]",
                "jle 2f",
                "dec qword ptr [{counts} - {from_gap}]",
                "jmp {is_measured}",
                "2:",
                "inc qword ptr [{counts} + {slot}*8]",
                entry = in(reg) entry,
                slot = in(reg) slot,
                counts = out(reg) _,
                from_gap = const FROM_GAP,
                is_measured = label { return false },
                options(nostack)
            );
        }
        true
    }
}

#[cfg(not(all(
    not(miri),
    target_os = "linux",
    any(target_env = "gnu", target_feature = "crt-static"),
    target_pointer_width = "64",
    target_arch = "x86_64"
)))]
mod local {
    use super::Counts;

    /// The entry of a mark that is off. It is negative, which is quick to test.
    pub(crate) const OFF: i64 = i64::MIN;

    /// Whether calls do nothing.
    #[inline]
    pub(crate) fn is_off(entry: i64) -> bool {
        entry < 0
    }

    /// No marked function skips calls itself.
    #[inline]
    pub(crate) fn is_skipping(_: i64) -> bool {
        false
    }

    pub(crate) fn skipping(slot: u32) -> i64 {
        slot.into()
    }

    pub(crate) unsafe fn set_counts(_: *const Counts) {}

    /// Adds 1. A signal handler does not change the number: it cannot acquire the recorder meanwhile.
    ///
    /// # Safety
    ///
    /// It is a live number of this thread.
    #[inline]
    pub(crate) unsafe fn increment(number: *mut i64) {
        // SAFETY: this function's contract.
        unsafe { *number += 1 };
    }

    #[inline]
    pub(crate) unsafe fn skip<const FROM_GAP: usize>(_: i64, _: u64) -> bool {
        false
    }
}
