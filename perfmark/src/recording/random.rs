//! Random numbers, without the kernel's help.

use std::cell::Cell;

use perfmark_rdpmc::clock;

/// An odd number with an irregular bit pattern.
pub(crate) const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// A state to begin with, which differs between numbers and between runs.
pub(crate) fn seed(number: u64) -> u64 {
    (number.wrapping_mul(SEED) ^ clock::ticks().wrapping_mul(SEED.rotate_left(32))) | 1
}

/// A random number below `limit`: a step of xorshift64* (S. Vigna, 2016), whose state is never 0.
pub(crate) fn below(limit: u64, random: &Cell<u64>) -> u64 {
    let mut state = random.get();
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    random.set(state);
    let drawn = state.wrapping_mul(0x2545_f491_4f6c_dd1d);
    u64::try_from((u128::from(drawn) * u128::from(limit)) >> 64).unwrap_or(0)
}
