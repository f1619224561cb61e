//! The system calls that perfmark makes, and when. `strace` compares a program with marks with the same program under
//! `PERFMARK=off`. Each additional call is in the list of the guide's chapter on permissions.
//!
//! The program is this one, started again with `PERFMARK_TEST_SCENARIO`. It marks its phases in the trace by writing to
//! descriptor -1.

mod program;
#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::hint::black_box;
use std::path::Path;
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::Duration;
use std::{env, fs, ptr, thread};

use perfmark::{Filter, perfmark};
use perfmark_rdpmc::{Attr, Counter, OffCpu, Software};
use program::threads::{self, reach, step, wait_for};
use program::{SCENARIO, assert_code, command, file, text};

fn main() {
    if let Ok(scenario) = env::var(SCENARIO) {
        return live(&scenario);
    }
    let tests: &[(&str, fn())] = &[
        ("each_system_call_is_in_the_guides_list", each_system_call_is_in_the_list),
        ("kernel_events_cost_one_read_at_entry_and_one_at_exit", kernel_events_cost_one_read_at_entry_and_one_at_exit),
        ("time_off_the_cpu_costs_no_system_call", time_off_the_cpu_costs_no_system_call),
        (
            "marks_that_are_called_rarely_at_times_are_set_up_once",
            marks_that_are_called_rarely_at_times_are_set_up_once,
        ),
    ];
    support::run(tests.iter().map(|&(name, test)| support::trial(name, test)).collect(), &[])
}

// The program.

#[perfmark(time)]
fn plain(n: u64) {
    black_box((0..n).fold(0, u64::wrapping_add));
}

#[perfmark(page_faults, context_switches)]
fn software() {
    black_box(());
}

#[perfmark(cycles, instructions)]
fn hardware() {
    black_box(());
}

#[perfmark(page_faults)]
fn one() {
    black_box(());
}

#[perfmark(time, page_faults, task_clock, minor_faults)]
fn three() {
    black_box(());
}

#[perfmark(page_faults, task_clock, minor_faults, major_faults, cpu_clock, alignment_faults, emulation_faults)]
fn seven() {
    black_box(());
}

#[perfmark(time, off_cpu)]
fn stays() {
    black_box(());
}

#[perfmark(on_cpu)]
fn computes() {
    black_box(());
}

#[perfmark(on_cpu)]
fn naps() {
    thread::sleep(Duration::from_micros(100));
}

#[perfmark(time, off_cpu, blocked)]
fn sleep() {
    thread::sleep(Duration::from_micros(100));
}

/// Calls of each are a phase of the scenario [`KERNEL_EVENTS`].
const WAITING_MARKS: [(&str, fn()); 4] = [("stays", stays), ("computes", computes), ("sleep", sleep), ("naps", naps)];

/// Marks with that many software events. Calls of each are a phase of the scenario [`KERNEL_EVENTS`].
const KERNEL_MARKS: [(&str, fn()); 3] = [("1 event", one), ("3 events", three), ("7 events", seven)];
const KERNEL_EVENTS: &str = "events of the kernel";
const CALLS_OF_EACH: i64 = 200;

/// The system calls of this scenario.
fn of_kernel_events() -> Option<&'static Calls> {
    static CALLS: OnceLock<Option<Calls>> = OnceLock::new();
    CALLS.get_or_init(|| traced(KERNEL_EVENTS, &[])).as_ref()
}

fn call_kernel_marks() {
    phase(FIRST_CALLS);
    // From here on, the thread has the same events and the same histograms.
    let marks = || KERNEL_MARKS.into_iter().chain(WAITING_MARKS);
    for (_, call) in marks() {
        (0..100).for_each(|_| call());
    }
    for (name, call) in marks() {
        phase(name);
        (0..CALLS_OF_EACH).for_each(|_| call());
    }
    phase(REPORT);
    // SAFETY: no other thread calls it.
    unsafe { libc::exit(0) }
}

/// Marks that are thinned only while they are called often.
macro_rules! thinned {
    ($($name:ident)*) => {
        $(#[perfmark(time, every = 64)]
        fn $name() {
            black_box(());
        })*

        const THINNED: &[fn()] = &[$($name),*];
    };
}

thinned!(a b c d e f g h i j k l m n o p q r s t u v w x y z);

/// The scenario that calls them.
const THINNED_MARKS: &str = "thinned marks";

fn call_thinned_marks() {
    phase(FIRST_CALLS);
    THINNED.iter().for_each(|call| call());
    phase(CALLS);
    // Most calls are of one mark, which changes.
    for n in 0..1_000_000 {
        THINNED[if n % 16 == 0 { n % THINNED.len() } else { n / 5_000 % THINNED.len() }]();
    }
    phase(REPORT);
    // SAFETY: no other thread calls it.
    unsafe { libc::exit(0) }
}

#[perfmark(time)]
async fn dropped() {
    std::future::pending::<()>().await;
}

fn call_all(n: u64) {
    plain(n);
    software();
    hardware();
    stays();
    assert!(pin!(dropped()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// The phases of a program's life. In [`HOST`], it makes system calls of its own.
const START: &str = "start";
const FIRST_CALLS: &str = "first calls";
const CALLS: &str = "calls";
const THREADS_END: &str = "a thread's end";
const QUERIES: &str = "queries";
const FORK: &str = "fork";
const REPORT: &str = "report";
const FINISHED: &str = "finished";
const HOST: &str = "host";

/// The beginning of a marker.
const MARKER: &str = "perfmark-test ";

/// From now on, this thread is in that phase.
fn phase(name: &str) {
    let marker = format!("{MARKER}{name}\n");
    // SAFETY: the bytes are live, and the descriptor does not exist.
    unsafe { libc::syscall(libc::SYS_write, -1, marker.as_ptr(), marker.len()) };
}

extern "C" fn second_thread(_: *mut c_void) -> *mut c_void {
    phase(FIRST_CALLS);
    call_all(1);
    phase(CALLS);
    (0..100).for_each(call_all);
    phase(HOST);
    let begun = step() + 1;
    reach(begun);
    wait_for(begun + 1);
    phase(if begun == 1 { THREADS_END } else { FINISHED });
    ptr::null_mut()
}

fn live(scenario: &str) {
    if scenario == KERNEL_EVENTS {
        return call_kernel_marks();
    }
    if scenario == THINNED_MARKS {
        return call_thinned_marks();
    }
    phase(FIRST_CALLS);
    call_all(1);
    phase(CALLS);
    (0..200).for_each(call_all);
    phase(HOST);
    let first = threads::start(second_thread);
    wait_for(1);
    reach(2);
    threads::join(first);
    phase(QUERIES);
    black_box((perfmark::snapshot(), perfmark::threads()));
    perfmark::set_filter(&Filter::default().every("*", 3)).expect("slots for settings");
    perfmark::set_filter(&Filter::default()).expect("slots for settings");
    phase(FORK);
    // SAFETY: the child only calls marks and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        phase(FIRST_CALLS);
        call_all(1);
        phase(REPORT);
        // SAFETY: no other thread calls it.
        unsafe { libc::exit(0) };
    }
    program::wait_for(child, 0);
    phase(HOST);
    if scenario == "finishes" {
        let second = threads::start(second_thread);
        wait_for(3);
        phase(REPORT);
        perfmark::finish();
        phase(FINISHED);
        call_all(1);
        phase(HOST);
        reach(4);
        threads::join(second);
        phase(FINISHED);
    } else {
        phase(REPORT);
    }
    // SAFETY: no other thread calls it.
    unsafe { libc::exit(0) }
}

// System calls of the program.

/// How often each system call is made in each phase.
type Calls = BTreeMap<String, BTreeMap<String, i64>>;

/// The system calls that strace sees in a program's life. If there is no strace, prints the reason and returns
/// None.
fn traced(scenario: &str, variables: &[(&str, &str)]) -> Option<Calls> {
    static LOGS: AtomicU32 = AtomicU32::new(0);
    let log = file(&format!("strace-{}", LOGS.fetch_add(1, SeqCst)));
    let mut command = command(Path::new("strace"), scenario, variables);
    command.args(["-f", "-qq", "-s", "64", "-o"]).arg(&log).arg(env::current_exe().expect("known"));
    let output = match command.output() {
        Ok(output) => output,
        Err(why) => {
            println!("skipped: there is no strace here: {why}");
            return None;
        }
    };
    let trace = fs::read_to_string(&log).unwrap_or_default();
    _ = fs::remove_file(&log);
    if trace.is_empty() && !output.status.success() {
        println!("skipped: strace may not trace here: {}", text(&output.stderr));
        return None;
    }
    assert_code(&output, 0);
    Some(calls(&trace))
}

/// The system calls of each phase. Each thread has a phase. At first, it is `START` for the first thread, `FORK`
/// for a forked child, and `HOST` for others.
fn calls(trace: &str) -> Calls {
    let (mut calls, mut phases) = (Calls::new(), BTreeMap::<&str, String>::new());
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let is_forked = || phases.values().any(|phase| phase == FORK);
        let begins = if phases.is_empty() {
            START
        } else if is_forked() {
            FORK
        } else {
            HOST
        };
        let phase = phases.entry(thread).or_insert_with(|| begins.into());
        let call = call.trim_start();
        if let Some((_, marker)) = call.split_once(MARKER).filter(|_| call.starts_with("write(-1")) {
            *phase = marker.split('\\').next().unwrap_or_default().into();
            continue;
        }
        // Skips signals, ends, and the second part of a call that another thread interrupted here.
        let name: String = call.chars().take_while(|&c| c.is_ascii_alphanumeric() || c == '_').collect();
        if !name.is_empty() && call[name.len()..].starts_with('(') {
            *calls.entry(phase.clone()).or_default().entry(name).or_default() += 1;
        }
    }
    calls
}

const REPORTED: (&str, &str) = ("PERFMARK_ON_SIGINT", "report");
const SAMPLED: (&str, &str) = ("PERFMARK_SAMPLE", "page-faults:1");

fn without_perfmark(scenario: &str) -> Option<Calls> {
    traced(scenario, &[("PERFMARK", "off")])
}

/// The system calls that each phase makes with perfmark, but not without.
fn of_perfmark(scenario: &str, variables: &[(&str, &str)], off: &Calls) -> Option<BTreeMap<String, BTreeSet<String>>> {
    let on = traced(scenario, variables)?;
    let more = |(phase, calls): (&String, &BTreeMap<String, i64>)| {
        let often = |name: &String| off.get(phase).and_then(|calls| calls.get(name)).copied().unwrap_or(0);
        let more = calls.iter().filter(|&(name, &times)| times > often(name)).map(|(name, _)| name.clone());
        (phase.clone(), more.collect())
    };
    Some(on.iter().map(more).collect())
}

/// The rows of the chapter's table: when, and which calls.
fn listed() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let chapter = include_str!("../src/guide/permissions.md");
    let (_, table) = chapter.split_once("| when | system calls | why |\n").expect("the table");
    let rows = table.lines().skip(1).map_while(|row| row.strip_prefix("| "));
    rows.map(|row| {
        let mut columns = row.split(" | ");
        let (when, calls) = (columns.next().expect("when"), columns.next().expect("calls"));
        (when, calls.split('`').skip(1).step_by(2).collect())
    })
    .collect()
}

const MEMORY: &str = "memory and waiting";

/// The rows that list a phase's calls.
fn rows(phase: &str) -> &'static [&'static str] {
    match phase {
        START => &["start of the program", MEMORY],
        FIRST_CALLS => &[
            "first call of a mark in the process",
            "first call of a mark on a thread",
            "first use of an event on a thread",
            MEMORY,
        ],
        CALLS => &["other calls"],
        THREADS_END => &["end of a thread", MEMORY],
        QUERIES => &["`snapshot()`, `threads()`, `set_filter()`", MEMORY],
        FORK => &["fork", MEMORY],
        HOST => &["first call of a mark in the process", MEMORY],
        REPORT => &["report, at exit or by `finish()`; a dump", "end of a thread", MEMORY],
        _ => &[],
    }
}

fn each_system_call_is_in_the_list() {
    let (listed, path) = (listed(), file("report"));
    let output = path.to_str().expect("UTF-8");
    let to_file = [
        ("PERFMARK_OUTPUT", output),
        ("PERFMARK_CALL_GRAPH", "on"),
        // No interval passes, so the thread writes nothing.
        ("PERFMARK_DUMP_INTERVAL", "1000000"),
        REPORTED,
    ];
    let of_events =
        [("PERFMARK_EVENTS", "time,page-faults"), ("PERFMARK_FILTER", "*=every:2"), ("PERFMARK_READ", "user")];
    let sampled: &[&[_]] = if cfg!(feature = "sampling") { &[&[SAMPLED]] } else { &[] };
    let lives: [&[_]; 2] = [&[], &to_file];
    let finishes: [&[_]; 2] = [&of_events, &to_file];
    for (scenario, asked) in [("lives", lives), ("finishes", finishes)] {
        let Some(off) = without_perfmark(scenario) else { return };
        for &variables in asked.iter().chain(sampled) {
            let Some(made) = of_perfmark(scenario, variables, &off) else { return };
            assert!(made[FIRST_CALLS].contains("rt_sigprocmask"), "the trace has perfmark's calls: {made:?}");
            // The threads that settings require are in no phase of the program.
            let is_sampled = variables.contains(&SAMPLED);
            let has_threads = is_sampled || variables.contains(&REPORTED);
            for (phase, made) in made.iter().filter(|(phase, _)| *phase != HOST || has_threads) {
                let rows = rows(phase).iter().chain(if is_sampled { &["sampling", MEMORY][..] } else { &[] });
                let rows = rows.map(|row| listed.get(row).unwrap_or_else(|| panic!("no row {row}")));
                let listed: BTreeSet<_> = rows.flatten().copied().collect();
                let missing: Vec<_> = made.iter().filter(|&name| !listed.contains(name.as_str())).collect();
                assert!(missing.is_empty(), "{variables:?}: {phase}: {missing:?} is in none of the list's rows");
                println!("{scenario} {variables:?}: {phase}: {made:?}");
            }
        }
    }
    for entry in fs::read_dir(env::temp_dir()).expect("a directory").flatten() {
        if entry.path().to_string_lossy().starts_with(output) {
            fs::remove_file(entry.path()).expect("there");
        }
    }
}

/// For each call. Beside each read, perfmark checks that the descriptor is still its own, which no reading can do
/// without (see `perfmark-rdpmc/src/sys/identity.rs`). `strace` stops the thread at each system call, so each read
/// may be repeated to see whether the counter was stopped, and then the one at entry itself.
fn kernel_events_cost_one_read_at_entry_and_one_at_exit() {
    if let Err(why) = Counter::open(&Attr::new(Software::PageFaults)) {
        return println!("skipped: {why}");
    }
    let Some(made) = of_kernel_events() else { return };
    for (name, _) in KERNEL_MARKS {
        let mut made = made.get(name).unwrap_or_else(|| panic!("no calls with {name}: {made:?}")).clone();
        println!("{name}: {made:?}");
        // A histogram may have grown.
        made.retain(|call, _| !["mmap", "madvise"].contains(&call.as_str()));
        assert!(made.keys().eq(["fcntl", "read"]), "{name}: {made:?}");
        assert_eq!(made["fcntl"], made["read"], "{name}");
        assert!((2 * CALLS_OF_EACH..=6 * CALLS_OF_EACH).contains(&made["read"]), "{name}: {made:?}");
    }
}

fn time_off_the_cpu_costs_no_system_call() {
    if let Err(why) = OffCpu::open() {
        return println!("skipped: {why}");
    }
    let Some(made) = of_kernel_events() else { return };
    for (name, _) in WAITING_MARKS {
        let mut made = made.get(name).cloned().unwrap_or_default();
        println!("{name}: {made:?}");
        // A histogram may have grown. The sleep is the program's.
        made.retain(|call, _| !["mmap", "madvise", "clock_nanosleep"].contains(&call.as_str()));
        assert_eq!(made, BTreeMap::new(), "{name}");
    }
}

fn marks_that_are_called_rarely_at_times_are_set_up_once() {
    let Some(made) = traced(THINNED_MARKS, &[]) else { return };
    let made = made.get(CALLS).cloned().unwrap_or_default();
    println!("{made:?}");
    // Signals are blocked, and later unblocked, for each setup. One was at the first call; there is another for all
    // calls of a mark that was thinned, or for those in bursts.
    let most = 2 * THINNED.len();
    assert!((1..=most as i64).contains(&made["rt_sigprocmask"]), "{made:?}");
}
