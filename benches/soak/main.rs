//! A service's life in short: threads come and go, settings change, figures are looked at in all ways, children are forked; and what the process holds
//! does not grow, and no call is lost or invented.
//!
//! ```sh
//! cargo bench -p benches --features soak --bench soak           # 15 seconds
//! cargo bench -p benches --features soak --bench soak -- 30     # minutes
//! ```
//!
//! Four times a second all stand still, and the counts of marks that are never off must be exactly the calls made, in the snapshot and in the threads'
//! figures together. At 40 times of the run it notes memory, mappings and descriptors. It fails where a count is off; where the last quarter's median of
//! memory is more than 2 % and 1 MiB above the second's, and of mappings more than 2 % and 4; and where descriptors are not the same at all times.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use perfmark::{Dumps, Format, Snapshot, reset, snapshot, threads};

mod wrong;
mod marks;
mod child;
mod threads;
mod samples;

use benches::record;

use crate::marks::{COUNTS, Counts, SWITCHED, calls, counts, figures, made};
use crate::samples::Sample;
use crate::threads::{Done, Gate, come_and_go, stay, tend};
use crate::wrong::Wrong;

const SAMPLES: u32 = 40;
const SHORT: Duration = Duration::from_secs(15);
const ROUND: Duration = Duration::from_millis(250);
/// Rounds from one reset to the next, and from one that happens while calls are made.
const RESET: u64 = 10;
const LIVE_RESET: u64 = 21;
/// Rounds from one fork to the next.
const FORK: u64 = 4;

/// With what must come some time.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the rounds leave for one another.
struct Soak<'a> {
    gate: &'a Gate,
    done: &'a Done,
    wrong: &'a Wrong,
    began: Instant,
    rounds: u64,
    forks: u64,
    /// Made before the last reset.
    made_before: Counts,
    /// All that was recorded before it, but for what a reset took away while calls were made; and the calls made meanwhile.
    whole: Snapshot,
    made_in_whole: Counts,
}

fn less(now: &Counts, before: &Counts) -> Counts {
    std::array::from_fn(|n| now[n] - before[n])
}

impl Soak<'_> {
    /// A quarter of a second of work, and then a look at everything while nobody works. Notes what the process holds where it is time.
    fn round(&mut self, is_sampled: bool) -> Option<Sample> {
        self.rounds += 1;
        let end = Instant::now() + ROUND;
        let file = env::temp_dir().join(format!("perfmark-soak-{}.json", std::process::id()));
        let dumps = Dumps::new(&file).format(Format::Json).every(ROUND / 10).on_signal(libc::SIGUSR1);
        let dumping = dumps.start().expect("threads");
        // SAFETY: the signal has a handler.
        self.wrong.unless(unsafe { libc::raise(libc::SIGUSR1) } == 0, || "no signal can be raised".into());
        if self.rounds.is_multiple_of(FORK) {
            let failed = child::fork();
            self.forks += 1;
            self.wrong.unless(failed.is_none(), || format!("a forked child ended with {failed:?}"));
        }
        let is_live_reset = self.rounds.is_multiple_of(LIVE_RESET);
        if is_live_reset {
            reset();
        }
        thread::sleep(end.saturating_duration_since(Instant::now()));
        self.read_dump(&file);
        drop(dumping);
        _ = fs::remove_file(&file);
        let shut = self.gate.shut();
        let sample = self.look(is_live_reset, is_sampled);
        drop(shut);
        sample
    }

    /// A dump comes, if not always at its time where the machine is busy, and is whole.
    fn read_dump(&self, file: &Path) {
        let latest = Instant::now() + PATIENCE;
        while !file.exists() && Instant::now() < latest {
            thread::sleep(Duration::from_millis(1));
        }
        let dumped = fs::read_to_string(file).unwrap_or_default();
        self.wrong.unless(dumped.trim_end().ends_with('}'), || format!("dumped was {dumped:?}"));
    }

    /// What must hold while nobody works.
    fn look(&mut self, is_live_reset: bool, is_sampled: bool) -> Option<Sample> {
        let before = Instant::now();
        let now = snapshot();
        let taken = before.elapsed();
        let so_far = made();
        let expected = less(&so_far, &self.made_before);
        if is_live_reset {
            let is_more = counts(&now).iter().zip(expected).any(|(counted, made)| *counted > made);
            self.wrong.unless(!is_more, || format!("after a reset {:?} of {expected:?}", counts(&now)));
        } else {
            self.compare("the snapshot", &now, &expected);
            self.compare_threads(&now);
        }
        if is_live_reset || self.rounds.is_multiple_of(RESET) {
            if !is_live_reset {
                self.whole.merge(&now);
                self.made_in_whole = std::array::from_fn(|n| self.made_in_whole[n] + expected[n]);
            }
            reset();
            self.made_before = so_far;
        }
        let [resident, mappings, descriptors] = is_sampled.then(samples::held)??;
        Some(Sample {
            at: self.began.elapsed(),
            resident,
            mappings,
            descriptors,
            calls: calls(&so_far),
            threads: self.done.threads.load(Relaxed),
            toggles: self.done.toggles.load(Relaxed),
            snapshots: self.done.snapshots.load(Relaxed) + self.rounds,
            snapshot: taken,
        })
    }

    fn compare(&self, which: &str, snapshot: &Snapshot, expected: &Counts) {
        let seen = counts(snapshot);
        for (n, (mark, what, _)) in COUNTS.iter().enumerate() {
            let (seen, expected) = (seen[n], expected[n]);
            self.wrong.unless(seen == expected, || {
                format!("round {}: {which} has {seen} {what} of {mark}, and {expected} were made", self.rounds)
            });
        }
        let (seen, most) = (seen[COUNTS.len()], expected[COUNTS.len()]);
        self.wrong.unless(0 < seen && seen <= most, || format!("{which} has {seen} calls of {SWITCHED} of {most}"));
        for mark in &snapshot.marks {
            let left = mark.unwound + mark.cancelled + mark.skipped;
            let measured: u64 = mark.values.iter().map(|values| values.measured).max().unwrap_or(0);
            self.wrong.unless(mark.interrupted == 0 && measured + left <= mark.calls, || format!("{mark:?}"));
        }
    }

    /// Threads' figures together are the snapshot's, and no call goes on but those that wait to be polled.
    fn compare_threads(&self, now: &Snapshot) {
        let threads = threads();
        for (name, _, _) in COUNTS.iter().filter(|(_, what, _)| *what == "calls") {
            let of_threads = threads.iter().flat_map(|thread| &thread.marks).filter(|mark| mark.name == *name);
            let (calls, cancelled) = figures(now, name).map_or((0, 0), |mark| (mark.calls, mark.cancelled));
            let in_threads: u64 = of_threads.map(|mark| mark.calls).sum();
            self.wrong.unless(in_threads + cancelled == calls, || {
                format!("round {}: threads have {in_threads} calls of {name}, the snapshot {calls}", self.rounds)
            });
        }
        let (open, waiting) = (now.marks.iter().map(|mark| mark.in_flight).sum::<u64>(), marks::in_flight());
        self.wrong.unless(open == waiting, || format!("{open} calls go on, and should {waiting}"));
    }
}

fn soak(length: Duration, wrong: &Wrong) -> Vec<Sample> {
    let (gate, done) = (Gate::default(), Done::default());
    let (began, zeroes) = (Instant::now(), made());
    let mut soak = Soak {
        gate: &gate,
        done: &done,
        wrong,
        began,
        rounds: 0,
        forks: 0,
        made_before: zeroes,
        whole: snapshot(),
        made_in_whole: zeroes,
    };
    let mut samples = Vec::with_capacity(SAMPLES as usize);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| stay(&gate));
        }
        scope.spawn(|| come_and_go(&gate, &done));
        scope.spawn(|| tend(&gate, &done, wrong));
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
        *gate.shut() = true;
    });
    soak.compare("the sum of all snapshots", &soak.whole, &soak.made_in_whole);
    let Soak { rounds, forks, .. } = soak;
    println!("{rounds} times all stood still, {forks} children, {} scrapes", done.scrapes.load(Relaxed));
    samples
}

fn main() -> ExitCode {
    let minutes = env::args().skip(1).find_map(|argument| argument.parse::<f64>().ok());
    let length = minutes.map_or(SHORT, |minutes| Duration::from_secs_f64(minutes * 60.0));
    if samples::held().is_none() {
        println!("skipped: this system has no /proc/self that tells memory, mappings and descriptors");
        return ExitCode::SUCCESS;
    }
    println!("{length:?}; {}", record::machine());
    let wrong = Wrong::default();
    let samples = soak(length, &wrong);
    samples::tell(&samples);
    samples::judge(&samples, &wrong);
    if wrong.tell() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
