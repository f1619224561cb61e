//! What the process holds, noted from time to time, and whether that grows.

use std::fs;
use std::time::Duration;

use benches::process::of_all_mappings;
use benches::table::median;

use crate::wrong::Wrong;

/// Taken while nobody works.
pub(crate) struct Sample {
    pub(crate) at: Duration,
    /// Memory in KiB.
    pub(crate) resident: u64,
    pub(crate) mappings: u64,
    pub(crate) descriptors: u64,
    pub(crate) calls: u64,
    pub(crate) threads: u64,
    pub(crate) toggles: u64,
    pub(crate) snapshots: u64,
    /// How long the last snapshot took.
    pub(crate) snapshot: Duration,
}

/// Memory in KiB, mappings and descriptors; None where the system does not tell.
pub(crate) fn held() -> Option<[u64; 3]> {
    let resident = of_all_mappings("Rss:")?;
    let mappings = fs::read_to_string("/proc/self/maps").ok()?.lines().count();
    // With the one that it is read by.
    let descriptors = fs::read_dir("/proc/self/fd").ok()?.count();
    Some([resident, mappings as u64, descriptors as u64])
}

pub(crate) fn tell(samples: &[Sample]) {
    println!(
        "| s | resident KiB | mappings | descriptors | calls, M | threads | filters set | snapshots | a snapshot, µs |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for sample in samples {
        let Sample { at, resident, mappings, descriptors, calls, threads, toggles, snapshots, snapshot } = sample;
        let (at, calls, snapshot) = (at.as_secs_f64(), *calls as f64 / 1e6, snapshot.as_micros());
        println!(
            "| {at:.1} | {resident} | {mappings} | {descriptors} | {calls:.1} | {threads} | {toggles} | {snapshots} | {snapshot} |"
        );
    }
}

type Figure = fn(&Sample) -> u64;

/// Of the second quarter and of the last one.
fn quarters(samples: &[Sample], of: Figure) -> [f64; 2] {
    let quarter = samples.len() / 4;
    let of = |samples: &[Sample]| median(&samples.iter().map(|sample| of(sample) as f64).collect::<Vec<_>>());
    [of(&samples[quarter..2 * quarter]), of(&samples[samples.len() - quarter..])]
}

/// What grew behind the first quarter, in which all threads meet all settings, and histograms most of their octaves.
pub(crate) fn judge(samples: &[Sample], wrong: &Wrong) {
    let figures: [(&str, Figure, f64, f64); 3] = [
        ("resident KiB", |sample| sample.resident, 0.02, 1024.0),
        ("mappings", |sample| sample.mappings, 0.02, 4.0),
        ("descriptors", |sample| sample.descriptors, 0.0, 0.0),
    ];
    for (what, of, part, least) in figures {
        let [second, last] = quarters(samples, of);
        println!("{what}, medians of the second quarter and of the last: {second} and {last}");
        let limit = second + least.max(second * part);
        wrong.unless(last <= limit, || format!("{what} grew from {second} to {last}, more than to {limit}"));
    }
    let later = &samples[samples.len() / 4..];
    let of_all = later.iter().map(|sample| sample.descriptors);
    wrong.unless(of_all.clone().min() == of_all.max(), || "descriptors are not the same at all times".into());
}
