//! `rdpmc` and `rdtsc` (Intel SDM volume 2B; AMD APM volume 3).
#![allow(unsafe_code, reason = "instructions")]

use std::arch::asm;

use super::processor::{Native, Processor};

/// By the System V ABI, AMD64 supplement, A.2.1.
///
/// # Safety: as the system call requires.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[inline]
pub(crate) unsafe fn system_call(number: libc::c_long, one: usize, two: usize, three: usize) -> libc::c_long {
    let result: libc::c_long;
    // SAFETY: the caller promises what the system call requires; the kernel changes rax, rcx and r11.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") one, in("rsi") two, in("rdx") three,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// `iterations` is not 0.
#[inline]
pub(super) fn loop_of_two_instructions(iterations: u64) {
    // SAFETY: touches one register.
    unsafe { asm!("2:", "dec {0}", "jnz 2b", inout(reg) iterations => _, options(nomem, nostack)) };
}

#[inline]
pub(crate) fn fence() {
    // SAFETY: an instruction of every x86-64; not `nomem`, so that the compiler keeps the order as well.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
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
        // SAFETY: the caller guarantees `n`; the instruction writes only eax and edx.
        // Not `nomem`: the compiler must not move it across the loads of the lock.
        unsafe { asm!("rdpmc", in("ecx") n, out("eax") low, out("edx") high, options(nostack, preserves_flags)) };
        u64::from(high) << 32 | u64::from(low)
    }

    #[inline]
    fn ticks(&self) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: every x86-64 has it, and Linux allows it in user space (unless disabled by prctl PR_SET_TSC); it
        // writes only eax and edx.
        // Not `nomem`: the compiler does not move loads across it.
        unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nostack, preserves_flags)) };
        u64::from(high) << 32 | u64::from(low)
    }
}
