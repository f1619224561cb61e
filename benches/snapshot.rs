//! How much a snapshot every 100 ms slows down two busy threads. A third thread takes it, or only sleeps.
//!
//! `cargo bench -p benches --bench snapshot` runs rounds of 100 ms in pairs, one with a snapshot and one without, in
//! alternating order. It prints the ratio of the calls made. By the wall clock, this ratio mostly shows the other load
//! of the machine. Therefore only the ratio of the calls per second of the busy threads' CPU time can fail. If there is
//! no third processor, that ratio is reduced by the snapshot's share of the CPU time.
//!
//! The benchmark fails if the median of these ratios is below 0.99 with a confidence of 97.5 %.

use std::hint::{black_box, spin_loop};
use std::process::ExitCode;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use benches::clocks::cpu_time;
use benches::table::{cell, confidence};
use perfmark::perfmark;

/// Marked functions that run for this many turns.
macro_rules! marked {
    ($($name:ident)*) => {
        $(#[perfmark(time)]
        #[inline(never)]
        fn $name(turns: u64) {
            (0..turns).for_each(|_| spin_loop());
        })*
        const MARKED: &[fn(u64)] = &[$($name),*];
    };
}
marked! { m00 m01 m02 m03 m04 m05 m06 m07 m08 m09 m10 m11 m12 m13 m14 m15 m16 m17 m18 m19 }

const PERIOD: Duration = Duration::from_millis(100);
const PAIRS: usize = 80;
const LIMIT: f64 = 0.99;
const BUSY: usize = 2;
/// A round's number that ends the threads.
const STOP: usize = usize::MAX;

/// Calls made by a busy thread in a round, and the CPU time that they took.
type Made = (u64, Duration);

/// Calls every mark in a loop, and sends the calls that it made at the end of each round.
fn work(round: &AtomicUsize, made: &Sender<Made>) {
    let (mut current, mut calls, mut began, mut batch) = (round.load(Relaxed), 0, cpu_time(), 0_u64);
    while current != STOP {
        batch += 1;
        // Each octave has half as many calls as the one below.
        let turns = 1 << batch.trailing_zeros().min(10);
        for marked in MARKED {
            marked(black_box(turns));
        }
        calls += MARKED.len() as u64;
        let now = round.load(Relaxed);
        if now != current {
            let ended = cpu_time();
            // After the last round, there is no receiver.
            _ = made.send((calls, ended.saturating_sub(began)));
            (current, calls, began) = (now, 0, cpu_time());
        }
    }
}

/// The measurements of a round by the third thread.
struct Round {
    /// Calls per second of wall time, and of the busy threads' CPU time.
    by_wall: f64,
    by_cpu: f64,
    /// Wall time and CPU time of the snapshot.
    snapshot: [Duration; 2],
}

fn round(number: &AtomicUsize, made: &[Receiver<Made>; BUSY], with_snapshot: bool) -> Round {
    let (began, before) = (Instant::now(), cpu_time());
    if with_snapshot {
        black_box(perfmark::snapshot());
    }
    let snapshot = [began.elapsed(), cpu_time().saturating_sub(before)];
    thread::sleep(PERIOD.saturating_sub(began.elapsed()));
    let elapsed = began.elapsed();
    number.fetch_add(1, Relaxed);
    let made = made.each_ref().map(|made| made.recv().expect("the thread sends at each round's end"));
    let by_wall = made.iter().map(|(calls, _)| *calls as f64).sum::<f64>() / elapsed.as_secs_f64();
    let by_cpu = made.iter().map(|(calls, time)| *calls as f64 / time.as_secs_f64()).sum();
    Round { by_wall, by_cpu, snapshot }
}

fn main() -> ExitCode {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    if processors < BUSY {
        println!("skipped: two busy threads require two processors");
        return ExitCode::SUCCESS;
    }
    let number = &AtomicUsize::new(0);
    let pairs: Vec<[Round; 2]> = thread::scope(|scope| {
        let made = [(); BUSY].map(|()| {
            let (sender, made) = channel();
            scope.spawn(move || work(number, &sender));
            made
        });
        // The first calls and the first snapshot include setup.
        round(number, &made, true);
        let pairs = (0..PAIRS).map(|pair| {
            // The order alternates between pairs.
            let first = round(number, &made, pair % 2 == 0);
            let second = round(number, &made, pair % 2 == 1);
            if pair % 2 == 0 { [first, second] } else { [second, first] }
        });
        let pairs = pairs.collect();
        number.store(STOP, Relaxed);
        pairs
    });
    let of = |value: &dyn Fn(&[Round; 2]) -> f64| pairs.iter().map(value).collect::<Vec<f64>>();
    let in_us = |time: Duration| time.as_secs_f64() * 1e6;
    // The snapshot's share of the busy threads' CPU time.
    let taken = |with: &Round| {
        if processors > BUSY { 0.0 } else { with.snapshot[1].as_secs_f64() / PERIOD.as_secs_f64() / BUSY as f64 }
    };
    let by_wall = of(&|[with, without]| with.by_wall / without.by_wall);
    let by_cpu = of(&|[with, without]| with.by_cpu / without.by_cpu * (1.0 - taken(with)));
    println!(
        "{BUSY} busy threads, {} marks, {processors} processors; medians (quartiles) of {PAIRS} pairs of rounds",
        MARKED.len()
    );
    println!("calls without snapshots, M/s of wall time    {}", cell(&of(&|[_, without]| without.by_wall / 1e6), 2));
    println!("a snapshot, µs of wall time                  {}", cell(&of(&|[with, _]| in_us(with.snapshot[0])), 0));
    println!("a snapshot, µs of CPU time                   {}", cell(&of(&|[with, _]| in_us(with.snapshot[1])), 0));
    println!("ratio of calls with a snapshot every {PERIOD:?} to calls without");
    println!("  by wall time                               {}", cell(&by_wall, 4));
    println!("  by CPU time, minus the snapshot's          {}", cell(&by_cpu, 4));
    let [least, most] = confidence(&by_cpu).unwrap_or([f64::NAN; 2]);
    println!("  the median by CPU time is {least:.4} to {most:.4} with a confidence of 95 %");
    if most < LIMIT {
        println!("the ratio is below {LIMIT}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
