//! Everything that may happen to a program, combined with two ways in which it may end, or at full length with every
//! one: no crash, no hang, no call lost or invented, no descriptor left open.
//!
//! Each trial is this program, started again. It counts its marked calls itself, in a file. The test compares the file
//! with the report, or with the last dump where an ending leaves no report.

#[path = "../../../perfmark-rdpmc/tests/child/mod.rs"]
mod child;
mod crowds;
#[path = "../executor/mod.rs"]
mod executor;
mod endings;
mod ledger;
mod libraries;
mod limits;
mod machine;
mod contexts;
#[path = "../../../perfmark-rdpmc/tests/process/mod.rs"]
mod process;
mod processes;
#[path = "../project/mod.rs"]
mod project;
#[path = "../program/mod.rs"]
mod program;
#[path = "../../../perfmark-rdpmc/tests/seccomp/mod.rs"]
mod seccomp;
#[path = "../../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;
mod trials;
mod versions;

use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use endings::ENDINGS;
use ledger::{BUSY, Function, count, folder};
use perfmark::{Dumps, Format, perfmark};
use program::SCENARIO;

/// What happens to a program.
struct Fault {
    name: &'static str,
    run: fn(),
    /// Whether other threads make calls at the same time.
    is_beside_threads: bool,
}

const FAULTS: &[Fault] = &[
    alone("nothing", || {}),
    alone("a_fork", processes::forks),
    beside("a_fork_beside_threads", processes::forks),
    alone("a_fork_in_a_call", processes::forks_in_a_call),
    alone("a_fork_in_a_poll", processes::forks_in_a_poll),
    beside("a_bare_clone", processes::clones),
    beside("programs_started", processes::starts_programs),
    alone("a_daemon", processes::becomes_a_daemon),
    beside("threads_that_come_and_go", limits::threads_come_and_go),
    alone("no_descriptor_left", limits::no_descriptor_left),
    alone("a_filter_of_system_calls", limits::filtered),
    beside("other_cpus", limits::moves_between_cpus),
    beside("panics", contexts::panics),
    beside("panics_in_destructors", contexts::panics_in_destructors),
    beside("signal_handlers", contexts::signal_handlers),
    beside("thread_locals_destructors", contexts::thread_locals_destructors),
    beside("exit_handlers", contexts::exit_handlers),
    beside("a_marked_allocator", contexts::marked_allocator),
    beside("deep_recursion", contexts::deep_recursion),
    beside("libraries_with_their_own_perfmark", libraries::opens_two),
    beside("libraries_that_come_and_go", libraries::come_and_go),
];

/// Only where settings of the machine may be changed.
const CHANGES: &[Fault] = &[
    alone("paranoid_raised", machine::paranoid_is_raised),
    beside("a_cpu_that_goes_offline_and_online", machine::a_cpu_goes_offline_and_online),
];

/// Not combined with endings, as they take long.
const CROWDS: &[Fault] = &[
    alone("many_threads_over_time", crowds::over_time),
    alone("a_thousand_threads_at_once", crowds::at_once),
    alone("many_calls_in_an_allocator", crowds::in_an_allocator),
    alone("many_calls_in_signal_handlers", crowds::in_signal_handlers),
    alone("many_calls_in_thread_locals_destructors", crowds::in_thread_locals_destructors),
];

const fn alone(name: &'static str, run: fn()) -> Fault {
    Fault { name, run, is_beside_threads: false }
}

const fn beside(name: &'static str, run: fn()) -> Fault {
    Fault { name, run, is_beside_threads: true }
}

fn main() -> ExitCode {
    match env::var(SCENARIO) {
        Ok(scenario) if scenario == processes::INHERITS => processes::inherits(),
        Ok(scenario) if scenario == libraries::SWITCHED_OFF => libraries::switched_off(),
        Ok(scenario) => run_scenario(&scenario),
        Err(_) => trials::run(),
    }
}

fn run_scenario(scenario: &str) -> ExitCode {
    let (fault, ending) = scenario.split_once('/').expect("a fault and an ending");
    let fault = FAULTS.iter().chain(CHANGES).chain(CROWDS).find(|known| known.name == fault).expect("a fault");
    let ending = ENDINGS.iter().find(|known| known.name == ending).expect("an ending");
    let pid = std::process::id();
    // SAFETY: it takes no pointers; the program ends with the test that started it, however that ends.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    ledger::begin(false);
    (0..CALLS).for_each(work);
    if fault.is_beside_threads {
        begin_others();
    }
    (fault.run)();
    if !fault.is_beside_threads {
        begin_others();
    }
    (0..CALLS).for_each(work);
    let dump = if pid == std::process::id() { "dump".into() } else { format!("dump.{}", std::process::id()) };
    endings::end(ending, &folder().join(dump))
}

/// Calls of `work` by the program before and after the fault, and by each of its threads.
const CALLS: u64 = 100;

/// Starts threads that call `busy`, one that waits in a call, and one that writes dumps all the time. They run until
/// the program ends.
fn begin_others() {
    let (begun, has_begun) = mpsc::channel();
    for _ in 0..BUSY {
        let begun = begun.clone();
        thread::spawn(move || {
            busy(0);
            begun.send(()).expect("main listens");
            loop {
                busy(3);
                thread::yield_now();
            }
        });
    }
    thread::spawn(move || waits(&begun));
    (0..=BUSY).for_each(|_| has_begun.recv().expect("they begin"));
    let dumps = Dumps::new(folder().join("dump")).format(Format::Json).every(Duration::from_millis(1));
    std::mem::forget(dumps.start().expect("a thread"));
}

/// Runs it on that many threads at once. Returns when the last of their destructors has run.
fn on_threads(count: u64, run: impl Fn() + Copy + Send + 'static) {
    let threads: Vec<_> = (0..count).map(|_| thread::spawn(run)).collect();
    for thread in threads {
        thread.join().expect("does not panic");
    }
}

#[perfmark(time, page_faults, instructions)]
fn work(n: u64) {
    let _counted = count(Function::work);
    black_box((0..n % 8).sum::<u64>());
}

/// Has that many calls inside it.
#[perfmark(time)]
fn busy(inside: u64) {
    let _counted = count(Function::busy);
    if inside > 0 {
        busy(black_box(inside - 1));
    }
}

#[perfmark(time, task_clock)]
fn waits(begun: &mpsc::Sender<()>) {
    let _counted = count(Function::waits);
    begun.send(()).expect("main listens");
    loop {
        thread::park();
    }
}

/// Has that many calls inside it, more than perfmark has frames for.
#[perfmark(time)]
fn deep(inside: u64) {
    let _counted = count(Function::deep);
    if inside > 0 {
        deep(black_box(inside - 1));
    }
}

/// Like `waits`, it does something that does not return.
#[perfmark(time, page_faults)]
fn leaves<R>(away: impl FnOnce() -> R) -> R {
    away()
}

#[perfmark(time, page_faults)]
fn unwinds() {
    let _counted = count(Function::unwinds);
    std::panic::resume_unwind(Box::new("as asked"));
}

#[perfmark(time, page_faults)]
fn handles() {
    let _counted = count(Function::handles);
    black_box(());
}
