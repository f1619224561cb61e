//! Targets without counters: the tick is the standard library's monotonic clock, in nanoseconds.
#![allow(unsafe_code, reason = "the trait's method is unsafe")]

use std::sync::OnceLock;
use std::time::Instant;

use super::processor::{Native, Processor, now};

pub(super) fn loop_of_two_instructions(iterations: u64) {
    for n in 0..iterations {
        std::hint::black_box(n);
    }
}

#[inline]
pub(crate) fn fence() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

impl Processor for Native {
    type Counter = ();

    fn counter(&self, _: u32) {}

    unsafe fn read(&self, (): ()) -> u64 {
        0
    }

    fn ticks(&self) -> u64 {
        static START: OnceLock<Option<Instant>> = OnceLock::new();
        let start = START.get_or_init(now);
        start.map_or(0, |start| u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
