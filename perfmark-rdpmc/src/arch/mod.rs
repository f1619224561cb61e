//! The processor's instructions for reading a counter and the tick counter.

mod processor;
#[cfg(perfmark_scripted)]
pub(crate) mod scripted;
#[cfg(perfmark_scripted)]
use scripted as native;
#[cfg(not(perfmark_scripted))]
#[cfg_attr(all(target_arch = "x86_64", not(any(miri, perfmark_unsupported))), path = "x86_64.rs")]
#[cfg_attr(
    all(target_arch = "aarch64", target_os = "linux", not(any(miri, perfmark_unsupported))),
    path = "aarch64.rs"
)]
#[cfg_attr(
    all(target_arch = "riscv64", target_os = "linux", not(any(miri, perfmark_unsupported))),
    path = "riscv64.rs"
)]
#[cfg_attr(
    not(any(
        all(target_arch = "x86_64", not(any(miri, perfmark_unsupported))),
        all(target_arch = "aarch64", target_os = "linux", not(any(miri, perfmark_unsupported))),
        all(target_arch = "riscv64", target_os = "linux", not(any(miri, perfmark_unsupported))),
    )),
    path = "unsupported.rs"
)]
mod native;
#[cfg(any(
    perfmark_scripted,
    not(all(target_arch = "aarch64", target_os = "linux", not(any(miri, perfmark_unsupported))))
))]
mod pair;

pub(crate) use native::fence;
pub(crate) use processor::{Native, Processor, ReadPair, now};

/// A system call with three arguments. It returns the result, or the negated errno, and does not set libc's `errno`.
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    not(any(miri, perfmark_unsupported, perfmark_scripted)),
))]
pub(crate) use native::system_call;

/// Executes a loop of two instructions per iteration, and nothing else, and returns the number of these instructions. A
/// correct counter of instructions shows this number and the few instructions around the loop. Some counters, for
/// example in virtual machines, are wrong.
///
/// On targets without counters the compiler generates the loop, and its length is unknown.
#[inline]
#[must_use]
pub fn known_loop(iterations: u64) -> u64 {
    if iterations > 0 {
        native::loop_of_two_instructions(iterations);
    }
    iterations.saturating_mul(2)
}
