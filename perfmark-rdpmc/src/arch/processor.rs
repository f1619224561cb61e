//! What every processor does in its own way.

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

/// Reads two counters, one right behind the other, in fewer instructions than two readings.
pub(crate) trait ReadPair: Processor {
    /// The numbers of two counters, made ready for many reads of both.
    type Pair: Copy + std::fmt::Debug;

    /// Makes two hardware counters ready. `None` if they cannot be read as a pair.
    fn pair(&self, one: u32, other: u32) -> Option<Self::Pair>;

    /// The raw bits of both counters, the first one read first.
    ///
    /// # Safety
    ///
    /// As [`read`](Processor::read), for both.
    #[allow(unsafe_code, reason = "the caller must vouch for the counters")]
    unsafe fn read_pair(&self, pair: Self::Pair) -> (u64, u64);
}

/// The processor that this program runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Native;
