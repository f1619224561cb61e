//! A processor that a script drives: time passes, and counters count, when the script says so.
#![allow(unsafe_code, reason = "the trait's method is unsafe")]

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::processor::{Native, Processor};

/// The number of hardware counters that each thread has.
pub(crate) const COUNTERS: usize = 6;
/// The bits of each.
pub(crate) const WIDTH: u16 = 48;

/// The tick counter, which all threads share.
pub(crate) static TICKS: AtomicU64 = AtomicU64::new(1 << 40);

/// What a reading adds to the counter, or to the ticks, after it.
pub(crate) static COST: AtomicU64 = AtomicU64::new(0);

thread_local!(static VALUES: [Cell<u64>; COUNTERS] = const { [const { Cell::new(0) }; COUNTERS] });

/// The value of one of this thread's counters.
pub(crate) fn value(n: usize) -> u64 {
    VALUES.with(|values| values[n].get())
}

pub(crate) fn set_value(n: usize, value: u64) {
    VALUES.with(|values| values[n].set(value));
}

pub(super) fn loop_of_two_instructions(_: u64) {}

pub(crate) fn fence() {}

impl Processor for Native {
    type Counter = u32;

    fn counter(&self, n: u32) -> u32 {
        n
    }

    unsafe fn read(&self, n: u32) -> u64 {
        let read = value(n as usize);
        set_value(n as usize, read + COST.load(Relaxed));
        read
    }

    fn ticks(&self) -> u64 {
        TICKS.fetch_add(COST.load(Relaxed), Relaxed)
    }
}
