//! The cost of 10,000 marks that are linked and never called, in private memory and in the time of start and exit.
//!
//! `cargo bench -p benches --bench linked` alternately runs child processes of itself, which have the marks, and of the
//! program `unmarked`, which does the same without marks. It prints medians (quartiles) of both.
//!
//! The benchmark fails if at the start of `main` the median difference of two successive runs is above 3 MiB of private
//! memory, or above 10 ms since before the process was created, with a confidence of 97.5 %. The costs of a snapshot
//! and of the report at exit are only printed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, io};

use benches::process::{self, Child};
use benches::table::{cell, confidence, median};

/// Expands the rest of the list in each of ten modules, down to a mark.
macro_rules! marks {
    () => {
        #[perfmark::perfmark(cycles, instructions)]
        pub(super) fn marked() {}
    };
    (10 $($more:tt)*) => {
        mod n0 { marks! { $($more)* } }
        mod n1 { marks! { $($more)* } }
        mod n2 { marks! { $($more)* } }
        mod n3 { marks! { $($more)* } }
        mod n4 { marks! { $($more)* } }
        mod n5 { marks! { $($more)* } }
        mod n6 { marks! { $($more)* } }
        mod n7 { marks! { $($more)* } }
        mod n8 { marks! { $($more)* } }
        mod n9 { marks! { $($more)* } }
    };
}

#[allow(dead_code, reason = "a mark is linked whether its function is called or not")]
mod marks {
    #[cfg(not(clippy))]
    marks! { 10 10 10 10 }
    // All marks are alike, and linting all of them takes half a minute.
    #[cfg(clippy)]
    marks! { 10 }
}

const MARKS: usize = 10_000;
/// Runs of each program.
const RUNS: usize = 40;

const MEMORY_KIB: f64 = 3.0 * 1024.0;
const START_MS: f64 = 10.0;

fn main() -> ExitCode {
    if process::answer() {
        return ExitCode::SUCCESS;
    }
    if process::private_memory().is_none() {
        println!("skipped: /proc/self/smaps_rollup does not report anonymous memory on this system");
        return ExitCode::SUCCESS;
    }
    match compare() {
        Ok(code) => code,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> io::Result<ExitCode> {
    let linked = perfmark::snapshot().marks.len();
    if linked != MARKS {
        println!("{linked} marks are linked, expected {MARKS}");
        return Ok(ExitCode::FAILURE);
    }
    let programs = [env::current_exe()?, PathBuf::from(env!("CARGO_BIN_EXE_unmarked"))];
    let mut runs: [Vec<Child>; 2] = [const { Vec::new() }; 2];
    for run in 0..RUNS {
        for turn in 0..2 {
            // The order alternates between runs.
            let program = (run + turn) % 2;
            runs[program].push(Child::run(&programs[program])?);
        }
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("medians (quartiles) of {RUNS} alternating runs of each program");
    println!("columns: with {MARKS} marks, without marks, difference of the medians");
    let print_row = |name: &str, of: &dyn Fn(&Child) -> f64| {
        let [with, without] = runs.each_ref().map(|runs| runs.iter().map(of).collect::<Vec<_>>());
        let difference = median(&with) - median(&without);
        println!("{name:<36} {:>26} {:>26} {difference:>9.2}", cell(&with, 2), cell(&without, 2));
        let differences: Vec<f64> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
        confidence(&differences).map_or(f64::NAN, |[least, _]| least)
    };
    let memory = print_row("private memory at main, KiB", &|child| child.memory as f64);
    let start = print_row("start until main, ms", &|child| ms(child.start));
    print_row("a snapshot, ms", &|child| ms(child.snapshot));
    print_row("end, with the report, ms", &|child| ms(child.end));
    // Not `>`, because a value that is not a number is not within a limit.
    let is_within = memory <= MEMORY_KIB && start <= START_MS;
    if !is_within {
        println!(
            "the difference is at least {memory:.0} KiB and {start:.2} ms, limits {MEMORY_KIB} KiB and {START_MS} ms"
        );
    }
    Ok(if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
