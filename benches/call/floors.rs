//! Lower bounds of a mark's cost: the reads alone, and the minimal ways to use their results.

use std::cell::Cell;
use std::hint::black_box;
use std::time::Instant;

use perfmark_rdpmc::clock::{fence, ticks};
use perfmark_rdpmc::{Attr, Counter, Software};

use crate::batch::Case;
use crate::contender::Contender;

pub(crate) const BARE: &str = "a bare pair of tick reads";

pub(crate) fn contenders() -> Vec<Contender> {
    let mut floors = vec![Contender::new(BARE, Case::leaf(pair))];
    floors.push(Contender::new("a pair, fenced", Case::leaf(fenced_pair)));
    floors.push(Contender::new("a pair into a thread-local histogram", Case::leaf(pair_into_histogram)));
    floors.push(Contender::new("a pair of Instant::now", Case::leaf(instant_pair)));
    floors.push(Contender::new("a pair of read(2), task-clock", Case::leaf(read_pair).calls(100)).needs(open()));
    floors
}

#[inline(never)]
fn pair(n: u64) -> u64 {
    let before = ticks();
    let n = black_box(n);
    black_box(ticks().wrapping_sub(before));
    n
}

/// The pair measures nothing that precedes it, and all work in it ends before the second read.
#[inline(never)]
fn fenced_pair(n: u64) -> u64 {
    fence();
    let before = ticks();
    fence();
    let n = black_box(n);
    fence();
    black_box(ticks().wrapping_sub(before));
    n
}

#[inline(never)]
fn pair_into_histogram(n: u64) -> u64 {
    let before = ticks();
    let n = black_box(n);
    let elapsed = ticks().wrapping_sub(before);
    HISTOGRAM.with(|histogram| histogram.add(elapsed));
    n
}

#[inline(never)]
fn instant_pair(n: u64) -> u64 {
    let before = Instant::now();
    let n = black_box(n);
    black_box(before.elapsed());
    n
}

/// log2 of the number of buckets in an octave. The error of a value is at most 1/32.
const GRAIN: u32 = 5;
const BUCKETS: usize = (64 - GRAIN as usize + 1) << GRAIN;

/// A minimal single-writer histogram with a distribution and a sum.
struct Histogram {
    counts: [Cell<u64>; BUCKETS],
    sum: Cell<u64>,
}

impl Histogram {
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "GRAIN + 1 bits are left")]
    fn add(&self, value: u64) {
        // The bits after the first GRAIN + 1 are dropped. The rest is the index of the bucket in its octave.
        let dropped = u64::BITS - 1 - GRAIN - (value | 1 << GRAIN).leading_zeros();
        let bucket = ((dropped as usize) << GRAIN) + (value >> dropped) as usize;
        let count = &self.counts[bucket];
        count.set(count.get() + 1);
        self.sum.set(self.sum.get().wrapping_add(value));
    }
}

thread_local! {
    static HISTOGRAM: Histogram = const { Histogram { counts: [const { Cell::new(0) }; BUCKETS], sum: Cell::new(0) } };
    static TASK_CLOCK: Option<Counter> = open().ok();
}

fn open() -> Result<Counter, perfmark_rdpmc::Error> {
    Counter::open(&Attr::new(Software::TaskClock))
}

#[inline(never)]
fn read_pair(n: u64) -> u64 {
    TASK_CLOCK.with(|counter| {
        let read = || counter.as_ref().map(Counter::read_syscall);
        let before = read();
        let n = black_box(n);
        black_box((before, read()));
        n
    })
}
