//! A program with a function whose number of instructions is an argument. `ci/check-cli` runs it for `perfmark diff`.
//!
//! usage: loops TURNS

use std::hint::black_box;

use perfmark::perfmark;

/// Two instructions a turn, and a few more.
#[perfmark(instructions)]
fn variable(turns: u64) -> u64 {
    spin(turns)
}

#[perfmark(instructions)]
fn steady() -> u64 {
    spin(10_000)
}

#[perfmark(instructions)]
fn both(turns: u64) -> u64 {
    steady() + variable(turns)
}

#[inline(never)]
fn spin(turns: u64) -> u64 {
    (0..turns).fold(0, |sum, turn| black_box(sum ^ turn))
}

fn main() {
    let turns = std::env::args().nth(1).and_then(|turns| turns.parse().ok()).unwrap_or(10_000);
    let sum: u64 = (0..100).map(|_| both(turns)).fold(0, u64::wrapping_add);
    black_box(sum);
}
