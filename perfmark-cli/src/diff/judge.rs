//! Decides whether two sides' values differ by more than they vary.

use perfmark::{Event, Unit, Values};

use super::paired::{self, ALPHA, FEWEST_PAIRS, Sample};
use crate::events::{depends_on_machine, is_time_or_cycles};

/// The statistic of a mark's calls that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statistic {
    /// Counts of what the code does are almost the same in each run of the same work: the mean shows the smallest
    /// change.
    Mean,
    /// What the kernel counts depends on the machine's state, so only several runs show a change. Few calls may have
    /// any, which only a mean shows.
    VaryingMean,
    /// Time and cycles vary from call to call, and have outliers that would move a mean.
    Median,
    /// Time and cycles in pairs of runs: the mean of the middle half of the calls. It resolves smaller changes than a
    /// median, which is the middle of a bucket, and outliers do not move it either.
    MidMean,
}

impl Statistic {
    pub(crate) fn of(event: &Event, is_paired: bool) -> Self {
        match is_time_or_cycles(&event.name) || event.unit == Unit::Ns {
            false if depends_on_machine(&event.name) => Self::VaryingMean,
            false => Self::Mean,
            true if is_paired => Self::MidMean,
            true => Self::Median,
        }
    }

    pub(crate) fn is_mean(self) -> bool {
        matches!(self, Self::Mean | Self::VaryingMean)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mean | Self::VaryingMean => "mean",
            Self::Median => "p50",
            Self::MidMean => "midmean",
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
    pub(crate) noise: f64,
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
            Statistic::Mean | Statistic::VaryingMean => mean,
            Statistic::Median => quantile(0.5),
            Statistic::MidMean => mid_mean(values).unwrap_or(mean),
        };
        let (noise, measured) = (values.overhead.noise as f64, values.measured);
        Some(Self { value, quarters: [quantile(0.25), quantile(0.75)], noise, measured })
    }
}

/// The mean of the middle half of the calls, where the calls in a bucket are spread evenly over it.
fn mid_mean(values: &Values) -> Option<f64> {
    let count: f64 = values.buckets.iter().map(|bucket| bucket.calls as f64).sum();
    let (from, to) = (0.25 * count, 0.75 * count);
    let (least, most) = (values.min?, values.max?);
    let (mut seen, mut sum) = (0.0, 0.0);
    for bucket in &values.buckets {
        let calls = bucket.calls as f64;
        let (start, end): (f64, f64) = (from.max(seen), to.min(seen + calls));
        if start < end {
            let (low, high) = (bucket.low.max(least) as f64, bucket.high.min(most) as f64);
            let middle = (start.midpoint(end) - seen) / calls;
            sum += (end - start) * (low + (high - low) * middle);
        }
        seen += calls;
    }
    (count > 0.0).then(|| sum / (to - from))
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
    /// Too few runs on a side measured it to know how the value varies from run to run.
    TooFewRuns(usize),
    /// In pairs of runs: some runs did not measure it.
    NotInEachPair,
    /// Too short to be measured: no longer than the noise of the probe.
    TooShort,
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
    /// The smallest rise that would have been found, in percent. `None` if that is unknown.
    pub(crate) least: Option<f64>,
}

impl Judgement {
    /// The verdict about runs in which no change can be found.
    pub(crate) fn without([base, head]: &[Vec<RunValues>; 2], verdict: Verdict) -> Self {
        let (base, head) = (middle(base), middle(head));
        Self { base, head, verdict, rose: false, margin: 0.0, least: None }
    }
}

/// The smallest change of counts that is reported, as a part of the larger value.
pub(crate) const WORTH_REPORTING: f64 = 0.001;
/// The difference that buckets cannot resolve, as a part of the larger value: each median is within 1/64.
const RESOLUTION: f64 = 1.0 / 32.0;
/// The rise of medians that buckets cannot resolve, in percent.
pub(crate) const RESOLVED_BY_MEDIANS: f64 = 100.0 * RESOLUTION / (1.0 - RESOLUTION);
/// A median of fewer calls does not predict the next run.
pub(crate) const FEWEST: u64 = 10;

/// The number of runs on each side that is enough to measure their variation.
pub(crate) const SEVERAL: usize = 3;

/// Judges runs that were made in any order. `MidMean` is judged by [`judge_pairs`] instead. Values that vary from run
/// to run are not judged if a side has fewer runs than `fewest_runs`, unless `allows_few_runs`.
pub(crate) fn judge(
    statistic: Statistic,
    [base, head]: &[Vec<RunValues>; 2],
    fewest_runs: usize,
    allows_few_runs: bool,
) -> Judgement {
    let (before, after) = (middle(base), middle(head));
    let difference = (after - before).abs();
    let larger = before.max(after);
    let runs = base.len().min(head.len());
    let is_of_few_runs = statistic != Statistic::Mean && runs < fewest_runs;
    let rises = after > before;
    let fewest = base.iter().chain(head).map(|one| one.measured).min().unwrap_or(0);
    let noise = base.iter().chain(head).map(|one| one.noise).fold(0.0, f64::max);
    // What a rise, or else a fall, must exceed.
    let variation = |rises: bool| {
        // If the difference exceeds the sum, no run of one side is among those of the other.
        let among_runs = spread(base, rises) + spread(head, !rises);
        // For a rise, the base's upper half and the head's lower half.
        let upper = usize::from(rises);
        let half = |one: &RunValues, upper: usize| (one.quarters[upper] - one.value).abs();
        let halves = base.iter().map(|one| half(one, upper)).chain(head.iter().map(|one| half(one, 1 - upper)));
        let halves = if is_of_few_runs { halves.fold(0.0, f64::max) } else { 0.0 };
        noise.max(among_runs).max(halves)
    };
    let (resolution, resolved, worth_reporting) = match statistic {
        Statistic::Mean | Statistic::VaryingMean => (0.0, 100.0 * WORTH_REPORTING, WORTH_REPORTING * larger),
        Statistic::Median | Statistic::MidMean => (RESOLUTION * larger, RESOLVED_BY_MEDIANS, 0.0),
    };
    let margin = variation(rises).max(resolution);
    let is_beyond = difference > margin;
    let verdict = match (is_beyond && difference >= worth_reporting, rises) {
        _ if is_of_few_runs && !allows_few_runs => Verdict::TooFewRuns(runs),
        _ if is_of_few_runs && fewest < FEWEST => Verdict::TooFew(fewest),
        (false, _) => Verdict::Same,
        (true, true) => Verdict::More,
        (true, false) => Verdict::Less,
    };
    let rose = is_beyond && rises && !matches!(verdict, Verdict::TooFew(_) | Verdict::TooFewRuns(_));
    let is_judged = before > 0.0 && !matches!(verdict, Verdict::TooFew(_) | Verdict::TooFewRuns(_));
    let least = is_judged.then(|| resolved.max(100.0 * variation(true) / before));
    Judgement { base: before, head: after, verdict, rose, margin, least }
}

/// Judges the pairs of runs of all marks together, by [`paired::test`]. Each mark has the same number of pairs.
pub(crate) fn judge_pairs(marks: &[[Vec<RunValues>; 2]]) -> Vec<Judgement> {
    let pairs = marks.first().map_or(0, |[base, _]| base.len());
    if pairs < FEWEST_PAIRS {
        return marks.iter().map(|mark| Judgement::without(mark, Verdict::TooFewRuns(pairs))).collect();
    }
    let samples: Vec<Option<Sample>> = marks.iter().map(|[base, head]| sample(base, head)).collect();
    let tested: Vec<Sample> = samples.iter().flatten().cloned().collect();
    let mut findings = paired::test(&tested).into_iter().zip(paired::smallest_rises(&tested));
    let judged = marks.iter().zip(&samples).map(|(mark, sample)| {
        let finding = sample.as_ref().and_then(|_| findings.next());
        let Some((one, least)) = finding else { return Judgement::without(mark, Verdict::TooShort) };
        let verdict = match one {
            _ if one.rise <= ALPHA => Verdict::More,
            _ if one.fall <= ALPHA => Verdict::Less,
            _ => Verdict::Same,
        };
        let (base, head) = (one.base.exp(), one.head.exp());
        let (margin, least) = (base * one.margin.exp_m1(), Some(100.0 * least.exp_m1()));
        Judgement { base, head, verdict, rose: verdict == Verdict::More, margin, least }
    });
    judged.collect()
}

/// The logarithms of the runs' values. `None` if most runs are within the noise of the probe.
fn sample(base: &[RunValues], head: &[RunValues]) -> Option<Sample> {
    let noise = base.iter().chain(head).map(|one| one.noise).fold(1.0, f64::max);
    let short = base.iter().chain(head).filter(|one| one.value <= noise).count();
    let logarithms = |runs: &[RunValues]| runs.iter().map(|one| one.value.max(noise).ln()).collect();
    (2 * short <= base.len() + head.len()).then(|| Sample { base: logarithms(base), head: logarithms(head) })
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
        judge(statistic, &[runs(base), runs(head)], SEVERAL, true).verdict
    }

    #[test]
    fn a_mid_mean_ignores_outliers_and_resolves_parts_of_a_bucket() {
        let of = |buckets: &[(u64, u64, u64)]| {
            let mut values = Values::default();
            values.buckets = buckets.iter().copied().map(Into::into).collect();
            (values.min, values.max) = (buckets.first().map(|one| one.0), buckets.last().map(|one| one.1));
            mid_mean(&values)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(100, 100, 1)]), Some(100.0));
        assert_eq!(of(&[(100, 200, 8)]), Some(150.0));
        assert_eq!(of(&[(1, 1, 1), (100, 100, 2), (1_000_000, 1_000_000, 1)]), Some(100.0));
        let [some, more] = [of(&[(96, 104, 3), (104, 112, 1)]), of(&[(96, 104, 2), (104, 112, 2)])];
        assert!(some < more, "{some:?} {more:?}");
    }

    #[test]
    fn a_mark_within_the_noise_of_the_probe_is_not_judged_unless_it_is_longer_in_the_head() {
        let short = RunValues { value: 4.0, noise: 10.0, ..one(4.0) };
        let long = RunValues { value: 50.0, ..short };
        let judged = judge_pairs(&[[vec![short; 10], vec![short; 10]], [vec![short; 10], vec![long; 10]]]);
        assert_eq!([judged[0].verdict, judged[1].verdict], [Verdict::TooShort, Verdict::More]);
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
        let judgement = judge(Statistic::Mean, &[vec![one(1000.0)], vec![noisy]], SEVERAL, true);
        assert!(judgement.verdict == Verdict::Same && !judgement.rose, "within the noise of the probe");
        let any = judge(Statistic::Mean, &[vec![one(1000.0)], vec![one(1000.5)]], SEVERAL, true);
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
}
