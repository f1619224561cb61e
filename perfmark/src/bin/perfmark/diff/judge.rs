//! Decides whether two sides' values differ by more than they vary.

use perfmark::{Event, Unit, Values};

/// The statistic of a mark's calls that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statistic {
    /// Counts are almost the same in each run of the same work: the mean shows the smallest change.
    Mean,
    /// Time and cycles vary from call to call, and have outliers that would move a mean.
    Median,
}

impl Statistic {
    pub(crate) fn of(event: &Event) -> Self {
        let is_of_clock = event.unit == Unit::Ns || event.name.contains("cycles") || event.name.contains("clock");
        if is_of_clock { Self::Median } else { Self::Mean }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "p50",
        }
    }
}

/// One run's values of a mark's event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunValues {
    pub(crate) value: f64,
    /// The middle half of the calls is between these.
    quarters: [f64; 2],
    /// The variation of the probe overhead.
    noise: f64,
    measured: u64,
}

impl RunValues {
    /// `None` if no call was measured in the event.
    pub(crate) fn of(values: &Values, statistic: Statistic) -> Option<Self> {
        if values.measured == 0 {
            return None;
        }
        let mean = values.sum as f64 / values.weight as f64;
        let quantile = |part: f64| values.quantile(part).map_or(mean, |value| value as f64);
        let value = match statistic {
            Statistic::Mean => mean,
            Statistic::Median => quantile(0.5),
        };
        let (noise, measured) = (values.probe.noise as f64, values.measured);
        Some(Self { value, quarters: [quantile(0.25), quantile(0.75)], noise, measured })
    }
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The difference is within the variation, or too small to report.
    Same,
    /// The head costs more.
    More,
    /// The head costs less.
    Less,
    /// Too few calls, in too few runs.
    TooFew(u64),
}

/// A verdict with its basis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judgement {
    pub(crate) base: f64,
    pub(crate) head: f64,
    pub(crate) verdict: Verdict,
    /// Whether the head costs more by more than it varies, even if the difference is too small to report.
    pub(crate) rose: bool,
    /// The difference that may occur by chance.
    pub(crate) margin: f64,
}

/// The smallest change of counts that is reported, as a part of the larger value.
const WORTH_REPORTING: f64 = 0.001;
/// The difference that buckets cannot resolve, as a part of the larger value: each median is within 1/64.
const RESOLUTION: f64 = 1.0 / 32.0;
/// A median of fewer calls does not predict the next run.
pub(crate) const FEWEST: u64 = 10;

/// The number of runs on each side that is enough to measure the variation of their medians.
const SEVERAL: usize = 3;

pub(crate) fn judge(statistic: Statistic, base: &[RunValues], head: &[RunValues]) -> Judgement {
    let (before, after) = (middle(base), middle(head));
    let difference = (after - before).abs();
    let larger = before.max(after);
    let is_several = base.len().min(head.len()) >= SEVERAL;
    let rises = after > before;
    // If the difference exceeds the sum, no run of one side is among those of the other.
    let among_runs = spread(base, rises) + spread(head, !rises);
    let fewest = base.iter().chain(head).map(|one| one.measured).min().unwrap_or(0);
    let noise = base.iter().chain(head).map(|one| one.noise).fold(0.0, f64::max);
    let (margin, worth_reporting) = match statistic {
        Statistic::Mean => (noise.max(among_runs), WORTH_REPORTING * larger),
        Statistic::Median => {
            // For a rise, the base's upper half and the head's lower half.
            let upper = usize::from(rises);
            let half = |one: &RunValues, upper: usize| (one.quarters[upper] - one.value).abs();
            let halves = base.iter().map(|one| half(one, upper)).chain(head.iter().map(|one| half(one, 1 - upper)));
            let halves = if is_several { 0.0 } else { halves.fold(0.0, f64::max) };
            (noise.max(among_runs).max(halves).max(RESOLUTION * larger), 0.0)
        }
    };
    let is_beyond = difference > margin;
    let verdict = match (is_beyond && difference >= worth_reporting, rises) {
        _ if statistic == Statistic::Median && !is_several && fewest < FEWEST => Verdict::TooFew(fewest),
        (false, _) => Verdict::Same,
        (true, true) => Verdict::More,
        (true, false) => Verdict::Less,
    };
    let rose = is_beyond && rises && !matches!(verdict, Verdict::TooFew(_));
    Judgement { base: before, head: after, verdict, rose, margin }
}

/// The runs' median.
fn middle(runs: &[RunValues]) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(|one| one.value).collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        runs => values[runs / 2].midpoint(values[(runs - 1) / 2]),
    }
}

/// One run in this many is ignored as an outlier.
const OUTLIERS: usize = 5;

/// How far runs are above or below their median, without outliers. Only runs on the side towards the other median make
/// a difference doubtful: a run of the head that is even slower does not excuse a slower head.
fn spread(runs: &[RunValues], above: bool) -> f64 {
    let middle = middle(runs);
    let distance = |one: &RunValues| if above { one.value - middle } else { middle - one.value };
    let mut distances: Vec<f64> = runs.iter().map(distance).collect();
    distances.sort_by(f64::total_cmp);
    distances.truncate(runs.len() - runs.len() / OUTLIERS);
    distances.last().map_or(0.0, |farthest| farthest.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(value: f64) -> RunValues {
        RunValues { value, quarters: [value * 0.95, value * 1.05], noise: 0.0, measured: 1000 }
    }

    fn verdict(statistic: Statistic, base: &[f64], head: &[f64]) -> Verdict {
        let runs = |values: &[f64]| values.iter().map(|&value| one(value)).collect::<Vec<_>>();
        judge(statistic, &runs(base), &runs(head)).verdict
    }

    #[test]
    fn counts_of_one_run_are_compared_by_value() {
        for (head, expected) in
            [(1000.0, Verdict::Same), (1000.9, Verdict::Same), (1010.0, Verdict::More), (990.0, Verdict::Less)]
        {
            assert_eq!(verdict(Statistic::Mean, &[1000.0], &[head]), expected, "{head}");
        }
        assert_eq!(verdict(Statistic::Mean, &[0.0], &[3.0]), Verdict::More);
        let noisy = RunValues { noise: 20.0, ..one(1010.0) };
        let judgement = judge(Statistic::Mean, &[one(1000.0)], &[noisy]);
        assert!(judgement.verdict == Verdict::Same && !judgement.rose, "within the noise of the probe");
        let any = judge(Statistic::Mean, &[one(1000.0)], &[one(1000.5)]);
        assert!(any.verdict == Verdict::Same && any.rose, "too small to report, but a gate of 0 % fails");
    }

    #[test]
    fn with_several_runs_the_difference_must_exceed_what_they_differ_by() {
        assert_eq!(verdict(Statistic::Mean, &[1000.0, 1030.0], &[1020.0, 1035.0]), Verdict::Same);
        assert_eq!(verdict(Statistic::Mean, &[1000.0, 1003.0], &[1020.0, 1022.0]), Verdict::More);
        let quiet = [1000.0; 5];
        assert_eq!(
            verdict(Statistic::Mean, &quiet, &[1200.0, 1200.0, 1000.0, 1200.0, 1200.0]),
            Verdict::More,
            "an outlier"
        );
        assert_eq!(verdict(Statistic::Mean, &quiet, &[1200.0, 1000.0, 1000.0, 1000.0, 1000.0]), Verdict::Same);
        assert_eq!(verdict(Statistic::Mean, &quiet, &[1200.0, 1000.0, 1000.0, 1200.0, 1200.0]), Verdict::Same);
        assert_eq!(verdict(Statistic::Median, &[100.0, 140.0, 101.0], &[130.0, 131.0, 135.0]), Verdict::Same);
        assert_eq!(verdict(Statistic::Median, &[100.0, 102.0, 101.0], &[130.0, 131.0, 135.0]), Verdict::More);
    }

    #[test]
    fn spread_away_from_the_other_side_excuses_nothing() {
        for statistic in [Statistic::Mean, Statistic::Median] {
            for (base, head, expected) in [
                ([1000.0, 1000.0, 1000.0], [1500.0, 1500.0, 2600.0], Verdict::More),
                ([100.0, 1000.0, 1000.0], [1500.0, 1500.0, 1500.0], Verdict::More),
                ([1000.0, 1000.0, 1000.0], [1000.0, 1500.0, 1500.0], Verdict::Same),
                ([1000.0, 1000.0, 1500.0], [1500.0, 1500.0, 1500.0], Verdict::Same),
                ([1000.0, 1000.0, 1300.0], [1200.0, 1500.0, 1500.0], Verdict::Same),
                ([1000.0, 1000.0, 1200.0], [1300.0, 1500.0, 1500.0], Verdict::More),
            ] {
                assert_eq!(verdict(statistic, &base, &head), expected, "{base:?} {head:?}");
                let fall = if expected == Verdict::More { Verdict::Less } else { Verdict::Same };
                assert_eq!(verdict(statistic, &head.map(|v| 3000.0 - v), &base.map(|v| 3000.0 - v)), expected);
                assert_eq!(verdict(statistic, &head, &base), fall, "{head:?} {base:?}");
            }
        }
    }

    #[test]
    fn times_of_one_run_must_leave_the_middle_half_of_the_others() {
        assert_eq!(verdict(Statistic::Median, &[1000.0], &[1040.0]), Verdict::Same);
        assert_eq!(verdict(Statistic::Median, &[1000.0], &[1100.0]), Verdict::More);
        assert_eq!(verdict(Statistic::Median, &[1000.0], &[900.0]), Verdict::Less);
        let few = RunValues { measured: 3, ..one(2000.0) };
        assert_eq!(judge(Statistic::Median, &[one(1000.0)], &[few]).verdict, Verdict::TooFew(3));
    }
}
