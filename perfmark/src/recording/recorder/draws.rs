//! Which calls of a mark are measured, with `every` or within a budget.

use std::cell::Cell;

/// Which calls of a mark are measured: one of every `weight` consecutive calls, drawn at random.
///
/// Every call is equally likely to be measured, whatever it does. A measured call counts as often as its
/// [weight](crate::recording::cells::MarkCells::weight) says, which makes sums unbiased (D. G. Horvitz and D. J.
/// Thompson, 1952). Independent draws for each call would increase the variance of sums.
#[derive(Debug, Default)]
pub(super) struct Draws {
    /// The total number of calls to be skipped before the next measured one.
    next: Cell<u64>,
    /// The position of the last drawn call among its `weight` calls.
    position: Cell<u64>,
    /// The number of calls skipped so far, for marks whose cells count skipped calls at their end.
    skipped: Cell<u64>,
}

impl Draws {
    /// The draws of a mark with this weight, the first one made.
    pub(super) fn new(weight: u32, random: &Cell<u64>) -> Self {
        let draws = Self::default();
        draws.begin_block(0, weight, random);
        draws
    }

    /// The draws of a mark whose calls are never measured.
    pub(super) fn never() -> Self {
        Self { next: Cell::new(u64::MAX), ..Self::default() }
    }

    /// Whether the next call is the drawn one, when `skipped` calls have been skipped.
    #[inline]
    pub(super) fn is_next(&self, skipped: u64) -> bool {
        skipped == self.next.get()
    }

    /// The same, but counts skipped calls here.
    pub(super) fn is_next_counted(&self) -> bool {
        let skipped = self.skipped.get();
        let is_next = self.is_next(skipped);
        if !is_next {
            self.skipped.set(skipped + 1);
        }
        is_next
    }

    /// Draws the next call to be measured.
    pub(super) fn draw(&self, weight: u32, random: &Cell<u64>) {
        self.begin_block(self.next.get() + self.rest(weight), weight, random);
    }

    /// Draws a call of the next `weight` calls after this total number of skipped calls.
    pub(super) fn begin_block(&self, skipped: u64, weight: u32, random: &Cell<u64>) {
        let position = below(weight, random);
        self.position.set(position);
        self.next.set(skipped + position);
    }

    /// The number of calls after the drawn one for which it was drawn, too.
    pub(super) fn rest(&self, weight: u32) -> u64 {
        u64::from(weight) - 1 - self.position.get()
    }
}

/// A random number below `limit`: a step of xorshift64* (S. Vigna, 2016), whose state is never 0.
fn below(limit: u32, random: &Cell<u64>) -> u64 {
    let mut state = random.get();
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    random.set(state);
    let drawn = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
    (drawn * u64::from(limit)) >> 32
}
