//! A program in which each function and line has a known share of the instructions. `ci/check-perf-record` samples it
//! by perfmark and by perf.
//!
//! usage: shares THREADS TURNS

use std::hint::black_box;
use std::thread;

use perfmark::perfmark;

/// Bounds how long a thread runs: so many turns of each function, times 3, 7 or 10.
const TURNS: u64 = 4_000_000;

#[perfmark(time)]
#[inline(never)]
fn light(turns: u64) {
    spin(3 * turns);
}

#[perfmark(time)]
#[inline(never)]
fn heavy(turns: u64) {
    spin(7 * turns);
}

/// The same loop twice: in this function, and inlined into it.
#[perfmark(time)]
#[inline(never)]
fn two_loops(turns: u64) {
    let (mut left, mut bits) = (3 * turns, 1_u64);
    while left > 0 {
        bits = (bits << 1) ^ (bits >> 3) ^ left;
        left -= 1;
    }
    black_box(bits);
    spin(7 * turns);
}

#[allow(clippy::inline_always, reason = "samples in inlined code belong to a line of the marked function")]
#[inline(always)]
fn spin(turns: u64) {
    let (mut left, mut bits) = (turns, 1_u64);
    while left > 0 {
        bits = (bits << 1) ^ (bits >> 3) ^ left;
        left -= 1;
    }
    black_box(bits);
}

fn work(turns: u64) {
    for _ in 0..TURNS / turns {
        light(turns);
        heavy(turns);
        two_loops(turns);
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>().expect("a number"));
    let [threads, turns] = [(); 2].map(|()| numbers.next().expect("usage: shares THREADS TURNS"));
    thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(move || work(turns))));
}
