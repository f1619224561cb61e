//! Which thread this is, in one instruction.
#![allow(unsafe_code, reason = "reads the thread pointer")]

/// A number that no other thread has while this one lives, and not 0: its thread pointer.
///
/// Each call asks anew: a program that switches stacks may be on another thread in the same function.
#[cfg(all(
    not(miri),
    any(target_os = "linux", target_os = "android"),
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
#[inline]
pub(super) fn of_thread() -> usize {
    let pointer: usize;
    // SAFETY: reads a register, or the word that the x86-64 ABI has at the thread pointer: its own address ("ELF Handling For Thread-Local Storage",
    // 3.4.6). Not `pure`, so that no reading stands for another one.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
        #[cfg(target_arch = "riscv64")]
        std::arch::asm!("mv {}, tp", out(reg) pointer, options(nostack, preserves_flags, nomem));
    }
    pointer
}

/// Elsewhere: the address of something of the thread's own.
#[cfg(not(all(
    not(miri),
    any(target_os = "linux", target_os = "android"),
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
#[inline(never)]
pub(super) fn of_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}
