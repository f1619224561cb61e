#[path = "../../../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;
#[path = "../../program/mod.rs"]
mod program;
pub(crate) mod calls;
mod registers;
mod tracer;
mod scenarios;
mod promises;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;

use calls::{Answer, Call, Sees};
use libc::c_int;
use program::SCENARIO;
use promises::{Promises, To};
use tracer::{Fault, Run};

/// Set for a traced scenario: which calls are [seen](Sees).
const TRACED: &str = "PERFMARK_TEST_TRACED";
/// A scenario's status where it cannot be traced.
const SKIPPED: c_int = 77;

/// Runs before all of perfmark, whose first constructor has the number 99.
#[used]
#[unsafe(link_section = ".init_array.00098")]
static FIRST: extern "C" fn() = {
    extern "C" fn first() {
        let Ok(seen) = env::var(TRACED) else { return };
        if let Err(why) = tracer::be_traced().and_then(|()| calls::filter(Sees::from_value(&seen))) {
            eprintln!("skipped: the program cannot be traced here: {why}");
            // SAFETY: it ends the process, which has done nothing yet.
            unsafe { libc::_exit(SKIPPED) };
        }
    }
    first
};

#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    if let Ok(scenario) = env::var(SCENARIO) {
        scenarios::run(&scenario);
        return 0;
    }
    let mut tests = Vec::new();
    // Runs are slow in the emulator, and scenarios without hardware events are the same anywhere.
    let are_few = support::is_emulated();
    for promises in promises::ALL.iter().filter(|promises| promises.has_hardware || !are_few) {
        let name = format!("each_system_call_fails_in_turn_{}", promises.scenario);
        tests.push(support::trial(&name, || each_call_fails(promises)));
        if promises.reads_events {
            let name = format!("reads_of_events_fail_in_turn_{}", promises.scenario);
            tests.push(support::trial(&name, || reads_of_events_fail(promises)));
        }
    }
    tests.push(support::trial("a_program_may_enter_a_sandbox_at_any_time", a_program_may_enter_a_sandbox_at_any_time));
    support::run(tests, &[])
}

/// Runs of one scenario, in a directory of its own.
struct Runs {
    promises: &'static Promises,
    directory: PathBuf,
    sees: Sees,
    /// A run in which nothing fails.
    baseline: Run,
    /// How often each kind of call failed, and how often it failed for good.
    failed: BTreeMap<&'static str, (u32, u32)>,
    /// Runs in which a promise was not kept. Each was reported.
    broken: usize,
}

impl Runs {
    /// None if programs cannot be traced.
    fn new(promises: &'static Promises, reads: bool) -> Option<Self> {
        let directory = program::file(&format!("injection-{}-{reads}", promises.scenario));
        let sees = Sees { reads, threads: promises.has_own_threads };
        let mut runs = Self { promises, directory, sees, baseline: Run::default(), failed: BTreeMap::new(), broken: 0 };
        let baseline = runs.run(None);
        if libc::WIFEXITED(baseline.status) && libc::WEXITSTATUS(baseline.status) == SKIPPED {
            print!("{}", baseline.stderr);
            return None;
        }
        promises.are_kept_in(&baseline, None, &runs.directory);
        runs.baseline = baseline;
        Some(runs)
    }

    fn run(&self, fault: Option<Fault>) -> Run {
        tracer::run(&mut self.command(), fault)
    }

    /// The command of the scenario, with its directory prepared.
    fn command(&self) -> Command {
        _ = fs::remove_dir_all(&self.directory);
        fs::create_dir(&self.directory).expect("a directory");
        let report = self.directory.join(promises::REPORT);
        let seen = self.sees.to_value();
        let mut variables = vec![
            ("PERFMARK_FORMAT", "json"),
            (TRACED, &seen),
            (scenarios::DIRECTORY, self.directory.to_str().expect("UTF-8")),
            // The heap uses brk(2) only, so that no mapping belongs to it.
            ("GLIBC_TUNABLES", "glibc.malloc.arena_max=1:glibc.malloc.mmap_max=0"),
        ];
        match self.promises.to {
            To::Stderr => {}
            To::Stdout => variables.push(("PERFMARK_OUTPUT", "-")),
            To::File => {
                fs::write(&report, promises::OLDER).expect("written");
                variables.push(("PERFMARK_OUTPUT", report.to_str().expect("UTF-8")));
            }
        }
        variables.extend(self.promises.variables);
        let program = env::current_exe().expect("known");
        program::command(&program, self.promises.scenario, &variables)
    }

    /// Makes the n-th call fail. Returns None if there was none.
    fn fail(&mut self, fault: Fault) -> Option<&'static Call> {
        let run = self.run(Some(fault));
        let (call, _) = run.failed?;
        let count = self.failed.entry(call.name).or_default();
        *(if fault.for_good { &mut count.1 } else { &mut count.0 }) += 1;
        let kept = || self.promises.are_kept_in(&run, Some((fault, &self.baseline)), &self.directory);
        self.broken += usize::from(catch_unwind(AssertUnwindSafe(kept)).is_err());
        Some(call)
    }

    /// Makes the n-th call fail in each way that it can. Makes it fail for good, too, if it is of another kind than the
    /// call `before`. Returns None if there was none.
    fn fail_each_way(&mut self, nth: usize, before: Option<&Call>) -> Option<&'static Call> {
        let call = self.fail(Fault { nth, answer: 0, for_good: false })?;
        for answer in 1..call.answers.len() {
            self.fail(Fault { nth, answer, for_good: false });
        }
        let is_another = before.is_none_or(|before| before.name != call.name);
        if self.promises.ends() && is_another && matches!(call.answers[0], Answer::Fails(_)) {
            self.fail(Fault { nth, answer: 0, for_good: true });
        }
        Some(call)
    }

    fn print_result(&self) {
        let counts: Vec<String> =
            self.failed.iter().map(|(name, (once, for_good))| format!("{name} {once}+{for_good}")).collect();
        let sum = self.failed.values().map(|(once, for_good)| once + for_good).sum::<u32>();
        println!(
            "{}: {sum} runs; calls that failed, once + from then on: {}",
            self.promises.scenario,
            counts.join(", ")
        );
        _ = fs::remove_dir_all(&self.directory);
        assert_eq!(self.broken, 0, "runs in which a promise was not kept");
    }
}

fn each_call_fails(promises: &'static Promises) {
    let Some(mut runs) = Runs::new(promises, false) else { return };
    let (mut nth, mut before) = (0, None);
    while let Some(call) = runs.fail_each_way(nth, before) {
        (nth, before) = (nth + 1, Some(call));
    }
    assert!(nth >= 20, "{nth} calls are not all");
    runs.print_result();
}

/// perfmark measures its overhead by thousands of reads. All of the first few fail in turn, and some of the others from
/// all over the run.
fn reads_of_events_fail(promises: &'static Promises) {
    const FIRST: usize = 8;
    const OTHERS: usize = 12;
    let Some(mut runs) = Runs::new(promises, true) else { return };
    let calls = runs.baseline.calls.iter().enumerate();
    let reads: Vec<usize> = calls.filter(|(_, call)| call.is_read_of_event()).map(|(nth, _)| nth).collect();
    let every = if env::var_os("PERFMARK_TEST_ALL_READS").is_some() { 1 } else { reads.len() / OTHERS + 1 };
    let (first, others) = reads.split_at(reads.len().min(FIRST));
    for &nth in first.iter().chain(others.iter().step_by(every)) {
        runs.fail_each_way(nth, None);
    }
    runs.print_result();
}

/// The program itself installs a filter, for good, as services do when they are set up.
fn a_program_may_enter_a_sandbox_at_any_time() {
    let Some(runs) = Runs::new(promises::SANDBOX, false) else { return };
    for errno in [libc::EPERM, libc::ENOSYS] {
        for step in 0..scenarios::STEPS {
            let mut command = runs.command();
            command.env(scenarios::STEP, step.to_string()).env(scenarios::ERRNO, errno.to_string());
            promises::SANDBOX.are_kept_in(&tracer::run(&mut command, None), None, &runs.directory);
        }
    }
    println!("sandbox: entered at each of {} steps, with EPERM and ENOSYS", scenarios::STEPS);
    _ = fs::remove_dir_all(&runs.directory);
}
