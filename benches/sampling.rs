//! The cost of sampling: to calls, to threads that start and end, and in memory.
//!
//! ```sh
//! taskset -c 0 cargo bench -p benches --features sampling --bench sampling                # about half a minute
//! taskset -c 0 cargo bench -p benches --features sampling --bench sampling -- --record    # also writes to records/
//! ```
//!
//! `taskset` keeps it on one CPU. Where a virtual machine has several, waking another one takes longer and varies more
//! than what sampling adds to a thread.
//!
//! All cases take turns in one process. A ratio is the median of the rounds' ratios to the first case, with its bounds
//! at a confidence of 95 %. The second case is the first one again, and shows the error of the comparison.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Barrier;
use std::{env, io, thread};

use benches::clocks::{cpu_time, now};
use benches::process::private_memory;
use benches::row::{Case, Goal, Row, in_turn};
use benches::table::median;
use benches::{record, row};
use perfmark::{Sampling, SamplingGuard, Stacks, perfmark};

/// A name, the sampling, and the limits of its ratios: of a call, and of a thread.
type Contender = (&'static str, fn() -> Option<Sampling>, [Option<Goal>; 2]);

const CONTENDERS: &[Contender] = &[
    ("not sampled", || None, [None; 2]),
    ("not sampled, again", || None, [None; 2]),
    ("99 Hz", || Some(Sampling::new().frequency(99)), [Some(Goal::Times(1.01)), Some(Goal::Times(1.1))]),
    ("99 Hz without stacks", || Some(Sampling::new().frequency(99).stacks(Stacks::Off)), [None; 2]),
    ("997 Hz", || Some(Sampling::new().frequency(997)), [None; 2]),
];

const ROUNDS: usize = 101;
/// Calls per sample of a round. They take long enough for some samples of the program at 99 Hz.
const CALLS: u64 = 78_000;
/// Steps of a call, which take about 0.55 to 0.65 µs.
const STEPS: u64 = 512;
/// Threads per sample of a round, which start one after the other, and the calls of each.
const THREADS: usize = 25;
const CALLS_OF_THREAD: u64 = 3;
/// Threads that live at the same time while memory is measured.
const LIVE: usize = 64;

#[perfmark(time)]
#[inline(never)]
fn marked(n: u64) -> u64 {
    (0..STEPS).fold(n, |n, step| (n ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn call(calls: u64) {
    (0..calls).for_each(|n| _ = black_box(marked(black_box(n))));
}

fn start(sampling: fn() -> Option<Sampling>) -> Option<SamplingGuard> {
    sampling().map(|sampling| sampling.start().expect("main started one"))
}

/// The samples until now.
fn taken() -> u64 {
    perfmark::snapshot().samples.iter().map(perfmark::Samples::taken).sum()
}

/// The nanoseconds of CPU time of a call, and the number of samples. A new thread makes the calls, so that it takes
/// part in this sampling only.
fn calls(sampling: fn() -> Option<Sampling>) -> [f64; 2] {
    let (sampling, before) = (start(sampling), taken());
    let work = || {
        // Sets up the mark on this thread.
        call(100);
        let began = cpu_time();
        call(CALLS);
        cpu_time().saturating_sub(began)
    };
    let time = thread::spawn(work).join().expect("no panic");
    let samples = taken() - before;
    drop(sampling);
    [time.as_nanos() as f64 / CALLS as f64, samples as f64]
}

/// The median of the microseconds that a thread takes, from before its creation until it is joined.
fn threads(sampling: fn() -> Option<Sampling>) -> f64 {
    let sampling = start(sampling);
    let thread = || {
        let began = now();
        thread::spawn(|| call(CALLS_OF_THREAD)).join().expect("no panic");
        now().saturating_sub(began).as_secs_f64() * 1e6
    };
    // The first thread sets up what the sampling needs only once.
    thread();
    let times: Vec<f64> = (0..THREADS).map(|_| thread()).collect();
    drop(sampling);
    median(&times)
}

/// Runs all contenders in turn. `limit` is the index of their limits.
fn compare(what: &str, unit: &'static str, limit: usize, sample: &dyn Fn(usize) -> f64) -> Vec<Row> {
    let cases = CONTENDERS
        .iter()
        .enumerate()
        .map(|(at, (name, ..))| -> Case<'_> { (format!("{what}, {name}"), Box::new(move || sample(at))) });
    let rows = in_turn(ROUNDS, unit, cases.collect()).into_iter().zip(CONTENDERS);
    rows.map(|(row, (_, _, limits))| if let Some(goal) = limits[limit] { row.goal(goal) } else { row }).collect()
}

fn of_calls() -> Vec<Row> {
    let numbers = RefCell::new(vec![Vec::new(); CONTENDERS.len()]);
    let mut rows = compare("a call", "ns", 0, &|at| {
        let [cost, samples] = calls(CONTENDERS[at].1);
        numbers.borrow_mut()[at].push(samples);
        cost
    });
    let sampled = CONTENDERS.iter().zip(numbers.into_inner()).filter(|((_, sampling, _), _)| sampling().is_some());
    rows.extend(sampled.map(|((name, ..), samples)| Row::new(format!("samples in a round, {name}"), "", samples)));
    rows
}

/// How far the samples times their period are from the CPU time of a busy thread, for each of these periods in
/// nanoseconds.
fn of_periods() -> Vec<Row> {
    const PERIODS: [u64; 3] = [1_000_003, 100_003, 50_021];
    const TRIES: usize = 5;
    let deviation = |period: u64| {
        let sampling = Sampling::new().event("cpu-clock").period(period).start().expect("main started one");
        let before = taken();
        let work = || {
            let began = cpu_time();
            call(8 * CALLS);
            cpu_time().saturating_sub(began).as_nanos() as f64
        };
        let time = thread::spawn(work).join().expect("no panic");
        let samples = taken() - before;
        drop(sampling);
        100.0 * ((samples * period) as f64 / time - 1.0).abs()
    };
    let row = |period| {
        let tries = (0..TRIES).map(|_| deviation(period)).collect();
        Row::new(format!("samples × {period} ns, deviation from the CPU time"), "%", tries).goal(Goal::AtMost(2.0))
    };
    PERIODS.map(row).into()
}

/// The private memory that sampling adds to a thread: at its first call, and by further calls.
fn memory() -> Option<Vec<Row>> {
    let frequency = 997;
    let barrier = Barrier::new(LIVE + 1);
    let kib = thread::scope(|scope| {
        for _ in 0..LIVE {
            scope.spawn(|| {
                for calls in [CALLS_OF_THREAD, CALLS_OF_THREAD, CALLS, CALLS] {
                    barrier.wait();
                    call(calls);
                    barrier.wait();
                }
                // All threads live until the last value is read.
                barrier.wait();
            });
        }
        let step = || {
            barrier.wait();
            barrier.wait();
            private_memory()
        };
        let before = step();
        let sampling = Sampling::new().frequency(frequency).start().expect("main started one");
        let kib = [before, step(), step(), step()];
        barrier.wait();
        drop(sampling);
        kib
    });
    let kib = kib.into_iter().collect::<Option<Vec<u64>>>()?;
    let names = [
        format!("private memory that sampling adds to each of {LIVE} threads"),
        format!("the same, by {CALLS} further calls at {frequency} Hz"),
        "the same, by as many calls again".into(),
    ];
    let added = kib.windows(2).map(|kib| (kib[1] as f64 - kib[0] as f64) / LIVE as f64);
    Some(names.into_iter().zip(added).map(|(name, added)| Row::new(name, "KiB", vec![added])).collect())
}

fn main() -> io::Result<()> {
    perfmark::disable_report();
    for (name, sampling, _) in CONTENDERS {
        if let Some(Err(why)) = sampling().map(Sampling::start) {
            println!("skipped: {name}: {why}");
            return Ok(());
        }
    }
    let mut rows = of_calls();
    rows.extend(compare("a thread", "µs", 1, &|at| threads(CONTENDERS[at].1)));
    rows.extend(of_periods());
    rows.extend(memory().into_iter().flatten());
    let event = perfmark::snapshot().samples.into_iter().next().map_or_else(String::new, |samples| samples.event);
    let caption = format!(
        "Samples of {event}. {ROUNDS} interleaved rounds. A call: CPU time of {CALLS} calls of a function with\n\
         `#[perfmark(time)]` on a new thread. A thread: median of {THREADS} that are created, make {CALLS_OF_THREAD}\n\
         such calls, and are joined. Private memory does not contain the kernel's ring."
    );
    println!("{caption}\n\n{}", row::text(&rows));
    if env::args().any(|argument| argument == "--record") {
        let title = "Sampling: `taskset -c 0 cargo bench -p benches --features sampling --bench sampling -- --record`";
        let body = format!("{caption}\n\n{}", row::markdown(&rows));
        println!("recorded in {}", record::write("sampling", title, &body)?.display());
    }
    Ok(())
}
