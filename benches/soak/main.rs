//! Simulates a long-running service. Threads start and end, settings change, sampling starts and stops, values are read
//! in all ways, and child processes are forked. The resources of the process must not grow, and no call may be lost or
//! added.
//!
//! ```sh
//! cargo bench -p benches --features soak --bench soak           # 15 seconds
//! cargo bench -p benches --features soak --bench soak -- 30     # minutes
//! ```
//!
//! Four times a second, all threads pause. The counts of marks that are never off must then equal the calls made, both
//! in the snapshot and in the sum over all threads. The benchmark samples memory, mappings and descriptors 40 times in
//! a run. It fails in these cases:
//!
//! - A count is wrong.
//! - The median of memory in the last quarter is more than 2 % and 2 MiB above that of the second. In a run of less
//!   than 4 minutes, in which tables of samples still fill, 8 MiB are allowed.
//! - The median of mappings in the last quarter is more than 2 % and 4 above that of the second.
//! - The number of descriptors changes.
//! - A thread cannot be sampled, or no sample is taken.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use perfmark::{Dumps, Format, Snapshot, reset, snapshot, threads};

mod failures;
mod marks;
mod child;
mod samplings;
mod threads;
mod samples;

use benches::record;

use crate::failures::Failures;
use crate::marks::{COUNTS, Counts, SWITCHED, calls, counts, find_mark, made};
use crate::samples::Sample;
use crate::samplings::Samplings;
use crate::threads::{Gate, Progress, observe, run_long_thread, run_short_threads};

const SAMPLES: u32 = 40;
const SHORT: Duration = Duration::from_secs(15);
const ROUND: Duration = Duration::from_millis(250);
/// Rounds from one reset to the next.
const RESET: u64 = 10;
/// Rounds from one reset during calls to the next.
const LIVE_RESET: u64 = 21;
/// Rounds from one fork to the next.
const FORK: u64 = 4;

/// The time limit for the dump of a round, and for the end of threads that read samples.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The state that rounds share.
struct Soak<'a> {
    gate: &'a Gate,
    progress: &'a Progress,
    samplings: &'a Samplings,
    failures: &'a Failures,
    began: Instant,
    rounds: u64,
    forks: u64,
    /// The counts of calls made before the last reset.
    made_before: Counts,
    /// The sum of the snapshots before each reset. Snapshots after a reset during calls are not included.
    total: Snapshot,
    /// The counts of calls made during the snapshots in `total`.
    made_in_total: Counts,
    /// The number of samples taken before the last reset. Those of different frequencies cannot be merged.
    samples: u64,
}

fn difference(now: &Counts, before: &Counts) -> Counts {
    std::array::from_fn(|n| now[n] - before[n])
}

impl Soak<'_> {
    /// Runs a quarter of a second of work, then pauses all threads and runs the checks. Returns a sample if one is due.
    fn round(&mut self, is_sampled: bool) -> Option<Sample> {
        self.rounds += 1;
        let end = Instant::now() + ROUND;
        let file = env::temp_dir().join(format!("perfmark-soak-{}.json", std::process::id()));
        let dumps = Dumps::new(&file).format(Format::Json).every(ROUND / 10).on_signal(libc::SIGUSR1);
        let dumping = dumps.start().expect("a thread can be started");
        // SAFETY: the signal has a handler.
        self.failures.unless(unsafe { libc::raise(libc::SIGUSR1) } == 0, || "the signal could not be raised".into());
        if self.rounds.is_multiple_of(FORK) {
            let failed = child::fork();
            self.forks += 1;
            self.failures.unless(failed.is_none(), || format!("a forked child ended with {failed:?}"));
        }
        let is_live_reset = self.rounds.is_multiple_of(LIVE_RESET);
        if is_live_reset {
            reset();
        }
        thread::sleep(end.saturating_duration_since(Instant::now()));
        self.read_dump(&file);
        drop(dumping);
        _ = fs::remove_file(&file);
        let closed = self.gate.close();
        let sample = self.check(is_live_reset, is_sampled);
        drop(closed);
        sample
    }

    /// Checks that a dump is written and complete. On a busy machine, it may be late.
    fn read_dump(&self, file: &Path) {
        let latest = Instant::now() + TIMEOUT;
        while !file.exists() && Instant::now() < latest {
            thread::sleep(Duration::from_millis(1));
        }
        let dumped = fs::read_to_string(file).unwrap_or_default();
        self.failures.unless(dumped.trim_end().ends_with('}'), || format!("the dump is {dumped:?}"));
    }

    /// Runs the checks while all threads pause.
    fn check(&mut self, is_live_reset: bool, is_sampled: bool) -> Option<Sample> {
        let before = Instant::now();
        let now = snapshot();
        let taken = before.elapsed();
        let so_far = made();
        let expected = difference(&so_far, &self.made_before);
        if is_live_reset {
            let is_more = counts(&now).iter().zip(expected).any(|(counted, made)| *counted > made);
            self.failures.unless(!is_more, || {
                format!("after a reset during calls, counts are {:?}, expected at most {expected:?}", counts(&now))
            });
        } else {
            self.compare("the snapshot", &now, &expected);
            self.compare_threads(&now);
        }
        let samples = self.samples + samplings::check(&now, self.failures);
        if is_live_reset || self.rounds.is_multiple_of(RESET) {
            if !is_live_reset {
                self.total.merge(&now);
                self.made_in_total = std::array::from_fn(|n| self.made_in_total[n] + expected[n]);
            }
            reset();
            self.made_before = so_far;
            self.samples = samples;
        }
        if !is_sampled {
            return None;
        }
        self.samplings.stop(TIMEOUT, self.failures);
        let [resident, mappings, descriptors] = samples::resources()?;
        Some(Sample {
            at: self.began.elapsed(),
            resident,
            mappings,
            descriptors,
            calls: calls(&so_far),
            threads: self.progress.threads.load(Relaxed),
            toggles: self.progress.toggles.load(Relaxed),
            samplings: self.progress.samplings.load(Relaxed),
            samples,
            snapshots: self.progress.snapshots.load(Relaxed) + self.rounds,
            snapshot: taken,
        })
    }

    fn compare(&self, source: &str, snapshot: &Snapshot, expected: &Counts) {
        let seen = counts(snapshot);
        for (n, (mark, quantity, _)) in COUNTS.iter().enumerate() {
            let (seen, expected) = (seen[n], expected[n]);
            self.failures.unless(seen == expected, || {
                format!("round {}: {source} has {seen} {quantity} of {mark}, expected {expected}", self.rounds)
            });
        }
        let (seen, most) = (seen[COUNTS.len()], expected[COUNTS.len()]);
        self.failures.unless(0 < seen && seen <= most, || {
            format!("{source} has {seen} calls of {SWITCHED}, expected 1 to {most}")
        });
        for mark in &snapshot.marks {
            let left = mark.unwound + mark.cancelled + mark.skipped;
            let measured: u64 = mark.values.iter().map(|values| values.measured).max().unwrap_or(0);
            self.failures.unless(mark.interrupted == 0 && measured + left <= mark.calls, || format!("{mark:?}"));
        }
    }

    /// Checks that the sums over all threads equal the snapshot, and that only calls waiting for a poll are in flight.
    fn compare_threads(&self, now: &Snapshot) {
        let threads = threads();
        for (name, _, _) in COUNTS.iter().filter(|(_, quantity, _)| *quantity == "calls") {
            let of_threads = threads.iter().flat_map(|thread| &thread.marks).filter(|mark| mark.name == *name);
            let (calls, cancelled) = find_mark(now, name).map_or((0, 0), |mark| (mark.calls, mark.cancelled));
            let in_threads: u64 = of_threads.map(|mark| mark.calls).sum();
            self.failures.unless(in_threads + cancelled == calls, || {
                format!("round {}: threads have {in_threads} calls of {name}, the snapshot {calls}", self.rounds)
            });
        }
        let (open, waiting) = (now.marks.iter().map(|mark| mark.in_flight).sum::<u64>(), marks::in_flight());
        self.failures.unless(open == waiting, || format!("{open} calls are in flight, expected {waiting}"));
    }
}

fn soak(length: Duration, failures: &Failures) -> Vec<Sample> {
    let (gate, progress, samplings) = (Gate::default(), Progress::default(), Samplings::new());
    let (began, zeroes) = (Instant::now(), made());
    let mut soak = Soak {
        gate: &gate,
        progress: &progress,
        samplings: &samplings,
        failures,
        began,
        rounds: 0,
        forks: 0,
        made_before: zeroes,
        total: snapshot(),
        made_in_total: zeroes,
        samples: 0,
    };
    let mut samples = Vec::with_capacity(SAMPLES as usize);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| run_long_thread(&gate));
        }
        scope.spawn(|| run_short_threads(&gate, &progress));
        scope.spawn(|| observe(&gate, &progress, &samplings, failures));
        for n in 1..=SAMPLES {
            loop {
                let is_sampled = began.elapsed() + ROUND >= length / SAMPLES * n;
                let sample = soak.round(is_sampled);
                samples.extend(sample);
                if is_sampled {
                    break;
                }
            }
        }
        *gate.close() = true;
    });
    soak.compare("the sum of all snapshots", &soak.total, &soak.made_in_total);
    samplings.check_taken(soak.samples, failures);
    let Soak { rounds, forks, .. } = soak;
    println!("{rounds} rounds, {forks} child processes, {} scrapes", progress.scrapes.load(Relaxed));
    samples
}

fn main() -> ExitCode {
    let minutes = env::args().skip(1).find_map(|argument| argument.parse::<f64>().ok());
    let length = minutes.map_or(SHORT, |minutes| Duration::from_secs_f64(minutes * 60.0));
    if samples::resources().is_none() {
        println!("skipped: /proc/self does not report memory, mappings and descriptors on this system");
        return ExitCode::SUCCESS;
    }
    println!("{length:?}; {}", record::machine());
    let failures = Failures::default();
    let samples = soak(length, &failures);
    samples::print(&samples);
    samples::check_growth(&samples, &failures);
    if failures.print() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
