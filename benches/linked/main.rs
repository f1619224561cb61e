//! 10,000 marks that are linked and never called: what they add to the program's private memory, its start and its end.
//!
//! `cargo bench -p benches --bench linked` runs children of its own, which have the marks, and of the program `unmarked`, which has none and does the
//! same, in turn. It prints medians (quartiles) of what each takes, and fails where the medians' difference at the beginning of `main` is more than
//! 3 MiB of private memory, or 10 ms from before the process was made. What a snapshot and the report at exit take it only prints.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, io};

use benches::process::{self, Child};
use benches::table::spread;

/// Ten times what is left of the list in each of ten modules; in the end, a mark.
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
    // One is like another, and looking at all of them takes half a minute.
    #[cfg(clippy)]
    marks! { 10 }
}

const MARKS: usize = 10_000;
/// Of each program.
const RUNS: usize = 40;

const MEMORY_KIB: f64 = 3.0 * 1024.0;
const START_MS: f64 = 10.0;

fn main() -> ExitCode {
    if process::answer() {
        return ExitCode::SUCCESS;
    }
    if process::private_memory().is_none() {
        println!("skipped: this system has no /proc/self/smaps_rollup that tells anonymous memory");
        return ExitCode::SUCCESS;
    }
    match compare() {
        Ok(code) => code,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> io::Result<ExitCode> {
    let linked = perfmark::snapshot().marks.len();
    if linked != MARKS {
        println!("{linked} marks are linked, not {MARKS}");
        return Ok(ExitCode::FAILURE);
    }
    let programs = [env::current_exe()?, PathBuf::from(env!("CARGO_BIN_EXE_unmarked"))];
    let mut runs: [Vec<Child>; 2] = [const { Vec::new() }; 2];
    for run in 0..RUNS {
        for turn in 0..2 {
            // Who is first changes from run to run.
            let which = (run + turn) % 2;
            runs[which].push(Child::run(&programs[which])?);
        }
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "medians (quartiles) of {RUNS} runs of each program, in turn: with {MARKS} marks, without, difference of the medians"
    );
    let tell = |what: &str, of: &dyn Fn(&Child) -> f64| {
        let [with, without] =
            runs.each_ref().map(|runs| spread(&runs.iter().map(of).collect::<Vec<_>>()).unwrap_or([f64::NAN; 3]));
        let cell = |[median, low, high]: [f64; 3]| format!("{median:.2} ({low:.2} to {high:.2})");
        println!("{what:<36} {:>26} {:>26} {:>9.2}", cell(with), cell(without), with[0] - without[0]);
        with[0] - without[0]
    };
    let memory = tell("private memory at main, KiB", &|child| child.memory as f64);
    let start = tell("start until main, ms", &|child| ms(child.start));
    tell("a snapshot, ms", &|child| ms(child.snapshot));
    tell("end, with the report, ms", &|child| ms(child.end));
    // Not `>`: what is not a number is not within a limit.
    let is_within = memory <= MEMORY_KIB && start <= START_MS;
    if !is_within {
        println!("more than {MEMORY_KIB} KiB or {START_MS} ms");
    }
    Ok(if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
