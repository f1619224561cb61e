//! Samples of the process's resources, and a check that they do not grow.

use std::fs;
use std::time::Duration;

use benches::process::of_all_mappings;
use benches::table::median;

use crate::failures::Failures;

/// A sample, taken while all threads pause.
pub(crate) struct Sample {
    pub(crate) at: Duration,
    /// Memory in KiB.
    pub(crate) resident: u64,
    pub(crate) mappings: u64,
    pub(crate) descriptors: u64,
    pub(crate) calls: u64,
    pub(crate) threads: u64,
    pub(crate) toggles: u64,
    pub(crate) samplings: u64,
    /// Samples of the program's instructions.
    pub(crate) samples: u64,
    pub(crate) snapshots: u64,
    /// The duration of the last snapshot.
    pub(crate) snapshot: Duration,
}

/// Memory in KiB, mappings and descriptors. `None` if the system does not report them.
pub(crate) fn resources() -> Option<[u64; 3]> {
    let resident = of_all_mappings("Rss:")?;
    let mappings = fs::read_to_string("/proc/self/maps").ok()?.lines().count();
    // Includes the descriptor of this directory.
    let descriptors = fs::read_dir("/proc/self/fd").ok()?.count();
    Some([resident, mappings as u64, descriptors as u64])
}

pub(crate) fn print(samples: &[Sample]) {
    print!("| s | resident KiB | mappings | descriptors | calls, M | threads | filters set ");
    println!("| samplings | samples | snapshots | a snapshot, µs |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for sample in samples {
        let Sample { at, resident, mappings, descriptors, calls, threads, toggles, .. } = sample;
        let Sample { samplings, samples, snapshots, snapshot, .. } = sample;
        let (at, calls, snapshot) = (at.as_secs_f64(), *calls as f64 / 1e6, snapshot.as_micros());
        print!("| {at:.1} | {resident} | {mappings} | {descriptors} | {calls:.1} | {threads} ");
        println!("| {toggles} | {samplings} | {samples} | {snapshots} | {snapshot} |");
    }
}

type Field = fn(&Sample) -> u64;

/// The medians of the second and the last quarter.
fn quarters(samples: &[Sample], of: Field) -> [f64; 2] {
    let quarter = samples.len() / 4;
    let of = |samples: &[Sample]| median(&samples.iter().map(|sample| of(sample) as f64).collect::<Vec<_>>());
    [of(&samples[quarter..2 * quarter]), of(&samples[samples.len() - quarter..])]
}

/// Checks for growth after the first quarter, in which threads use all settings and histograms get most of their
/// octaves. Each sampling has histograms of its own. In the first minutes, each new stack of a sample takes memory, up
/// to a limit.
pub(crate) fn check_growth(samples: &[Sample], failures: &Failures) {
    const MINUTES: Duration = Duration::from_secs(240);
    let is_short = samples.last().is_none_or(|sample| sample.at < MINUTES);
    let kib = if is_short { 8192.0 } else { 2048.0 };
    let fields: [(&str, Field, f64, f64); 3] = [
        ("resident KiB", |sample| sample.resident, 0.02, kib),
        ("mappings", |sample| sample.mappings, 0.02, 4.0),
        ("descriptors", |sample| sample.descriptors, 0.0, 0.0),
    ];
    for (name, of, part, least) in fields {
        let [second, last] = quarters(samples, of);
        println!("{name}, medians of the second and the last quarter: {second} and {last}");
        let limit = second + least.max(second * part);
        failures.unless(last <= limit, || format!("{name} grew from {second} to {last}, limit {limit}"));
    }
    let later = &samples[samples.len() / 4..];
    let of_all = later.iter().map(|sample| sample.descriptors);
    failures.unless(of_all.clone().min() == of_all.max(), || "the number of descriptors changed".into());
}
