//! The test for pairs of runs: a randomization test over all marks at once.
//!
//! In each pair, the order of base and head is drawn at random. If the head costs the same, exchanging the two runs of
//! any pair changes nothing but chance: each of the 2ⁿ exchanges of n pairs is as likely as the one that was observed.
//! For each mark, the statistic is t = (h − b) / e: h and b are the means of the faster halves of the head's and the
//! base's runs, of the logarithms of their values, levelled for the machine's speed at that time (`levelled`), and e is
//! the standard error of their difference. The p-value of a
//! mark is the share of exchanges in which the largest t of all marks is at least the mark's own.
//!
//! So the probability of at least one false alarm in a comparison is at most [`ALPHA`], for any number of marks and any
//! distribution of the noise. Only the faster half of the runs is used because disturbances make runs slower, never
//! faster: up to half of them may be disturbed.
//!
//! Sources: R. A. Fisher, The Design of Experiments (1935), chapter 3: the randomization test of pairs. P. H. Westfall,
//! S. S. Young, Resampling-Based Multiple Testing (1993): the largest t (single-step maxT). J. Chen, J. Revels, Robust
//! benchmarking in noisy environments (2016): noise only adds time.

/// The probability of a false alarm in a comparison.
pub(crate) const ALPHA: f64 = 0.005;
/// With fewer pairs, no p-value is at most [`ALPHA`].
pub(crate) const FEWEST_PAIRS: usize = 8;
/// The number of exchanges that are examined. Up to twelve pairs these are all; of more pairs, a random sample.
const MOST_EXCHANGES: u64 = 1 << 12;
/// How many standard errors a rise must be above the smallest one that these runs show, so that most such comparisons
/// find it, of one mark and of ten: by simulation (see the tests). It is this many because the standard error itself is
/// of few runs, and the runs that vary least by chance are the ones that claim most.
const MORE_NOISE: f64 = 3.5;
/// The number that is examined to find the smallest rise, which is less exact anyway.
const FEWER: u64 = 1 << 10;
/// Added to the standard error: smaller differences are of no interest, and equal runs must not give infinity.
const LEAST_ERROR: f64 = 0.001;

/// The logarithms of a mark's values in the runs of each side, in the order of the pairs.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) base: Vec<f64>,
    pub(crate) head: Vec<f64>,
}

/// The result for a mark. Differences are of logarithms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finding {
    pub(crate) base: f64,
    pub(crate) head: f64,
    /// The probability of such a rise by chance, in any of the marks.
    pub(crate) rise: f64,
    /// The same of a fall.
    pub(crate) fall: f64,
    /// The difference that may occur by chance.
    pub(crate) margin: f64,
}

/// Tests all marks. Each has the same number of pairs, at least [`FEWEST_PAIRS`].
pub(crate) fn test(samples: &[Sample]) -> Vec<Finding> {
    let pairs = samples.first().map_or(0, |sample| sample.base.len());
    let levelled: Vec<Sample> = samples.iter().map(levelled).collect();
    let observed: Vec<Difference> = levelled.iter().map(|sample| Difference::of(sample, &[])).collect();
    let largest = |exchanged: Vec<u64>| {
        let all = levelled.iter().map(|sample| Difference::of(sample, &exchanged).t());
        // Exchanging all pairs changes the sign: the smallest t is that of the falls.
        all.fold((f64::MIN, f64::MIN), |(rise, fall), t| (rise.max(t), fall.max(-t)))
    };
    let (mut rises, falls): (Vec<f64>, Vec<f64>) = exchanges(pairs, MOST_EXCHANGES).map(largest).unzip();
    rises.sort_by(|one, other| other.total_cmp(one));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the number of exchanges")]
    let rank = ((rises.len() as f64 * ALPHA) as usize).max(1);
    let critical = rises.get(rank - 1).copied().unwrap_or(f64::INFINITY);
    let finding = |(one, sample): (Difference, &Sample)| {
        let (base, _) = mean_of_faster_half(sample.base.clone());
        Finding {
            base,
            head: base + one.head - one.base,
            rise: share(&rises, one.t()),
            fall: share(&falls, -one.t()),
            margin: critical * one.error,
        }
    };
    observed.into_iter().zip(samples).map(finding).collect()
}

/// For each mark, the smallest rise that most such comparisons find: the one that this comparison would have found, and
/// [`MORE_NOISE`].
pub(crate) fn smallest_rises(samples: &[Sample]) -> Vec<f64> {
    let pairs = samples.first().map_or(0, |sample| sample.base.len());
    let levelled: Vec<Sample> = samples.iter().map(levelled).collect();
    // For each exchange, the mark with the largest t, and the two largest.
    let largest: Vec<(usize, [f64; 2])> = exchanges(pairs, FEWER)
        .map(|exchanged| {
            let all = levelled.iter().map(|sample| Difference::of(sample, &exchanged).t()).enumerate();
            all.fold(
                (0, [f64::MIN; 2]),
                |(mark, [first, second]), (n, t)| {
                    if t > first { (n, [t, first]) } else { (mark, [first, second.max(t)]) }
                },
            )
        })
        .collect();
    let of_others = |n: usize| -> Vec<f64> {
        largest.iter().map(|&(mark, [first, second])| if mark == n { second } else { first }).collect()
    };
    samples.iter().enumerate().map(|(n, sample)| smallest_rise(sample, &of_others(n))).collect()
}

/// The share of numbers that are at least `t`. Rounding differs between exchanges that are equal.
fn share(all: &[f64], t: f64) -> f64 {
    all.iter().filter(|&&other| other >= t - 1e-9).count() as f64 / all.len() as f64
}

fn smallest_rise(sample: &Sample, largest_of_others: &[f64]) -> f64 {
    /// More than any rise of interest: by e.
    const MOST: f64 = 1.0;
    /// Halvings of that.
    const STEPS: u32 = 11;
    let exchanges = || exchanges(sample.base.len(), FEWER);
    let observed = Difference::of(&levelled(sample), &[]);
    // The same noise, if the head costs so much more than the base.
    let with_rise = |rise: f64| {
        let by = rise - (observed.head - observed.base);
        levelled(&Sample { base: sample.base.clone(), head: sample.head.iter().map(|run| run + by).collect() })
    };
    let is_found = |rise: f64| {
        let sample = with_rise(rise);
        let all = exchanges().zip(largest_of_others);
        let largest: Vec<f64> = all.map(|(exchanged, &t)| Difference::of(&sample, &exchanged).t().max(t)).collect();
        share(&largest, Difference::of(&sample, &[]).t()) <= ALPHA
    };
    let (mut found, mut missed) = (MOST, 0.0);
    for _ in 0..STEPS {
        let between = f64::midpoint(found, missed);
        *(if is_found(between) { &mut found } else { &mut missed }) = between;
    }
    let same = with_rise(0.0);
    let squares =
        exchanges().map(|exchanged| Difference::of(&same, &exchanged)).map(|one| (one.head - one.base).powi(2));
    found + MORE_NOISE * (squares.sum::<f64>() / largest_of_others.len() as f64).sqrt()
}

/// The differences from the machine's speed at that time, which may change from pair to pair: from the median of the
/// faster runs of up to five pairs around each pair. An exchange of runs does not change which run of a pair is faster.
fn levelled(sample: &Sample) -> Sample {
    let faster: Vec<f64> = sample.base.iter().zip(&sample.head).map(|(base, head)| base.min(*head)).collect();
    let level = |pair: usize| {
        let mut around = faster[pair.saturating_sub(2)..faster.len().min(pair + 3)].to_vec();
        around.sort_by(f64::total_cmp);
        around[(around.len() - 1) / 2]
    };
    let side = |runs: &[f64]| runs.iter().enumerate().map(|(pair, run)| run - level(pair)).collect();
    Sample { base: side(&sample.base), head: side(&sample.head) }
}

/// Which pairs are exchanged, a bit for each, 64 in a word. The first exchanges none.
fn exchanges(pairs: usize, most: u64) -> impl Iterator<Item = Vec<u64>> {
    let all = 1_u64.checked_shl(pairs.try_into().unwrap_or(u32::MAX)).unwrap_or(u64::MAX);
    // Always the same random numbers, so that the same reports give the same answer.
    let mut random = SplitMix(1);
    let mut word = move |n: u64| if all <= most || n == 0 { n } else { random.next() };
    (0..all.min(most)).map(move |n| (0..pairs.div_ceil(64)).map(|_| word(n)).collect())
}

/// `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

struct Difference {
    base: f64,
    head: f64,
    error: f64,
}

impl Difference {
    /// With the runs of these pairs exchanged.
    fn of(sample: &Sample, exchanged: &[u64]) -> Self {
        let is_exchanged = |pair: usize| exchanged.get(pair / 64).is_some_and(|word| word >> (pair % 64) & 1 == 1);
        let side = |one: &[f64], other: &[f64]| {
            let all: Vec<f64> =
                one.iter().zip(other).enumerate().map(|(n, (a, b))| if is_exchanged(n) { *b } else { *a }).collect();
            mean_of_faster_half(all)
        };
        let ((base, of_base), (head, of_head)) = (side(&sample.base, &sample.head), side(&sample.head, &sample.base));
        Self { base, head, error: (of_base + of_head + LEAST_ERROR * LEAST_ERROR).sqrt() }
    }

    fn t(&self) -> f64 {
        (self.head - self.base) / self.error
    }
}

/// The mean of the faster half, and the variance of that mean.
fn mean_of_faster_half(mut all: Vec<f64>) -> (f64, f64) {
    all.sort_by(f64::total_cmp);
    all.truncate(all.len().div_ceil(2));
    let count = all.len() as f64;
    let mean = all.iter().sum::<f64>() / count;
    let squares: f64 = all.iter().map(|one| (one - mean).powi(2)).sum();
    (mean, squares / (count - 1.0).max(1.0) / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number from 0 to 1.
    fn uniform(random: &mut SplitMix) -> f64 {
        (random.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(random: &mut SplitMix) -> f64 {
        (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
    }

    /// Runs of marks whose values vary by 1 %, in pairs. One run in twenty is 30 % slower, in all of its marks. The
    /// machine becomes 10 % slower meanwhile. The head's first mark costs `rise` more.
    fn samples(random: &mut SplitMix, marks: usize, pairs: usize, rise: f64) -> Vec<Sample> {
        let mut all = vec![Sample { base: Vec::new(), head: Vec::new() }; marks];
        for pair in 0..pairs {
            for is_head in [false, true] {
                let disturbed = if uniform(random) < 0.05 { 1.3_f64.ln() } else { 0.0 };
                let drift = 1.1_f64.ln() * pair as f64 / pairs as f64;
                for (mark, sample) in all.iter_mut().enumerate() {
                    let more = if is_head && mark == 0 { rise.ln_1p() } else { 0.0 };
                    let value = 10.0 + 0.01 * normal(random) + disturbed + drift + more;
                    if is_head { &mut sample.head } else { &mut sample.base }.push(value);
                }
            }
        }
        all
    }

    #[test]
    fn fewer_than_1_percent_of_comparisons_with_the_same_are_false_alarms() {
        let mut random = SplitMix(7);
        let is_full = std::env::var_os("PERFMARK_TEST_FULL").is_some();
        for (marks, comparisons) in if is_full { [(1, 500), (10, 101)] } else { [(1, 101), (10, 21)] } {
            let alarms = (0..comparisons)
                .filter(|_| test(&samples(&mut random, marks, 10, 0.0)).iter().any(|one| one.rise <= ALPHA));
            let alarms = alarms.count();
            assert!(alarms * 100 < comparisons, "{alarms} of {comparisons}, {marks} marks");
        }
    }

    #[test]
    fn most_rises_that_are_said_to_be_found_are_found() {
        let mut random = SplitMix(9);
        let is_full = std::env::var_os("PERFMARK_TEST_FULL").is_some();
        let cases = if is_full {
            [(1, 0.02, 500, 50), (1, 0.03, 200, 60), (1, 0.05, 100, 80), (10, 0.03, 100, 5), (10, 0.05, 40, 20)]
        } else {
            [(1, 0.02, 20, 0), (1, 0.03, 20, 5), (1, 0.05, 10, 5), (10, 0.03, 3, 0), (10, 0.05, 3, 0)]
        };
        for (marks, rise, comparisons, fewest) in cases {
            let all = (0..comparisons).map(|_| samples(&mut random, marks, 10, rise));
            let said: Vec<_> = all.filter(|all| smallest_rises(all)[0].exp_m1() <= rise).collect();
            let found = said.iter().filter(|all| test(all)[0].rise <= ALPHA).count();
            println!("{rise} in {marks} marks: {found} found of {} said, of {comparisons}", said.len());
            assert!(said.len() >= fewest, "{rise} in {marks} marks: {} of {comparisons} say so", said.len());
            assert!(3 * found >= 2 * said.len(), "{rise} in {marks} marks: {found} of {}", said.len());
        }
    }

    #[test]
    fn four_times_as_many_runs_show_about_half_the_rise() {
        let mut random = SplitMix(10);
        let mut smallest = |pairs: usize| smallest_rises(&samples(&mut random, 1, pairs, 0.0))[0];
        let [few, many] = [smallest(64), smallest(256)];
        assert!(many < 0.7 * few, "{many} with four times the runs of {few}");
    }

    #[test]
    fn more_than_90_percent_of_rises_by_5_percent_are_found_in_10_pairs() {
        let mut random = SplitMix(8);
        for (marks, comparisons) in [(1, 50), (10, 10)] {
            let found = (0..comparisons).filter(|_| {
                let one = test(&samples(&mut random, marks, 10, 0.05))[0];
                one.rise <= ALPHA && one.head - one.base > 0.02_f64.ln_1p()
            });
            let found = found.count();
            assert!(found * 10 >= comparisons * 9, "{found} of {comparisons}, {marks} marks");
        }
    }
}
