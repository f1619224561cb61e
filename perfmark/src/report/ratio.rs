//! Ratios of two events of a mark.

use super::quantity::percent;
use crate::snapshot::{Mark, Values};

/// A ratio of two events, and its text.
pub(super) struct Ratio {
    of: &'static str,
    to: &'static str,
    pub(super) text: fn(i64, i64) -> String,
}

pub(super) const INSTRUCTIONS: &str = "instructions";
const INSTRUCTIONS_PER_CYCLE: Ratio =
    Ratio { of: INSTRUCTIONS, to: "cycles", text: |of, to| format!("{} insn/cycle", hundredths(of, to)) };
pub(super) const OFF_CPU_OF_TIME: Ratio =
    Ratio { of: "off_cpu", to: "time", text: |of, to| format!("{} off-CPU", percent(of, to.unsigned_abs().into())) };
/// Not shown as a ratio.
pub(super) const PREEMPTED_OF_TIME: Ratio = Ratio { of: "preempted", ..OFF_CPU_OF_TIME };

/// Without room, the last ones are dropped first.
pub(super) const RATIOS: [Ratio; 5] = [
    OFF_CPU_OF_TIME,
    INSTRUCTIONS_PER_CYCLE,
    Ratio {
        of: "branch-misses",
        to: "branches",
        text: |of, to| format!("{} branch misses", percent(of, to.unsigned_abs().into())),
    },
    Ratio {
        of: "cache-misses",
        to: "cache-references",
        text: |of, to| format!("{} cache misses", percent(of, to.unsigned_abs().into())),
    },
    // Cycles per nanosecond.
    Ratio { of: "cycles", to: "time", text: |of, to| format!("{} GHz", hundredths(of, to)) },
];

impl Ratio {
    /// Both sums, if the ratio means something: both events were counted over the same calls, and neither is noise.
    pub(super) fn of_mark(&self, mark: &Mark) -> Option<(i64, i64)> {
        let find =
            |event: &str| mark.values.iter().find(|values: &&Values| values.event == event && values.measured > 0);
        let (of, to) = (find(self.of)?, find(self.to)?);
        // The same number, and almost all calls: otherwise they may be different calls.
        let are_same = of.measured == to.measured && of.unmeasured.max(to.unmeasured) <= of.measured / 64;
        (are_same && of.sum >= 0 && to.sum > 0 && !is_noise(to, to.sum.into())).then_some((of.sum, to.sum))
    }
}

/// The share of the marks' time that an event took, in the marks that recorded both.
pub(super) fn share_of_time(ratio: &Ratio, marks: &[Mark]) -> Option<f64> {
    let sums = marks.iter().filter_map(|mark| ratio.of_mark(mark));
    let (of, to) = sums.fold((0, 0), |sums, (of, to)| (sums.0 + i128::from(of), sums.1 + i128::from(to)));
    (to > 0).then(|| of as f64 / to as f64)
}

/// Instructions per cycle of a mark.
pub(super) fn instructions_per_cycle(mark: &Mark) -> Option<String> {
    INSTRUCTIONS_PER_CYCLE.of_mark(mark).map(|(of, to)| hundredths(of, to))
}

/// Whether a sum over calls is no larger than the noise of that many calls.
pub(super) fn is_noise(values: &Values, sum: i128) -> bool {
    let noise = u128::from(values.overhead.noise) * u128::from(values.weight);
    noise > 0 && sum.unsigned_abs() <= noise
}

/// With two decimals, and never a false zero.
fn hundredths(of: i64, to: i64) -> String {
    let ratio = of as f64 / to as f64;
    if of > 0 && ratio < 0.005 { "<0.01".to_owned() } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_never_a_false_zero() {
        assert_eq!(hundredths(0, 9), "0.00");
        assert_eq!(hundredths(1, 900), "<0.01");
    }
}
