//! `mrs` of the event counters, the cycle counter and the virtual timer (Arm ARM, D13: PMEVCNTR<n>_EL0, PMCCNTR_EL0,
//! CNTVCT_EL0).
#![allow(unsafe_code, reason = "instructions")]

use std::arch::{asm, naked_asm};

use super::processor::{Native, Processor, ReadPair};

/// A small function that returns a counter's value in x9 and changes no other register.
type Reader = unsafe extern "C" fn();

/// The counter's number is part of the instruction, so there is one reader for each: event counters 0 to 30, and the
/// cycle counter as number 31.
macro_rules! readers {
    ($($register:literal)*) => {
        [$({
            /// # Safety: only `Native::read` calls it, and expects the value in x9.
            #[unsafe(naked)]
            unsafe extern "C" fn read() {
                naked_asm!(concat!("mrs x9, ", $register), "ret")
            }
            read as Reader
        }),*]
    };
}

#[rustfmt::skip]
static READERS: [Reader; 32] = readers!(
    "pmevcntr0_el0" "pmevcntr1_el0" "pmevcntr2_el0" "pmevcntr3_el0"
    "pmevcntr4_el0" "pmevcntr5_el0" "pmevcntr6_el0" "pmevcntr7_el0"
    "pmevcntr8_el0" "pmevcntr9_el0" "pmevcntr10_el0" "pmevcntr11_el0"
    "pmevcntr12_el0" "pmevcntr13_el0" "pmevcntr14_el0" "pmevcntr15_el0"
    "pmevcntr16_el0" "pmevcntr17_el0" "pmevcntr18_el0" "pmevcntr19_el0"
    "pmevcntr20_el0" "pmevcntr21_el0" "pmevcntr22_el0" "pmevcntr23_el0"
    "pmevcntr24_el0" "pmevcntr25_el0" "pmevcntr26_el0" "pmevcntr27_el0"
    "pmevcntr28_el0" "pmevcntr29_el0" "pmevcntr30_el0" "pmccntr_el0"
);

/// A small function that returns the values of two counters in x9 and x10 and changes no other register.
type PairReader = unsafe extern "C" fn();

macro_rules! pair_readers {
    ([$($one:literal)*] $others:tt) => { [$(pair_readers!(@row $one $others)),*] };
    ($($all:literal)*) => { pair_readers!([$($all)*] [$($all)*]) };
    (@row $one:literal [$($other:literal)*]) => {
        [$({
            /// # Safety: only `Native::read_pair` calls it, and expects the values in x9 and x10.
            #[unsafe(naked)]
            unsafe extern "C" fn read() {
                naked_asm!(concat!("mrs x9, ", $one), concat!("mrs x10, ", $other), "ret")
            }
            read as PairReader
        }),*]
    };
}

/// Pairs of the first eight event counters and the cycle counter, which is the last one here. The kernel assigns the
/// free event counter with the lowest number.
#[rustfmt::skip]
static PAIR_READERS: [[PairReader; 9]; 9] = pair_readers!(
    "pmevcntr0_el0" "pmevcntr1_el0" "pmevcntr2_el0" "pmevcntr3_el0" "pmevcntr4_el0"
    "pmevcntr5_el0" "pmevcntr6_el0" "pmevcntr7_el0" "pmccntr_el0"
);

/// As in syscall(2).
///
/// # Safety: as the system call requires.
#[inline]
pub(crate) unsafe fn system_call(number: libc::c_long, one: usize, two: usize, three: usize) -> libc::c_long {
    let result: libc::c_long;
    // SAFETY: the caller promises what the system call requires. The kernel changes x0 and the registers of SVE beyond
    // those of NEON (`Documentation/arch/arm64/sve.rst`), which are among those that C functions change.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number, inlateout("x0") one => result, in("x1") two, in("x2") three,
            clobber_abi("C"), options(nostack),
        );
    }
    result
}

/// `iterations` is not 0.
#[inline]
pub(super) fn loop_of_two_instructions(iterations: u64) {
    // SAFETY: touches one register.
    unsafe { asm!("2:", "subs {0}, {0}, #1", "b.ne 2b", inout(reg) iterations => _, options(nomem, nostack)) };
}

#[inline]
pub(crate) fn fence() {
    // SAFETY: changes no register; not `nomem`, so that the compiler keeps the order as well.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}

impl Processor for Native {
    type Counter = Reader;

    #[inline]
    fn counter(&self, n: u32) -> Reader {
        READERS[(n & 31) as usize]
    }

    #[inline]
    unsafe fn read(&self, reader: Reader) -> u64 {
        let value: u64;
        // SAFETY: the caller guarantees the counter; a reader changes x9 and, by being called, x30.
        // Not `nomem`: the compiler must not move it across the loads of the lock.
        unsafe { asm!("blr {}", in(reg) reader, out("x9") value, out("x30") _, options(nostack, preserves_flags)) };
        value
    }

    #[inline]
    fn ticks(&self) -> u64 {
        let ticks: u64;
        // SAFETY: Linux allows user space to read the virtual timer.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
        ticks
    }
}

impl ReadPair for Native {
    type Pair = PairReader;

    #[inline]
    fn pair(&self, one: u32, other: u32) -> Option<PairReader> {
        let index = |n: u32| match n {
            0..8 => Some(n as usize),
            31 => Some(8),
            _ => None,
        };
        Some(PAIR_READERS[index(one)?][index(other)?])
    }

    #[inline]
    unsafe fn read_pair(&self, reader: PairReader) -> (u64, u64) {
        let (one, other): (u64, u64);
        // SAFETY: the caller guarantees both counters; a reader changes x9, x10 and, by being called, x30.
        // Not `nomem`: the compiler must not move it across the loads of the locks.
        unsafe {
            asm!(
                "blr {}",
                in(reg) reader, out("x9") one, out("x10") other, out("x30") _,
                options(nostack, preserves_flags)
            );
        }
        (one, other)
    }
}
