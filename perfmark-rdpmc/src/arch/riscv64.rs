//! `csrr` of the user-level counters (RISC-V unprivileged ISA, "Counters", Zicntr and Zihpm): cycle, time, instret and
//! hpmcounter3 to hpmcounter31 are the registers 0xC00 to 0xC1F.
#![allow(unsafe_code, reason = "instructions")]

use std::arch::asm;

use super::processor::{Native, Processor};

type Reader = unsafe fn() -> u64;

/// The register's number is part of the instruction, so there is one small reader for each.
macro_rules! readers {
    ($($register:literal)*) => {
        [$({
            /// # Safety: as [`Processor::read`].
            unsafe fn read() -> u64 {
                let value: u64;
                // SAFETY: the caller guarantees the counter.
                // Not `nomem`: the compiler must not move it across the loads of the lock.
                unsafe { asm!(concat!("csrr {}, ", $register), out(reg) value, options(nostack, preserves_flags)) };
                value
            }
            read as Reader
        }),*]
    };
}

/// Indexed by the counter's number, which the kernel's driver computes as register - 0xC00 (`pmu_sbi_csr_index`,
/// `drivers/perf/riscv_pmu_sbi.c`, linux 6.12).
#[rustfmt::skip]
static READERS: [Reader; 32] = readers!(
    "0xC00" "0xC01" "0xC02" "0xC03" "0xC04" "0xC05" "0xC06" "0xC07"
    "0xC08" "0xC09" "0xC0A" "0xC0B" "0xC0C" "0xC0D" "0xC0E" "0xC0F"
    "0xC10" "0xC11" "0xC12" "0xC13" "0xC14" "0xC15" "0xC16" "0xC17"
    "0xC18" "0xC19" "0xC1A" "0xC1B" "0xC1C" "0xC1D" "0xC1E" "0xC1F"
);

/// As in syscall(2).
///
/// # Safety: as the system call requires.
#[inline]
pub(crate) unsafe fn system_call(number: libc::c_long, one: usize, two: usize, three: usize) -> libc::c_long {
    let result: libc::c_long;
    // SAFETY: the caller promises what the system call requires. The kernel changes a0 and the vector registers
    // (`Documentation/arch/riscv/vector.rst`), which are among those that C functions change.
    unsafe {
        asm!(
            "ecall",
            in("a7") number, inlateout("a0") one => result, in("a1") two, in("a2") three,
            clobber_abi("C"), options(nostack),
        );
    }
    result
}

/// `iterations` is not 0.
#[inline]
pub(super) fn loop_of_two_instructions(iterations: u64) {
    // SAFETY: touches one register.
    unsafe { asm!("2:", "addi {0}, {0}, -1", "bnez {0}, 2b", inout(reg) iterations => _, options(nomem, nostack)) };
}

#[inline]
pub(crate) fn fence() {
    // SAFETY: changes no register; not `nomem`, so that the compiler keeps the order as well.
    unsafe { asm!("fence", options(nostack, preserves_flags)) };
}

impl Processor for Native {
    type Counter = Reader;

    #[inline]
    fn counter(&self, n: u32) -> Reader {
        READERS[(n & 31) as usize]
    }

    #[inline]
    unsafe fn read(&self, reader: Reader) -> u64 {
        // SAFETY: the caller promises that user space may read the counter.
        unsafe { reader() }
    }

    #[inline]
    fn ticks(&self) -> u64 {
        let ticks: u64;
        // SAFETY: Linux allows user space to read `time`, and emulates it where the machine lacks it.
        unsafe { asm!("rdtime {}", out(reg) ticks, options(nostack, preserves_flags)) };
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_1_is_the_time() {
        let before = Native.ticks();
        // SAFETY: user space may always read `time`.
        let read = unsafe { Native.read(Native.counter(1)) };
        assert!((before..=Native.ticks()).contains(&read), "{before} {read}");
    }

    #[test]
    fn the_known_loop_ends() {
        assert_eq!(crate::known_loop(1_000), 2_000);
    }
}
