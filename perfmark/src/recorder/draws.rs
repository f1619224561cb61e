//! Which calls of a mark are measured, where it is one in some.

use std::cell::Cell;

/// Which calls of a mark are measured, where it is one in some: of each so many calls in a row one, drawn at random. So
/// every call is as likely to be measured as any other, whatever it does, and its [weight](MarkCells::weight) makes up
/// for those that are not: sums are unbiased (D. G. Horvitz and D. J. Thompson, 1952). Draws that were independent of
/// one another would make them vary more.
#[derive(Debug, Default)]
pub(super) struct Draws {
    /// As many calls are skipped before the next one that is measured.
    next: Cell<u64>,
    /// Where the last one measured was among the calls in a row.
    position: Cell<u64>,
    /// Calls skipped so far, where their cells count them at their end.
    skipped: Cell<u64>,
}

impl Draws {
    /// Of marks with that weight, the first draw made.
    pub(super) fn new(weight: u32, random: &Cell<u64>) -> Self {
        let draws = Self::default();
        draws.position.set(below(weight, random));
        draws.next.set(draws.position.get());
        draws
    }

    /// Of calls that are never measured.
    pub(super) fn never() -> Self {
        Self { next: Cell::new(u64::MAX), ..Self::default() }
    }

    /// Whether the call that begins is the one drawn. `before` are the calls that were not, so far.
    #[inline]
    pub(super) fn is_next(&self, before: u64) -> bool {
        before == self.next.get()
    }

    /// The same where the calls that were not drawn are counted here.
    pub(super) fn is_next_counted(&self) -> bool {
        let before = self.skipped.get();
        let is_next = self.is_next(before);
        if !is_next {
            self.skipped.set(before + 1);
        }
        is_next
    }

    /// Draws the call to be measured next, of so many in a row.
    pub(super) fn draw(&self, weight: u32, random: &Cell<u64>) {
        let (before, position) = (self.position.get(), below(weight, random));
        self.position.set(position);
        self.next.set(self.next.get() + (u64::from(weight) - 1 - before) + position);
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
