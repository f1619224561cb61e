//! The program that `gates` compares with itself: about 12 ms of work in marks of different lengths.
//!
//! Started under a name that ends in `slower-N`, `parse` does N % more work.

use std::hint::black_box;

use perfmark::perfmark;

/// Some 10 µs.
#[perfmark(time)]
fn parse(turns: u64) -> u64 {
    spin(turns)
}

/// Some 1 µs.
#[perfmark(time)]
fn hash() -> u64 {
    spin(500)
}

/// Some 100 µs.
#[perfmark(time)]
fn sort(numbers: &mut [u64]) {
    numbers.sort_unstable();
}

/// Some 20 ns.
#[perfmark(time)]
fn count(n: u64) -> u64 {
    spin(n & 15)
}

/// Marked calls inside.
#[perfmark(time)]
fn round(turns: u64, seed: u64) -> u64 {
    let parsed = (0..10).map(|_| parse(turns)).fold(0, u64::wrapping_add);
    let hashed = (0..20).map(|_| hash()).fold(0, u64::wrapping_add);
    let counted = (0..100).map(count).fold(0, u64::wrapping_add);
    let mut numbers: Vec<u64> =
        (0..2_000).map(|n: u64| (n ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)).collect();
    sort(&mut numbers);
    parsed ^ hashed ^ counted ^ numbers[7]
}

/// One call in a run.
#[perfmark(time)]
fn all(turns: u64) -> u64 {
    (0..60).map(|seed| round(turns, seed)).fold(0, u64::wrapping_add)
}

/// A chain of operations in registers: its time depends on the clock rate only. A chain through memory has two speeds
/// on some processors.
#[inline(never)]
fn spin(turns: u64) -> u64 {
    (0..black_box(turns)).fold(1, |state: u64, turn| (state ^ (state >> 29)).wrapping_mul(0x5851_f42d_4c95_7f2d) ^ turn)
}

fn main() {
    let name = std::env::args().next();
    let slower = name.and_then(|name| name.rsplit_once("slower-")?.1.parse().ok()).unwrap_or(0);
    black_box(all(5_000 + 50 * slower));
}
