//! 100,000,000 calls of one mark: the process's memory does not grow, but for the octaves of the histogram.
//!
//! `cargo bench -p benches --bench memory` prints the figures, and fails where memory grew.

use std::process::ExitCode;

use perfmark::perfmark;

#[perfmark(time)]
#[inline(never)]
fn marked(n: u64) -> u64 {
    std::hint::black_box(n)
}

const CALLS: u64 = 100_000_000;
/// 60 octaves of 256 bytes, in whole pages, and one page more for the allocator's books.
const OCTAVES_KIB: u64 = 20;

/// Private memory of this process in KiB (`RssAnon` of proc(5)).
fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

fn main() -> ExitCode {
    marked(0);
    let Some(before) = memory() else {
        println!("skipped: this system has no /proc/self/status that tells RssAnon");
        return ExitCode::SUCCESS;
    };
    let mut checkpoints = Vec::with_capacity(10);
    for _ in 0..10 {
        for n in 0..CALLS / 10 {
            marked(n);
        }
        checkpoints.push(memory().unwrap_or(u64::MAX));
    }
    println!("RssAnon in KiB, first {before}, then after each tenth of {CALLS} calls: {checkpoints:?}");
    let grown = checkpoints.iter().max().unwrap_or(&u64::MAX).saturating_sub(before);
    if grown > OCTAVES_KIB {
        println!("grew by {grown} KiB, more than the {OCTAVES_KIB} of the histogram's octaves");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
