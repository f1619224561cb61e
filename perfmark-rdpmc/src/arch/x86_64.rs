//! `rdpmc` and `rdtsc` (Intel SDM volume 2B; AMD APM volume 3).
#![allow(unsafe_code, reason = "instructions")]

use std::arch::asm;

use super::{Native, Processor};

/// `turns` is not 0.
#[inline]
pub(super) fn two_instructions_a_turn(turns: u64) {
    // SAFETY: touches one register.
    unsafe { asm!("2:", "dec {0}", "jnz 2b", inout(reg) turns => _, options(nomem, nostack)) };
}

impl Processor for Native {
    type Counter = u32;

    #[inline]
    fn counter(&self, n: u32) -> u32 {
        n
    }

    #[inline]
    unsafe fn read(&self, n: u32) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: the caller vouches for `n`; the instruction writes eax and edx alone.
        // Not `nomem`: the compiler must not move it across the loads of the lock.
        unsafe { asm!("rdpmc", in("ecx") n, out("eax") low, out("edx") high, options(nostack, preserves_flags)) };
        u64::from(high) << 32 | u64::from(low)
    }

    #[inline]
    fn ticks(&self) -> u64 {
        // SAFETY: every x86-64 has it, and Linux leaves it to user space (prctl PR_SET_TSC aside).
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}
