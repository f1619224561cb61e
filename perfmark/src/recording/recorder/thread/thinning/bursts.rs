//! Which calls of a thread's thinned marks are measured: those in bursts.
//!
//! A thinned mark has `every`, or is within a budget, and is not called rarely. While the thread is in a burst, the
//! calls of all its thinned marks are measured; in the gaps between bursts, they are only counted. So calls inside one
//! another are measured together (M. Hirzel and T. Chilimbi, 2001).

use std::cell::Cell;

use super::gap::Gap;
use crate::recording::random::below;

/// Bursts grow to so many calls for each thinned mark, and to at least and at most so many. At its start, the
/// processor's caches and predictors do not know the code and the data of the marks, which takes some microseconds. So
/// few long bursts measure better than many short ones. But the program is slower in each: it may delay a request.
const CALLS_OF_EACH: u32 = 32;
const LONGEST: [u32; 2] = [4_096, 16_384];
/// The most calls that are measured after a burst, because calls of the burst are around them.
const LONGEST_AFTER: u64 = 4_096;
/// One call for so many of a burst is measured before it without being recorded, so that caches and predictors know the
/// marks.
const WARM_UP: u32 = 4;
/// The most of these calls; if there are more marks, the most for each of them.
const LONGEST_WARM_UP: u32 = 512;
const WARM_UP_OF_EACH: u32 = 12;
/// A gap is in parts, which end when the thread's calls are a multiple of so many. Between two parts, the thread may
/// adapt. When it does must not depend on where bursts were: otherwise, some calls would be likelier to be measured.
const PART: u64 = 1 << 16;
/// The fewest calls of a burst inside other calls. Some instructions of each burst are in the values of these.
const SHORTEST_INSIDE: u32 = 16;
/// A multiple of the golden ratio. Multiples of it are spread evenly (H. Weyl, 1916).
const STEP: u32 = 0x9e37_79b9;
/// After so many bursts, the next ones are twice as long. Until its block is over, a burst stands for too many calls;
/// the more bursts there were before, the less that matters.
const OF_A_LENGTH: u32 = 16;
/// The same if `every` is at least [`COLD`]. After so long a gap, caches are cold, and short bursts measure badly.
const OF_A_LENGTH_IF_COLD: u32 = 8;
const COLD: u32 = 32;

/// Bursts and gaps. The calls of a thread's thinned marks form blocks, and each block has a burst at a random position.
/// So each call is equally likely to be measured. All zeroes: no mark is thinned.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Bursts {
    /// The number of calls that are still to be recorded in the burst.
    left: Cell<u64>,
    /// The number of calls that may still be measured without being recorded.
    after: Cell<u64>,
    /// The number of measured calls so far, recorded or not, without those of rare marks.
    measured: Cell<u64>,
    /// Of these, the calls that were not recorded.
    unrecorded: Cell<u64>,
    /// The number of calls before the next burst, if it was chosen.
    before: Cell<u64>,
    /// The number of calls in the current block after its burst.
    rest: Cell<u64>,
    /// The number of calls in the gap after the part in progress.
    later: Cell<u64>,
    /// The number of the burst in progress in which all thinned marks take part; 0 in others, and in gaps.
    complete: Cell<u64>,
    /// The number of bursts so far.
    count: Cell<u64>,
    /// Of each block, one call in so many is in its burst.
    every: Cell<u32>,
    /// The largest number of calls of a mark of which one is measured.
    rarest: Cell<u32>,
    /// The number of thinned marks.
    marks: Cell<u32>,
    /// A number, evenly distributed over the bursts: see [`leaves_out`](Self::leaves_out).
    random: Cell<u32>,
    /// The length of bursts, and how many had it so far in which all thinned marks took part.
    length: Cell<u32>,
    of_length: Cell<u32>,
    /// The number of calls of rare marks until the next adaptation because of them.
    rare: Cell<u32>,
    /// The number of calls that are still to be measured before the next burst.
    warm_up: Cell<u64>,
    is_calibrating: Cell<bool>,
    is_burst: Cell<bool>,
    /// Whether all calls of the burst were counted, and the next one was chosen.
    is_over: Cell<bool>,
    /// The gap that the thread is in; in a burst, one without calls.
    pub(crate) gap: Gap,
}

impl Bursts {
    /// The number of calls skipped so far.
    pub(crate) fn skipped(&self) -> u64 {
        self.gap.position().wrapping_add(self.gap.set_back.get())
    }

    /// Counts a call of the burst. `false` if all are counted, or no burst has begun.
    #[inline]
    pub(crate) fn count(&self) -> bool {
        let left = self.left.get();
        if left > 0 {
            self.left.set(left - 1);
        }
        left > 0
    }

    /// Measures the call that begins without recording it, if the burst is about to begin, or if all its calls were
    /// counted, but the new one `is_inside` one of them, whose self requires its cost.
    pub(crate) fn take_beside(&self, is_inside: impl FnOnce() -> bool) -> bool {
        let (left, goes_on) = if self.is_burst.get() {
            (&self.after, self.is_over.get() && self.before.get() > 0 && is_inside())
        } else {
            (&self.warm_up, self.later.get() == 0)
        };
        let is_beside = goes_on && left.get() > 0;
        if is_beside {
            left.set(left.get() - 1);
            if self.is_burst.get() {
                self.before.set(self.before.get() - 1);
            }
        }
        is_beside
    }

    /// Counts a call that is measured, recorded or not.
    pub(crate) fn count_measured(&self) {
        self.measured.set(self.measured.get() + 1);
    }

    /// Counts a call that is measured without being recorded.
    pub(crate) fn count_unrecorded(&self) {
        self.count_measured();
        self.unrecorded.set(self.unrecorded.get() + 1);
    }

    /// The number of these so far.
    pub(crate) fn unrecorded(&self) -> u64 {
        self.unrecorded.get()
    }

    /// Counts a call of a rare mark. `true` if it is time to adapt to them.
    #[inline]
    pub(crate) fn count_rare(&self) -> bool {
        let left = self.rare.get();
        self.rare.set(left.saturating_sub(1));
        left == 0
    }

    /// Lets the thread adapt after so many calls of rare marks.
    pub(crate) fn await_rare(&self, calls: u32) {
        self.rare.set(calls);
    }

    /// The number of calls so far, measured or skipped.
    pub(crate) fn calls(&self) -> u64 {
        self.measured() + self.skipped()
    }

    /// The number of measured calls so far.
    pub(crate) fn measured(&self) -> u64 {
        self.measured.get()
    }

    /// Whether a mark of which one call in `every` is measured takes no part in the burst: bursts are as frequent as
    /// another mark needs, and some of them leave this one out.
    #[inline]
    pub(crate) fn leaves_out(&self, every: u32) -> bool {
        u64::from(self.random.get()) * u64::from(every) > u64::from(self.every.get()) << u32::BITS
    }

    /// The number of the burst in progress in which all thinned marks take part; 0 in others, in gaps, and once all
    /// calls of the burst were counted.
    pub(crate) fn complete(&self) -> u64 {
        self.complete.get()
    }

    /// Lets one call in `every` be in bursts from the next choice on. If it `restarts`, that block begins at the next
    /// call. `rarest` is the largest number of calls of which one is measured, and `marks` the number of thinned marks.
    pub(crate) fn set_every(&self, every: u32, rarest: u32, marks: u32, restarts: bool) {
        self.every.set(every);
        self.rarest.set(rarest);
        self.marks.set(marks);
        if restarts {
            self.gap.end();
            self.later.set(0);
            self.left.set(0);
            self.rest.set(0);
            self.complete.set(0);
            self.is_burst.set(true);
            self.is_over.set(false);
        }
    }

    /// The number of calls of the burst, or of the next one.
    pub(crate) fn length(&self) -> u32 {
        self.length.get()
    }

    /// Of each block, one call in so many is in its burst; 0 if no mark is thinned.
    pub(crate) fn every(&self) -> u32 {
        self.every.get()
    }

    /// Whether all calls of the burst were counted, and the next one must be chosen.
    pub(crate) fn must_choose(&self) -> bool {
        self.is_burst.get() && !self.is_over.get() && self.left.get() == 0
    }

    /// Whether a burst, whose calls are over, has not ended.
    pub(crate) fn is_burst(&self) -> bool {
        self.is_burst.get()
    }

    /// Begins the next part of the gap. Returns whether there is one.
    pub(crate) fn prolong_gap(&self) -> bool {
        let calls = self.later.get();
        self.begin_gap(calls);
        calls > 0
    }

    fn begin_gap(&self, calls: u64) {
        let part = calls.min(PART - self.calls() % PART);
        self.gap.begin(part);
        self.later.set(calls - part);
    }

    /// Lets what is measured belong to the gap, after all calls of the burst were counted.
    pub(crate) fn leave(&self) {
        self.complete.set(0);
    }

    /// Ends the burst: begins the gap before the next one, which may be empty.
    pub(crate) fn end(&self) {
        self.is_burst.set(false);
        self.is_over.set(false);
        let before = self.before.get();
        let most = LONGEST_WARM_UP.max(self.marks.get().saturating_mul(WARM_UP_OF_EACH));
        let warm_up = before.min((self.length.get() / WARM_UP).min(most).into());
        self.warm_up.set(warm_up);
        self.begin_gap(before - warm_up);
    }

    /// Bursts of at least so many calls grow no more.
    fn longest(&self) -> u32 {
        let [least, most] = LONGEST;
        self.marks.get().saturating_mul(CALLS_OF_EACH).clamp(least, most)
    }

    /// Chooses when the next burst begins, after all calls of this one were counted. It `is_inside` if other calls are
    /// open.
    pub(crate) fn choose_next(&self, is_inside: bool, random: &Cell<u64>) {
        self.is_over.set(true);
        let shortest = if is_inside && !self.is_calibrating.get() { SHORTEST_INSIDE } else { 1 };
        let (length, bursts) = (self.length.get().max(shortest), self.of_length.get());
        let bursts = bursts.saturating_add((self.complete.get() != 0).into());
        // If some thinned marks are rarer, fewer bursts count: those that have all of them.
        let is_cold = self.every.get() >= COLD && self.every == self.rarest;
        let enough = if is_cold { OF_A_LENGTH_IF_COLD } else { OF_A_LENGTH };
        let is_longer = bursts >= enough && length < self.longest() && !self.is_calibrating.get();
        let length = if is_longer { length * 2 } else { length };
        self.length.set(length);
        self.of_length.set(if is_longer { 0 } else { bursts });
        // A burst is one of the parts of its length that its block has, so every call is as likely as any other.
        let (length, every) = (u64::from(length), u64::from(self.every.get().max(1)));
        let before = below(every, random);
        self.before.set(self.rest.get() + before * length);
        self.rest.set((every - 1 - before) * length);
    }

    /// Begins a burst.
    pub(crate) fn begin(&self, random: &Cell<u64>) {
        self.is_burst.set(true);
        self.left.set(self.length.get().into());
        self.after.set(LONGEST_AFTER);
        #[expect(clippy::cast_possible_truncation, reason = "below the limit")]
        let first = || below(1 << u32::BITS, random) as u32;
        self.random.set(if self.count.get() == 0 { first() } else { self.random.get().wrapping_add(STEP) });
        self.count.set(self.count.get() + 1);
        self.complete.set(if self.leaves_out(self.rarest.get()) { 0 } else { self.count.get() });
    }

    /// Lets calibration begin and end a burst of one call with each call.
    pub(crate) fn calibrate_bursts(&self) {
        self.is_calibrating.set(true);
        self.length.set(1);
        self.of_length.set(0);
        self.set_every(1, 1, 1, true);
    }

    /// Lets calibration measure all calls, or skip them.
    pub(crate) fn calibrate(&self, skips: bool) {
        self.gap.end();
        if skips {
            self.gap.begin(u64::MAX >> 8);
        }
        self.left.set(u64::MAX);
        self.complete.set(1);
    }

    /// Lets calibration measure all calls without recording them.
    pub(crate) fn calibrate_beside(&self) {
        self.left.set(0);
        self.warm_up.set(u64::MAX);
    }
}

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use super::*;

    #[test]
    fn parts_of_gaps_end_at_the_same_calls_wherever_bursts_are() {
        let (bursts, random) = (Bursts::default(), Cell::new(7));
        bursts.set_every(1 << 20, 1 << 20, 1, true);
        let (mut begun, mut parts) = (0, 0);
        while begun < 3 {
            let skipped = (0..=PART).take_while(|_| bursts.gap.skips()).count() as u64;
            assert!(skipped <= PART, "{skipped}");
            if bursts.is_burst() {
                bursts.choose_next(false, &random);
                bursts.end();
            } else if bursts.take_beside(|| false) {
                bursts.count_measured();
            } else if bursts.prolong_gap() {
                assert_eq!(bursts.calls() % PART, 0);
                parts += 1;
            } else {
                bursts.begin(&random);
                while bursts.count() {
                    bursts.count_measured();
                }
                begun += 1;
            }
        }
        assert!(parts > 3, "{parts}");
    }

    #[test]
    fn bursts_grow_until_they_have_enough_calls_for_each_mark() {
        for (marks, longest) in [(1, 4_096), (128, 4_096), (129, 8_192), (359, 16_384), (16_000, 16_384)] {
            let (bursts, random) = (Bursts::default(), Cell::new(7));
            bursts.set_every(64, 64, marks, true);
            for _ in 0..200 {
                bursts.choose_next(false, &random);
                bursts.end();
                bursts.begin(&random);
            }
            assert_eq!(bursts.length(), longest, "{marks}");
        }
    }
}
