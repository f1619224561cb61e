//! Executes random scripts of calls on a scripted machine (`--cfg perfmark_scripted`, `ci/proof scripts`), and compares
//! the calls, sums, extremes and call graphs of the report with a naive model.
//!
//! A script has calls of marks in all forms, on several threads: nested, recursive, left by `return` or a panic, polled
//! here and there, dropped. Meanwhile time passes, events occur, the kernel moves events to other counters, takes their
//! counters away, and switches threads. A filter turns marks off and on. Not covered: samples, quantiles, costs of
//! calls in flight, calls that never end or end on another thread, and the instructions of probes.
//!
//! `PERFMARK_TEST_SCRIPTS=N` sets how many scripts are executed. A script depends on those before it in its process, so
//! `PERFMARK_TEST_PART`, which a failure prints, repeats a failure, except within a budget, which depends on the time.
//! `PERFMARK_TEST_TRACE=1` prints each step, and what differs after it.
#![cfg(perfmark_scripted)]

mod compare;
mod marks;
mod model;
mod run;
mod script;

use std::collections::BTreeSet;
use std::env;
use std::ops::RangeInclusive;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use perfmark::private::recording::{all_hooks, reached};

use crate::run::{execute, lock};
use crate::script::Mode;

/// What a process executes: its mode, the first seed, and the last.
const PART: &str = "PERFMARK_TEST_PART";

/// Executes the scripts in another process. Returns the hooks that they reached.
fn execute_part(mode: Mode, seeds: RangeInclusive<u64>) -> Vec<String> {
    let (name, value) = mode.setting();
    let part = format!("{} {} {}", mode as usize, seeds.start(), seeds.end());
    let mut program = Command::new(env::current_exe().expect("it is known"));
    env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PERFMARK")).for_each(|(name, _)| {
        program.env_remove(name);
    });
    let output = program
        .args(["--nocapture", "--exact", "reports_agree_with_the_model"])
        .envs([(name, value), (PART, &part), ("PERFMARK", "on"), ("PERFMARK_OUTPUT", "/dev/null")])
        .output()
        .expect("it runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}={value} {PART}=\"{part}\": {}:\n{stdout}{stderr}", output.status);
    stdout.lines().filter_map(|line| line.strip_prefix("reached: ")).map(str::to_owned).collect()
}

#[test]
fn reports_agree_with_the_model() {
    /// Scripts that one process executes: few, because each comparison takes longer than the one before.
    const PART_SIZE: usize = 100;
    /// Scripts that reach all hooks.
    const ENOUGH: u64 = 500;
    if let Ok(part) = env::var(PART) {
        let numbers: Vec<u64> = part.split(' ').map(|number| number.parse().expect("a number")).collect();
        for seed in numbers[1]..=numbers[2] {
            let differences = execute(seed, Mode::ALL[numbers[0] as usize]);
            assert!(differences.is_empty(), "script {seed}:\n{}", differences.join("\n"));
        }
        reached().iter().for_each(|hook| println!("reached: {hook}"));
        return;
    }
    let count = env::var("PERFMARK_TEST_SCRIPTS").map_or(ENOUGH, |count| count.parse().expect("a number"));
    let seeds = 1..=count;
    let parts: Vec<_> = Mode::ALL
        .into_iter()
        .flat_map(|mode| {
            let starts = seeds.clone().step_by(PART_SIZE);
            let last = *seeds.end();
            starts.map(move |start| (mode, start..=last.min(start + PART_SIZE as u64 - 1)))
        })
        .collect();
    let (parts, all) = (Mutex::new(parts), Mutex::new(BTreeSet::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((mode, seeds)) = { lock(&parts).pop() } {
                    let reached = execute_part(mode, seeds);
                    lock(&all).extend(reached);
                }
            });
        }
    });
    let (hooks, all) = (all_hooks(), lock(&all));
    let missing: Vec<_> = hooks.iter().filter(|hook| !all.contains(*hook)).collect();
    println!("{count} scripts in each of {} modes, {} hooks", Mode::ALL.len(), hooks.len());
    assert!(count < ENOUGH || missing.is_empty(), "no script reached {missing:#?}");
}
