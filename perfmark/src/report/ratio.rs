//! Ratios of two events of a mark.

use super::quantity::percent;
use crate::snapshot::{Mark, Values};

/// A ratio of two sums of a mark, and its text.
pub(super) struct Ratio {
    pub(super) of_mark: fn(&Mark) -> Option<(i64, i64)>,
    pub(super) text: fn(i64, i64) -> String,
}

pub(super) const INSTRUCTIONS: &str = "instructions";

/// Without room, the last ones are dropped first.
pub(super) const RATIOS: [Ratio; 5] = [
    Ratio { of_mark: off_cpu_of_time, text: |of, to| format!("{} off-CPU", percent(of, to.unsigned_abs().into())) },
    Ratio {
        of_mark: |mark| ratio(mark, INSTRUCTIONS, "cycles"),
        text: |of, to| format!("{} insn/cycle", hundredths(of, to)),
    },
    Ratio {
        of_mark: |mark| sums(mark, "branch-misses", "branches"),
        text: |of, to| format!("{} branch misses", percent(of, to.unsigned_abs().into())),
    },
    Ratio {
        of_mark: |mark| sums(mark, "cache-misses", "cache-references"),
        text: |of, to| format!("{} cache misses", percent(of, to.unsigned_abs().into())),
    },
    // Cycles per nanosecond.
    Ratio {
        of_mark: |mark| ratio(mark, "cycles", "on_cpu").or_else(|| ratio(mark, "cycles", "time")),
        text: |of, to| format!("{} GHz", hundredths(of, to)),
    },
];

/// The mark's values of an event, if almost all calls were measured: some calls may not represent the others.
pub(super) fn of_almost_all<'a>(mark: &'a Mark, event: &str) -> Option<&'a Values> {
    let values = mark.event(event)?;
    (values.measured > 0 && values.unmeasured <= values.measured / 64).then_some(values)
}

/// The sums of two events, if neither is noise.
fn ratio(mark: &Mark, of: &str, to: &str) -> Option<(i64, i64)> {
    let sums = sums(mark, of, to)?;
    (!is_noise(of_almost_all(mark, of)?, sums.0.into())).then_some(sums)
}

/// The sums of a part and all of it, if both were counted over the same calls, and all of it is not noise: the part may
/// be 0.
fn sums(mark: &Mark, of: &str, to: &str) -> Option<(i64, i64)> {
    let (of, to) = (of_almost_all(mark, of)?, of_almost_all(mark, to)?);
    // With other numbers of calls, they may be different calls.
    let are_same = of.measured == to.measured;
    (are_same && of.sum >= 0 && to.sum > 0 && !is_noise(to, to.sum.into())).then_some((of.sum, to.sum))
}

/// A mark's time off the CPU, and its time: as measured, or the sum of its parts.
pub(super) fn off_cpu_of_time(mark: &Mark) -> Option<(i64, i64)> {
    let of_parts = || sums(mark, "off_cpu", "on_cpu").map(|(off, on)| (off, off.saturating_add(on)));
    sums(mark, "off_cpu", "time").or_else(of_parts)
}

/// The part of that in which the thread waited for a CPU.
pub(super) fn preempted_of_time(mark: &Mark) -> Option<(i64, i64)> {
    let of_parts = || Some((sums(mark, "preempted", "on_cpu")?.0, off_cpu_of_time(mark)?.1));
    sums(mark, "preempted", "time").or_else(of_parts)
}

/// The share of the marks' time that a part of it took, in the marks that recorded both.
pub(super) fn share_of_time(marks: &[Mark], of_mark: fn(&Mark) -> Option<(i64, i64)>) -> Option<f64> {
    let sums = marks.iter().filter_map(of_mark);
    let (of, to) = sums.fold((0, 0), |sums, (of, to)| (sums.0 + i128::from(of), sums.1 + i128::from(to)));
    (to > 0).then(|| of as f64 / to as f64)
}

/// Instructions per cycle of a mark.
pub(super) fn instructions_per_cycle(mark: &Mark) -> Option<String> {
    ratio(mark, INSTRUCTIONS, "cycles").map(|(of, to)| hundredths(of, to))
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
    use crate::report::tests::sample;

    #[test]
    fn time_off_the_cpu_is_a_share_of_time_or_of_both_parts_of_it() {
        let share = |values: &[(&str, u64)]| {
            let values = values.iter().map(|&(event, sum)| sample::values(event, 10, sum)).collect();
            off_cpu_of_time(&Mark { values, ..sample::mark("f", 10) })
        };
        assert_eq!(share(&[("time", 100), ("off_cpu", 25)]), Some((25, 100)));
        assert_eq!(share(&[("on_cpu", 75), ("off_cpu", 25)]), Some((25, 100)));
        assert_eq!(share(&[("on_cpu", 75)]), None);
    }

    #[test]
    fn a_ratio_is_not_of_noise_but_a_share_may_be_of_few_misses() {
        let mut one = Mark { values: vec![sample::values("cycles", 10, 900)], ..sample::mark("f", 10) };
        for event in ["instructions", "cache-references", "cache-misses"] {
            one.values.push(sample::values(event, 10, 90));
        }
        let shown = |mark: &Mark| RATIOS.each_ref().map(|ratio| (ratio.of_mark)(mark).is_some());
        assert_eq!(shown(&one), [false, true, false, true, false]);
        for at in [1, 3] {
            one.values[at].overhead.noise = 9;
        }
        assert_eq!(shown(&one), [false, false, false, true, false]);
    }

    #[test]
    fn a_ratio_is_never_a_false_zero() {
        assert_eq!(hundredths(0, 9), "0.00");
        assert_eq!(hundredths(1, 900), "<0.01");
    }
}
