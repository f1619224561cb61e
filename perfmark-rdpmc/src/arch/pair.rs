//! Pairs of counters, for processors where two counters are read one after the other.
#![allow(unsafe_code, reason = "the trait's method is unsafe")]

use super::processor::{Native, Processor, ReadPair};

type Counter = <Native as Processor>::Counter;

impl ReadPair for Native {
    type Pair = (Counter, Counter);

    #[inline]
    fn pair(&self, one: u32, other: u32) -> Option<Self::Pair> {
        Some((self.counter(one), self.counter(other)))
    }

    #[inline]
    unsafe fn read_pair(&self, (one, other): Self::Pair) -> (u64, u64) {
        // SAFETY: the caller guarantees for both counters what `read` requires.
        unsafe { (self.read(one), self.read(other)) }
    }
}
