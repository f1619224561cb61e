//! Loops whose addresses and shares are known: each round consists of multiplications that wait for each other, 24 or
//! 56 of them. They take about as many nanoseconds.
#![allow(unsafe_code, reason = "assembly")]

use std::arch::global_asm;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! spin {
    ($function:ident, $multiplications:literal, $name:literal, $end:literal,
     $symbol:ident, $end_symbol:ident, $range:ident) => {
        #[cfg(target_arch = "x86_64")]
        global_asm!(
            concat!(".globl ", $name, ", ", $end),
            concat!($name, ":"),
            "2:",
            concat!(".rept ", $multiplications),
            "imul rax, rdi",
            ".endr",
            "dec rdi",
            "jnz 2b",
            concat!($end, ":"),
            // The code after a short loop does not overlap with it.
            "lfence",
            "ret",
        );
        #[cfg(target_arch = "aarch64")]
        global_asm!(
            concat!(".globl ", $name),
            concat!(".globl ", $end),
            concat!($name, ":"),
            "2:",
            // Each instruction counts in the emulated machine.
            concat!(".rept ", $multiplications, " - 2"),
            "mul x9, x9, x0",
            ".endr",
            "subs x0, x0, #1",
            "b.ne 2b",
            "ret",
            concat!($end, ":"),
        );
        unsafe extern "C" {
            #[link_name = $name]
            fn $symbol(times: u64);
            #[link_name = $end]
            fn $end_symbol();
        }
        pub(crate) fn $function(times: u64) {
            // The code before a short loop does not overlap with it.
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 processor has SSE2.
            unsafe {
                std::arch::x86_64::_mm_lfence();
            };
            // SAFETY: changes two registers, which a call may change.
            unsafe { $symbol(times) };
        }
        pub(crate) fn $range() -> Range<u64> {
            $symbol as *const () as u64..$end_symbol as *const () as u64
        }
    };
}
spin!(spin_three, 24, "perfmark_test_three", "perfmark_test_three_end", three, three_end, code_of_three);
spin!(spin_seven, 56, "perfmark_test_seven", "perfmark_test_seven_end", seven, seven_end, code_of_seven);

/// About that many turns, other ones each time, so that samples are not in step with calls.
pub(crate) fn about(turns: u64) -> u64 {
    static RANDOM: AtomicU64 = AtomicU64::new(1);
    let random = RANDOM.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
    turns / 2 + (random ^ random >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) % turns
}
