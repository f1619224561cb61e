//! The processor's instructions for reading a counter and the tick.

mod processor;
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
#[cfg(not(all(target_arch = "aarch64", target_os = "linux", not(any(miri, perfmark_unsupported)))))]
mod pair;

pub(crate) use native::fence;
pub(crate) use processor::{Native, Processor, ReadPair};

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
