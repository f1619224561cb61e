//! What a marked call costs beside a bare pair of tick reads: `cargo bench -p benches --bench call`.
//!
//! Run with `PERFMARK=off` it tells what a mark costs when it is switched off.

use std::hint::black_box;

use benches::compare;
use perfmark::perfmark;
use perfmark_rdpmc::clock::ticks;

/// Calls a sample.
const CALLS: u32 = 20_000;

#[inline(never)]
fn unmarked(n: u32) -> u32 {
    black_box(n)
}

#[inline(never)]
fn tick_pair(n: u32) -> u32 {
    let before = ticks();
    let n = black_box(n);
    black_box(ticks() - before);
    n
}

#[perfmark(time)]
#[inline(never)]
fn time(n: u32) -> u32 {
    black_box(n)
}

#[perfmark(page_faults)]
#[inline(never)]
fn page_faults(n: u32) -> u32 {
    black_box(n)
}

#[perfmark(cycles, instructions)]
#[inline(never)]
fn cycles_and_instructions(n: u32) -> u32 {
    black_box(n)
}

/// A sample of calls.
fn calls(function: fn(u32) -> u32) -> Box<dyn Fn()> {
    Box::new(move || {
        for n in 0..CALLS {
            black_box(function(n));
        }
    })
}

fn main() {
    compare(
        "a bare pair of tick reads",
        &[
            ("an unmarked call", calls(unmarked)),
            ("a bare pair of tick reads", calls(tick_pair)),
            ("#[perfmark(time)]", calls(time)),
            ("#[perfmark(page_faults)], by read(2)", calls(page_faults)),
            ("#[perfmark(cycles, instructions)]", calls(cycles_and_instructions)),
        ],
    );
}
