//! The processor's instructions for reading a counter and the tick.

/// Reads the hardware counters of the CPU that it runs on.
///
/// The page reader is generic over it, so that a test can put a script in the processor's place.
pub(crate) trait Processor {
    /// A counter's number, made ready for many reads: on some processors it is a part of the instruction.
    type Counter: Copy + std::fmt::Debug;

    /// Makes hardware counter `n` ready.
    fn counter(&self, n: u32) -> Self::Counter;

    /// The raw bits of a hardware counter, of which the page's `pmc_width` lowest count.
    ///
    /// # Safety
    ///
    /// The page of an event opened on this thread named the counter: the instruction is refused, by a fatal signal, for one that this
    /// thread may not read.
    #[allow(unsafe_code, reason = "the caller must vouch for the counter")]
    unsafe fn read(&self, counter: Self::Counter) -> u64;

    /// The tick counter that the page's time fields are in.
    fn ticks(&self) -> u64;

    /// Waits a moment for a page that is being written.
    fn pause(&self) {
        std::hint::spin_loop();
    }
}

/// The processor that this program runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Native;

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

pub(crate) use native::fence;

#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    not(any(miri, perfmark_unsupported)),
))]
pub(crate) use native::system_call;

/// Executes a loop of two instructions a turn, and nothing else, and gives the number of its instructions: what a true counter of
/// instructions shows, but for the few around it. A virtual machine's counters, for one, can lie.
///
/// On targets without counters the loop is the compiler's, of unknown length.
#[inline]
#[must_use]
pub fn known_loop(turns: u64) -> u64 {
    if turns > 0 {
        native::two_instructions_a_turn(turns);
    }
    turns.saturating_mul(2)
}
