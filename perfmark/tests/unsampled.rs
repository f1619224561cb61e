//! What cannot be sampled: the program continues, and its table says how much is missing and why.
//!
//! Each scenario is this program, started again with `PERFMARK_TEST_SCENARIO` and `PERFMARK_SAMPLE`.

mod program;
#[path = "../../perfmark-rdpmc/tests/seccomp/mod.rs"]
mod seccomp;
#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::sync::{Barrier, LazyLock};
use std::thread::Builder;
use std::{env, fs, process, thread};

use perfmark::perfmark;
use program::machine::{self, NOBODY, ParanoidLevel};
use program::{SCENARIO, assert_code, text};

fn main() {
    if let Ok(scenario) = env::var(SCENARIO) {
        return run_scenario(&scenario);
    }
    let tests: &[(&str, fn())] = &[
        ("a_filter_of_system_calls_is_the_reason_why_nothing_is_sampled", filtered),
        ("a_limit_of_descriptors_is_the_reason_why_most_of_1200_threads_are_not_sampled", few_descriptors),
        ("a_main_thread_that_has_ended_is_not_one_that_could_not_be_sampled", ended_main_thread),
        ("a_thread_that_ends_soon_is_counted_once", short_threads),
        ("a_thread_whose_descriptor_the_program_closed_is_sampled_again", closed_descriptors),
        ("locked_memory_is_the_reason_why_most_of_1200_threads_are_not_sampled", no_locked_memory),
        ("the_paranoid_level_is_the_reason_why_nothing_is_sampled", paranoid),
        ("an_event_that_cannot_be_sampled_is_left_out_with_its_reason", one_of_two),
        ("a_program_that_is_executed_is_sampled_anew", executed),
        ("a_daemon_that_was_forked_before_its_first_call_says_that_it_is_not_sampled", daemon),
    ];
    support::run(tests.iter().map(|&(name, test)| support::trial(name, test)).collect(), &[])
}

#[perfmark(time)]
fn work() {}

// The scenarios.

fn run_scenario(scenario: &str) {
    // SAFETY: it takes no pointers; the signal ends a program that waits in vain.
    unsafe { libc::alarm(120) };
    match scenario {
        "filtered" => {
            seccomp::refuse(&[libc::SYS_perf_event_open], libc::EPERM).expect("a filter");
            work();
        }
        "few descriptors" => {
            lower(libc::RLIMIT_NOFILE, DESCRIPTORS);
            crowd(THREADS - DESCRIPTORS / 2);
        }
        "main thread ends" => {
            fill();
            thread::spawn(|| {
                while event_descriptors().len() >= SAMPLED_THREADS {
                    thread::yield_now();
                }
                process::exit(0);
            });
            // SAFETY: only this thread ends, which owns nothing that others use.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        "short threads" => {
            fill();
            (0..SHORT_THREADS).for_each(|_| thread::spawn(work).join().expect("no panic"));
            let samples = perfmark::snapshot().samples;
            let threads = samples.iter().map(|samples| samples.threads_without + samples.threads_too_short);
            println!("{} threads", threads.sum::<u64>());
        }
        "closes descriptors" => {
            work();
            thread::spawn(stay);
            while event_descriptors().len() < 2 {
                thread::yield_now();
            }
            for number in event_descriptors() {
                // SAFETY: nothing of the program's uses it.
                unsafe { libc::close(number) };
            }
            // The main thread, which calls marks, has its ring without a descriptor.
            while event_descriptors().is_empty() {
                thread::yield_now();
            }
        }
        "no locked memory" => {
            become_nobody();
            lower(libc::RLIMIT_MEMLOCK, 0);
            crowd(1);
        }
        "nobody" => {
            become_nobody();
            work();
        }
        "works" => work(),
        "executes" => {
            work();
            let mut next = program::command(&env::current_exe().expect("known"), "executed", &[SAMPLED]);
            panic!("{}", next.exec());
        }
        "daemon" => {
            // SAFETY: this process has one thread.
            match unsafe { libc::fork() } {
                0 => work(),
                child => program::wait_for(child, 0),
            }
        }
        "executed" => {
            println!("{} events", event_descriptors().len());
            work();
        }
        _ => panic!("no scenario {scenario}"),
    }
}

/// The threads that are sampled when no other one can be, with the main thread.
const SAMPLED_THREADS: usize = 16;
const SHORT_THREADS: usize = 500;
const DESCRIPTORS: u64 = 128;
/// With the main thread.
const THREADS: u64 = 1_201;

fn lower(resource: libc::__rlimit_resource_t, to: u64) {
    // SAFETY: the limit is live.
    assert_eq!(unsafe { libc::setrlimit(resource, &libc::rlimit { rlim_cur: to, rlim_max: to }) }, 0);
}

/// Gives up root's rights.
fn become_nobody() {
    // SAFETY: it takes no pointers. The program has one thread.
    unsafe { libc::setuid(NOBODY) };
}

/// Waits until that many threads could not be sampled, or nothing can be.
fn until_without(threads: u64) {
    let is_sampled = || perfmark::snapshot().samples.iter().all(|samples| samples.threads_without < threads);
    while !perfmark::snapshot().samples.is_empty() && is_sampled() {
        thread::yield_now();
    }
}

/// Calls the mark on all threads at once, until that many could not be sampled.
fn crowd(without: u64) {
    work();
    let end: &Barrier = Box::leak(Box::new(Barrier::new(usize::try_from(THREADS).expect("few"))));
    let thread = || {
        work();
        end.wait();
        work();
    };
    let threads = (1..THREADS).map(|_| Builder::new().stack_size(1 << 16).spawn(thread).expect("a thread"));
    let threads: Vec<_> = threads.collect();
    until_without(without);
    end.wait();
    for thread in threads {
        thread.join().expect("no panic");
    }
}

/// Has as many threads sampled as the limit of descriptors allows from then on. The main thread calls no mark.
fn fill() {
    let thread = || {
        work();
        stay();
    };
    (1..SAMPLED_THREADS).for_each(|_| drop(thread::spawn(thread)));
    while event_descriptors().len() < SAMPLED_THREADS {
        thread::yield_now();
    }
    lower(libc::RLIMIT_NOFILE, 2 * SAMPLED_THREADS as u64);
}

fn stay() {
    loop {
        thread::park();
    }
}

fn event_descriptors() -> Vec<i32> {
    let descriptors = fs::read_dir("/proc/thread-self/fd").expect("listed").flatten();
    let is_event = |path: &Path| fs::read_link(path).is_ok_and(|file| file.to_string_lossy().contains("perf_event"));
    let events = descriptors.filter(|descriptor| is_event(&descriptor.path()));
    events.filter_map(|event| event.file_name().to_str()?.parse().ok()).collect()
}

// The tests.

const SAMPLED: (&str, &str) = ("PERFMARK_SAMPLE", "99");

/// What a scenario prints, and its table without line breaks. `None` if nothing can be sampled here, whose reason
/// is printed.
fn output(scenario: &str, variables: &[(&str, &str)]) -> Option<[String; 2]> {
    /// Why nothing can be sampled here. Tests run at the same time.
    static MISSING: LazyLock<Option<String>> =
        LazyLock::new(|| perfmark::Sampling::new().start().err().map(|why| why.to_string()));
    if let Some(why) = &*MISSING {
        println!("skipped: {why}");
        return None;
    }
    let output = program::scenario(scenario, variables);
    assert_code(&output, 0);
    print!("{}", text(&output.stdout));
    let table = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    println!("{table}");
    Some([text(&output.stdout).to_owned(), table])
}

fn table(scenario: &str, variables: &[(&str, &str)]) -> Option<String> {
    output(scenario, variables).map(|[_, table]| table)
}

/// Checks that a table has these words.
#[track_caller]
fn assert_says(table: &str, words: &str) {
    assert!(table.contains(words), "no {words:?} in: {table}");
}

fn filtered() {
    let Some(table) = table("filtered", &[SAMPLED]) else { return };
    assert_says(&table, "PERFMARK_SAMPLE has no effect: ");
    assert_says(&table, "EPERM: a seccomp filter");
}

fn few_descriptors() {
    let Some(table) = table("few descriptors", &[SAMPLED]) else { return };
    let why = "1,137 threads could not be sampled: samples take half of the process's file descriptors; raise \
               `ulimit -n`";
    assert_says(&table, why);
}

fn ended_main_thread() {
    let Some(table) = table("main thread ends", &[SAMPLED]) else { return };
    assert_says(&table, " 1 thread could not be sampled: samples take half");
}

fn short_threads() {
    let Some([printed, _]) = output("short threads", &[SAMPLED]) else { return };
    assert_eq!(printed, format!("{SHORT_THREADS} threads\n"));
}

fn closed_descriptors() {
    output("closes descriptors", &[SAMPLED]);
}

fn no_locked_memory() {
    // SAFETY: it takes no arguments.
    if unsafe { libc::geteuid() } == 0 && !machine::lets_users_count() {
        return println!("skipped: kernel.perf_event_paranoid lets only root count");
    }
    // Each ring takes 129 pages.
    let Some(table) = table("no locked memory", &[("PERFMARK_SAMPLE", "99,stack=65520")]) else { return };
    // Other processes of this user may have taken what the kernel grants without the limit.
    if !table.contains("PERFMARK_SAMPLE has no effect: ") {
        assert_says(&table, " could not be sampled: ");
    }
    assert_says(&table, "EPERM: no locked memory is left");
    assert_says(&table, "; sample fewer bytes of the stack, or raise");
    assert_says(&table, "RLIMIT_MEMLOCK");
}

fn paranoid() {
    if let Some(why) = machine::missing() {
        return println!("skipped: {why}");
    }
    let level = ParanoidLevel::new("3");
    let Some(table) = table("nobody", &[SAMPLED]) else { return };
    drop(level);
    assert_says(&table, "PERFMARK_SAMPLE has no effect: ");
    assert_says(&table, "kernel.perf_event_paranoid is 3");
}

fn one_of_two() {
    if perfmark::Sampling::new().event("cycles").period(100_003).start().is_ok() {
        return println!("skipped: this machine has a PMU");
    }
    let Some(both) = table("works", &[("PERFMARK_SAMPLE", "99,cycles:100003")]) else { return };
    assert_says(&both, ", 99 a second");
    assert_says(&both, "PERFMARK_SAMPLE leaves out cycles:u: ");
    let Some(none) = table("works", &[("PERFMARK_SAMPLE", "cycles:100003,instructions:100003")]) else { return };
    assert_says(&none, "PERFMARK_SAMPLE has no effect: ");
}

fn daemon() {
    let Some(table) = table("daemon", &[SAMPLED]) else { return };
    assert_says(&table, "forked from another, and is not sampled");
}

fn executed() {
    let Some([printed, table]) = output("executes", &[SAMPLED]) else { return };
    assert_says(&table, ", 99 a second");
    assert!(!table.contains("could not be sampled"), "{table}");
    assert_eq!(printed, "0 events\n", "what was open before is closed");
}
