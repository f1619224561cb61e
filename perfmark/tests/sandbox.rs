//! Sandboxes that kill at the first forbidden system call. A program that opens no counters, or has finished recording,
//! survives their filter.
//!
//! Each scenario is this program, started again with `PERFMARK_TEST_SCENARIO`.

mod executor;
mod program;
#[path = "../../perfmark-rdpmc/tests/seccomp/mod.rs"]
mod seccomp;
#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

use std::ffi::c_void;
use std::hint::black_box;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::pin::pin;
use std::process::Output;
use std::time::{Duration, Instant};
use std::{env, fs, io, ptr, thread};

use executor::{once, yield_now};
use perfmark::{Filter, perfmark};
use perfmark_rdpmc::{Attr, Counter, Software};
use program::threads::{self, reach, step, wait_for};
use program::{SCENARIO, assert_code, command, ending, file, mark, scenario, text};
use seccomp::{Call, install, only};
use serde_json::Value;

fn main() {
    if let Ok(scenario) = env::var(SCENARIO) {
        return run_scenario(&scenario);
    }
    let tests: &[(&str, fn())] = &[
        ("the_filter_of_these_tests_kills_a_program_that_opens_a_counter", the_filter_kills_a_program),
        ("perfmark_events_time_opens_no_counter", perfmark_events_time_opens_no_counter),
        ("disable_counters_opens_none", disable_counters_opens_none),
        #[cfg(feature = "sampling")]
        ("threads_are_not_sampled_after_disable_counters", threads_are_not_sampled),
        ("a_late_disable_counters_returns_false", a_late_disable_counters_returns_false),
        ("after_finish_marks_and_exit_make_no_system_call", after_finish_there_is_no_system_call),
        ("after_finish_a_threads_calls_and_its_end_make_no_system_call", after_finish_of_threads),
        ("finish_reports_once_what_was_recorded_until_then", finish_reports_once),
        #[cfg(feature = "sampling")]
        ("finish_reports_the_samples_of_the_calling_thread_until_then", finish_reports_samples),
        ("finish_waits_for_other_threads_first_calls_and_loses_no_report", finish_beside_first_calls),
        ("finish_does_nothing_where_perfmark_is_off", finish_does_nothing_where_off),
    ];
    support::run(tests.iter().map(|&(name, test)| support::trial(name, test)).collect(), &[])
}

// The marked functions.

#[perfmark]
fn bare() {
    black_box(());
}

#[perfmark(cycles, instructions)]
fn hardware() {
    black_box(());
}

#[perfmark(page_faults)]
fn software() {
    black_box(());
}

/// Runs `inside` in the middle of a call.
#[perfmark(time, page_faults)]
fn around(inside: impl FnOnce()) {
    inside();
}

#[perfmark(time)]
fn first_called_after_the_end() {
    black_box(());
}

#[perfmark(page_faults, generic)]
fn generic<T: Default>() -> T {
    T::default()
}

#[perfmark(time, page_faults)]
async fn polled() {
    yield_now().await;
}

/// The future has no room for the cost of so many events, so it is in memory of its own.
#[perfmark(time, page_faults, minor_faults, major_faults, task_clock)]
async fn of_many_events() {
    polled().await;
}

/// Calls `finish` in its first poll.
#[perfmark(time, page_faults)]
async fn finishing(finish: fn()) {
    finish();
    yield_now().await;
}

fn call_all() {
    bare();
    hardware();
    software();
    around(|| ());
    generic::<u8>();
    perfmark::region!("region", context_switches, { black_box(()) });
}

/// The marks that [`call_all`] calls, once each.
const CALLED: &[&str] = &["bare", "hardware", "software", "around", "generic<u8>", "region"];

// The scenarios.

fn run_scenario(scenario: &str) {
    match scenario {
        "calls" => call_everywhere(),
        "asked in code" => {
            println!("{}", perfmark::disable_counters());
            call_everywhere();
        }
        "asked late" => {
            software();
            println!("{}", perfmark::disable_counters());
            install(&kills_at_open(), ALL_THREADS).expect("a filter");
            call_everywhere();
        }
        #[cfg(feature = "sampling")]
        "sampled before" => is_sampled_before(),
        "finishes" => finishes(),
        "finishes beside a thread" => finishes_beside_a_thread(thread),
        #[cfg(feature = "sampling")]
        "finishes beside a sampled thread" => finishes_beside_a_thread(sampled_thread),
        #[cfg(feature = "sampling")]
        "finishes sampled" => finishes_sampled(),
        "finishes twice" => finishes_twice(),
        "finishes beside first calls" => finishes_beside_first_calls(),
        _ => panic!("no scenario {scenario}"),
    }
}

fn call_everywhere() {
    call_all();
    thread::spawn(call_all).join().expect("does not panic");
    assert!(perfmark::measure(&["page-faults"], || ()).is_err());
    perfmark::set_filter(&Filter::default().events("*::bare", &["task-clock"]).expect("an event"))
        .expect("slots for settings");
    bare();
    perfmark::set_filter(&Filter::default()).expect("slots for settings");
    #[cfg(feature = "sampling")]
    assert!(perfmark::Sampling::new().start().is_err_and(|why| why.to_string().contains("counters")));
    call_all();
}

/// Threads that begin while the program is sampled have no samples any more.
#[cfg(feature = "sampling")]
fn is_sampled_before() {
    // SAFETY: it takes no pointers; the signal ends a program in which the reason is never given.
    unsafe { libc::alarm(60) };
    let _sampling = match perfmark::Sampling::new().start() {
        Ok(sampling) => sampling,
        Err(why) => return println!("not sampled: {why}"),
    };
    assert!(!perfmark::disable_counters());
    install(&kills_at_open(), ALL_THREADS).expect("a filter");
    let says_why = || perfmark::snapshot().samples.iter().any(|samples| samples.why_without.is_some());
    thread::spawn(move || {
        bare();
        while !says_why() {
            thread::yield_now();
        }
    })
    .join()
    .expect("does not panic");
}

/// System calls of the program itself, between [`perfmark::finish`] and its end.
const ALLOWED: &[Call] = &[only(libc::SYS_exit_group)];

fn finishes() {
    #[cfg(feature = "sampling")]
    let sampling = perfmark::Sampling::new().start();
    call_all();
    let (mut dropped, mut ended) = (pin!(Some(of_many_events())), pin!(polled()));
    assert!(once(dropped.as_mut().as_pin_mut().expect("there")).is_pending());
    assert!(once(ended.as_mut()).is_pending());
    let mut finishing = pin!(finishing(|| {
        perfmark::finish();
        allow(ALLOWED).expect("a filter");
    }));
    around(|| assert!(once(finishing.as_mut()).is_pending()));
    for _ in 0..1_000 {
        call_all();
        first_called_after_the_end();
        generic::<u16>();
    }
    assert!(once(ended.as_mut()).is_ready() && once(finishing.as_mut()).is_ready());
    assert!(once(pin!(polled())).is_pending());
    dropped.set(None);
    #[cfg(feature = "sampling")]
    drop(sampling);
    perfmark::finish();
    // Runs the exit handlers.
    // SAFETY: no other thread calls it.
    unsafe { libc::exit(0) }
}

extern "C" fn thread(_: *mut c_void) -> *mut c_void {
    call_all();
    around(|| {
        reach(1);
        wait_for(2);
    });
    call_all();
    first_called_after_the_end();
    ptr::null_mut()
}

/// Its call has samples when recording ends, the first ones in a call of the thread.
#[cfg(feature = "sampling")]
extern "C" fn sampled_thread(_: *mut c_void) -> *mut c_void {
    bare();
    while perfmark::snapshot().samples.iter().all(|samples| samples.taken() == 0) {}
    around(|| {
        for _ in 0..10_000_000 {
            black_box(());
        }
        reach(1);
        wait_for(2);
    });
    ptr::null_mut()
}

fn finishes_beside_a_thread(work: extern "C" fn(*mut c_void) -> *mut c_void) {
    let id = threads::start(work);
    wait_for(1);
    perfmark::finish();
    let of_a_threads_end = [
        only(libc::SYS_exit),
        only(libc::SYS_futex),
        Call { argument: Some((2, libc::MADV_DONTNEED.cast_unsigned())), ..only(libc::SYS_madvise) },
        Call { argument: Some((0, libc::SIG_BLOCK.cast_unsigned())), ..only(libc::SYS_rt_sigprocmask) },
    ];
    allow(&[ALLOWED, &of_a_threads_end].concat()).expect("a filter");
    reach(2);
    threads::join(id);
    // SAFETY: no other thread calls it.
    unsafe { libc::exit(0) }
}

/// In a call whose samples nothing has noted yet.
#[cfg(feature = "sampling")]
fn finishes_sampled() {
    bare();
    // Until the thread is sampled, or cannot be.
    while perfmark::snapshot().samples.iter().any(|samples| samples.taken() == 0 && samples.why_without.is_none()) {
        black_box(vec![1_u8; 1 << 18]);
    }
    around(|| {
        black_box(vec![1_u8; 1 << 18]);
        perfmark::finish();
    });
}

fn finishes_twice() {
    call_all();
    thread::spawn(call_all).join().expect("does not panic");
    let before = perfmark::snapshot().marks;
    around(|| {
        assert!(once(pin!(finishing(perfmark::finish))).is_pending());
    });
    perfmark::finish();
    // Nothing that comes later is recorded, and recording cannot be turned on again.
    call_all();
    thread::spawn(call_all).join().expect("does not panic");
    perfmark::set_filter(&Filter::default().every("*", 3)).expect("slots for settings");
    call_all();
    perfmark::set_filter(&Filter::default()).expect("slots for settings");
    call_all();
    for (mark, before) in perfmark::snapshot().marks.iter().zip(&before) {
        assert_eq!((&mark.name, mark.calls), (&before.name, before.calls));
        let is_open = ["around", "finishing"].contains(&mark.name.as_str());
        assert!(mark.in_flight <= is_open.into(), "{}: {}", mark.name, mark.in_flight);
    }
    // SAFETY: the child only calls marks, which is allowed there, and exits.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            call_all();
            libc::exit(0);
        }
        program::wait_for(child, 0);
    }
}

/// [`perfmark::finish`] waits no longer than this for other threads' first calls.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Threads start all the time while the program finishes. Each that is still setting itself up must complete that.
fn finishes_beside_first_calls() {
    let threads: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(|| {
                while step() == 0 {
                    // Makes a first call only: no call is in flight when such a thread starts or ends.
                    thread::spawn(bare).join().expect("does not panic");
                }
            })
        })
        .collect();
    thread::spawn(bare).join().expect("does not panic");
    let begun = Instant::now();
    perfmark::finish();
    // If it returned earlier, no thread was in its first call any more. Otherwise a busy machine delayed one.
    if begun.elapsed() < TIMEOUT {
        install(&kills_at_open(), ALL_THREADS).expect("a filter");
    } else {
        println!("finish() may have given up waiting");
    }
    reach(1);
    for thread in threads {
        thread.join().expect("does not panic");
    }
}

// The filters.

/// Installs a filter for all threads of the process.
const ALL_THREADS: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_TSYNC;

/// A filter that kills the process with all its threads at `perf_event_open(2)`.
fn kills_at_open() -> Vec<libc::sock_filter> {
    seccomp::program(&[only(libc::SYS_perf_event_open)], libc::SECCOMP_RET_KILL_PROCESS, libc::SECCOMP_RET_ALLOW)
}

/// From now on, all other calls do.
fn allow(calls: &[Call]) -> io::Result<()> {
    install(&seccomp::program(calls, libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_KILL_PROCESS), ALL_THREADS)
}

/// Runs a scenario under a filter that kills it at `perf_event_open(2)`, from its start to its end. If no filter
/// can be installed, prints the reason and returns `None`.
fn sandboxed(scenario: &str, variables: &[(&str, &str)]) -> Option<Output> {
    let filter = kills_at_open();
    let mut command = command(&env::current_exe().expect("known"), scenario, variables);
    command.env("PERFMARK_FORMAT", "json");
    // SAFETY: it only calls the kernel.
    unsafe { command.pre_exec(move || install(&filter, ALL_THREADS)) };
    match command.output() {
        Ok(output) => Some(output),
        Err(why) => {
            println!("skipped: no filter of system calls can be installed here: {why}");
            None
        }
    }
}

// The tests.

fn the_filter_kills_a_program() {
    if let Err(why) = Counter::open(&Attr::new(Software::PageFaults)) {
        return println!("skipped: no counter can be opened here: {why}");
    }
    let Some(output) = sandboxed("calls", &[]) else { return };
    assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{}", ending(&output));
}

fn report(output: &Output) -> Value {
    assert_code(output, 0);
    serde_json::from_slice(&output.stderr).expect("a report")
}

/// Checks that each mark has time and nothing else, and the reason.
fn records_time_only(report: &Value, why: &str) {
    for name in CALLED {
        let mark = mark(report, name);
        let values = mark["values"].as_object().expect("a map");
        assert_eq!(values.keys().collect::<Vec<_>>(), ["time"], "{name}");
        assert_eq!((&values["time"]["measured"], &values["time"]["unmeasured"]), (&mark["calls"], &0.into()));
    }
    for event in report["events"].as_array().expect("a list").iter().filter(|event| event["name"] != "time") {
        assert_eq!((&event["read"], event["reason"].as_str()), (&"none".into(), Some(why)), "{event}");
    }
    assert!(report["events"].as_array().expect("a list").iter().any(|event| event["name"] == "page-faults"));
}

fn perfmark_events_time_opens_no_counter() {
    for (events, sample) in [("time", ""), (" time,time", "99")] {
        let variables = [("PERFMARK_EVENTS", events), ("PERFMARK_SAMPLE", sample)];
        let Some(output) = sandboxed("calls", &variables) else { return };
        assert_code(&output, 0);
        records_time_only(&report(&output), "PERFMARK_EVENTS=time opens no counters");
    }
}

fn disable_counters_opens_none() {
    for sample in ["", "99"] {
        let Some(output) = sandboxed("asked in code", &[("PERFMARK_SAMPLE", sample)]) else { return };
        assert_code(&output, 0);
        assert_eq!(text(&output.stdout), "true\n", "{}", text(&output.stderr));
        records_time_only(&report(&output), "perfmark::disable_counters() was called");
    }
}

#[cfg(feature = "sampling")]
fn threads_are_not_sampled() {
    let output = scenario("sampled before", &[]);
    assert_code(&output, 0);
    print!("{}", text(&output.stdout));
}

fn a_late_disable_counters_returns_false() {
    let output = scenario("asked late", &[("PERFMARK_FORMAT", "json")]);
    let software = mark(&report(&output), "software").clone();
    assert_eq!(software["calls"], 4);
    match Counter::open(&Attr::new(Software::PageFaults)) {
        Ok(_) => {
            assert_eq!(text(&output.stdout), "false\n");
            // The counter that was open keeps counting.
            assert_eq!(software["values"]["page-faults"]["measured"], 3, "{software}");
        }
        // The target has no counters, or does not allow opening one.
        Err(why) => println!("skipped: no counter can be opened here: {why}"),
    }
}

fn after_finish_there_is_no_system_call() {
    nothing_after_finish(&[]);
    if cfg!(feature = "sampling") {
        nothing_after_finish(&[("PERFMARK_SAMPLE", "99")]);
    }
}

fn nothing_after_finish(others: &[(&str, &str)]) {
    let path = file("finished");
    let variables = [("PERFMARK_OUTPUT", path.to_str().expect("UTF-8")), ("PERFMARK_FORMAT", "json")];
    let output = scenario("finishes", &[&variables, others].concat());
    assert_code(&output, 0);
    let report: Value = serde_json::from_slice(&fs::read(&path).expect("written")).expect("JSON");
    for name in CALLED {
        assert_eq!(mark(&report, name)["calls"], 1, "{name}");
    }
    assert_eq!(mark(&report, "around")["in_flight"], 1);
    for (name, in_flight) in [("polled", 2), ("of_many_events", 1), ("finishing", 1)] {
        assert_eq!(mark(&report, name)["in_flight"], in_flight, "{name}");
    }
    fs::remove_file(path).expect("there");
}

fn after_finish_of_threads() {
    let beside = |what: &str, sample: &str| {
        let variables = [("PERFMARK_FORMAT", "json"), ("PERFMARK_SAMPLE", sample)];
        let report = report(&scenario(&format!("finishes beside a {what}"), &variables));
        assert_eq!((&mark(&report, "bare")["calls"], &mark(&report, "around")["in_flight"]), (&1.into(), &1.into()));
    };
    beside("thread", "");
    if cfg!(feature = "sampling") {
        beside("sampled thread", "997");
    }
}

fn finish_reports_once() {
    let output = scenario("finishes twice", &[("PERFMARK_FORMAT", "json")]);
    // One report, or it would not be valid JSON.
    let report = report(&output);
    for name in CALLED {
        assert_eq!(mark(&report, name)["calls"], 2, "{name}");
    }
    for name in ["around", "finishing"] {
        assert_eq!(mark(&report, name)["in_flight"], 1, "{name}");
    }
    assert!(report["cpu_ns"].is_u64(), "as of a report at exit: {}", report["cpu_ns"]);
}

#[cfg(feature = "sampling")]
fn finish_reports_samples() {
    let output = scenario("finishes sampled", &[("PERFMARK_FORMAT", "json"), ("PERFMARK_SAMPLE", "page_faults:1")]);
    let stderr = text(&output.stderr);
    if let Some((_, why)) = stderr.split_once("PERFMARK_SAMPLE has no effect") {
        return println!("skipped: no samples can be taken here{why}");
    }
    let report = report(&output);
    let around = report["marks"].as_array().expect("a list").iter().position(|mark| mark["name"] == "around");
    let paths = report["samples"][0]["paths"].as_array().unwrap_or_else(|| panic!("no samples: {stderr}"));
    assert!(paths.iter().any(|path| path["marks"] == serde_json::json!([around])), "{stderr}");
}

fn finish_beside_first_calls() {
    for _ in 0..5 {
        let output = scenario("finishes beside first calls", &[("PERFMARK_FORMAT", "json")]);
        if !output.stdout.is_empty() {
            println!("skipped once, on a busy machine: {}", text(&output.stdout));
        }
        assert!(mark(&report(&output), "bare")["calls"].as_u64() > Some(0));
    }
}

fn finish_does_nothing_where_off() {
    let output = scenario("finishes twice", &[("PERFMARK", "off")]);
    assert_code(&output, 0);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("", ""));
}
