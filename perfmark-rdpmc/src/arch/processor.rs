//! The operations that each processor implements.

use std::time::Instant;

/// Reads the hardware counters of the CPU that it runs on.
///
/// The page reader is generic over it, so that tests can use a scripted processor.
pub(crate) trait Processor {
    /// A counter, prepared for many reads: on some processors its number is part of the instruction.
    type Counter: Copy + std::fmt::Debug;

    /// Prepares hardware counter `n`.
    fn counter(&self, n: u32) -> Self::Counter;

    /// The raw value of a hardware counter, of which the lowest `pmc_width` bits are valid.
    ///
    /// # Safety
    ///
    /// The page of an event opened on this thread names the counter. For a counter that this thread may not read, the
    /// instruction causes a fatal signal.
    #[allow(unsafe_code, reason = "the caller must guarantee the counter")]
    unsafe fn read(&self, counter: Self::Counter) -> u64;

    /// The tick counter in whose unit the page's time fields are.
    fn ticks(&self) -> u64;

    /// Waits briefly while a page is being written.
    fn pause(&self) {
        std::hint::spin_loop();
    }
}

/// Reads two counters, one directly after the other, in fewer instructions than two single reads.
pub(crate) trait ReadPair: Processor {
    /// Two counters, prepared for many reads of both.
    type Pair: Copy + std::fmt::Debug;

    /// Prepares two hardware counters. `None` if they cannot be read as a pair.
    fn pair(&self, one: u32, other: u32) -> Option<Self::Pair>;

    /// The raw values of both counters. The first one is read first.
    ///
    /// # Safety
    ///
    /// As [`read`](Processor::read), for both.
    #[allow(unsafe_code, reason = "the caller must guarantee the counters")]
    unsafe fn read_pair(&self, pair: Self::Pair) -> (u64, u64);
}

/// The processor that this program runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Native;

/// The time of the monotonic clock. A browser's module has none, and `Instant::now` panics in it.
pub(crate) fn now() -> Option<Instant> {
    (!cfg!(all(target_family = "wasm", target_os = "unknown"))).then(Instant::now)
}
