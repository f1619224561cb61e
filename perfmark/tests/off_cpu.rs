//! What a call waits for: `off_cpu`, `blocked` and `preempted` are the times that its thread was not on a CPU, and
//! `on_cpu` is the rest.
//!
//! Each scenario is this program, started again.

#[path = "sampling/cpu_time.rs"]
mod cpu_time;
#[path = "../../perfmark-rdpmc/tests/process/mod.rs"]
mod process;
mod program;
#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

use std::future::poll_fn;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Barrier, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;
use std::{env, fs, io, ptr, thread};

use cpu_time::cpu_time;
use perfmark::perfmark;
use perfmark_rdpmc::OffCpu;
use process::{cpus, move_to};
use program::{SCENARIO, assert_code, command, json, mark, scenario, text, wait_for};
use serde_json::Value;

fn main() {
    if let Ok(scenario) = env::var(SCENARIO) {
        return live(&scenario);
    }
    if let Err(why) = OffCpu::open() {
        println!("skipped: context switches cannot be recorded here: {why}");
        return;
    }
    let tests: &[(&str, fn())] = &[
        ("a_call_that_stays_on_its_cpu_is_off_it_for_exactly_0", a_call_that_stays_on_its_cpu),
        ("a_sleep_is_off_the_cpu_for_its_duration", a_sleep_is_off_the_cpu),
        ("time_off_the_cpu_and_cpu_time_add_up_to_time", off_and_on_add_up),
        ("preempted_is_what_the_scheduler_says", preempted_is_what_the_scheduler_says),
        ("on_cpu_is_the_threads_cpu_time", on_cpu_is_cpu_time),
        ("on_cpu_and_off_cpu_add_up_to_no_more_than_the_run", on_cpu_and_off_cpu_add_up),
        ("a_call_that_is_open_at_exit_includes_its_waits", open_at_exit),
        ("lost_switches_make_open_calls_unmeasured_and_no_others", lost_switches),
        ("threads_beyond_the_locked_memory_are_reported_and_run", threads_beyond_the_locked_memory),
        ("no_right_is_required", no_right_is_required),
        ("a_forked_child_records_its_own_waits", a_forked_child_records_its_own),
        ("polls_of_async_calls_add_up", polls_add_up),
    ];
    support::run(tests.iter().map(|&(name, test)| support::trial(name, test)).collect(), &[])
}

// The program.

/// Both clocks count a part of each context switch, some microseconds.
const PAUSE: Duration = Duration::from_millis(4);
const TIMES: usize = 101;
const TASKS: u64 = 1_000;
const IN_POLL: Duration = Duration::from_micros(50);
const BETWEEN_POLLS: Duration = Duration::from_millis(20);

#[perfmark(time, off_cpu)]
fn compute(n: u64) -> u64 {
    (0..n).fold(0, |sum, n| black_box(sum + n))
}

#[perfmark(time, off_cpu, blocked, preempted, task_clock)]
fn sleep() {
    thread::sleep(PAUSE);
}

#[perfmark(time, off_cpu, task_clock)]
fn exits() {
    thread::sleep(PAUSE);
    std::process::exit(0);
}

#[perfmark(time, off_cpu, task_clock)]
fn pause() {
    thread::sleep(PAUSE);
}

#[perfmark(time, off_cpu, task_clock)]
fn lock(mutex: &Mutex<u32>) {
    *mutex.lock().expect("not poisoned") += 1;
}

#[perfmark(time, off_cpu, task_clock)]
fn read(pipe: &mut impl Read) {
    pipe.read_exact(&mut [0]).expect("written");
}

/// Computes until the thread has waited twice for a CPU. Returns the nanoseconds, as the scheduler says.
#[perfmark(time, off_cpu, task_clock, preempted)]
fn compete() -> u64 {
    let begun = run_delay();
    let mut last = begun;
    for _ in 0..2 {
        let before = last;
        while last == before {
            last = run_delay();
        }
    }
    last - begun
}

/// Computes until the thread has waited twice for a CPU. Returns its CPU time in nanoseconds.
#[perfmark(on_cpu)]
fn shares_its_cpu() -> i64 {
    let begun = cpu_time();
    compete();
    (cpu_time() - begun).cast_signed()
}

#[perfmark(on_cpu, off_cpu)]
fn nap() {
    thread::sleep(PAUSE);
}

#[perfmark(on_cpu, off_cpu)]
fn naps() {
    nap();
    nap();
}

/// Waits more often than the ring has room for.
#[perfmark(time, off_cpu, blocked, preempted)]
fn wait_often() {
    (0..600).for_each(|_| thread::sleep(Duration::from_nanos(1)));
}

#[perfmark(time, off_cpu, suspended, task_clock)]
async fn poll_and_wait() {
    thread::sleep(IN_POLL);
    tokio::time::sleep(BETWEEN_POLLS).await;
    thread::sleep(IN_POLL);
    again().await;
}

#[perfmark(time, suspended)]
async fn again() {
    tokio::time::sleep(BETWEEN_POLLS).await;
}

#[perfmark(time, suspended)]
async fn at_once() {
    std::future::ready(()).await;
}

#[perfmark(time, suspended)]
async fn dropped() {
    std::future::pending::<()>().await;
}

#[perfmark(time, suspended)]
async fn gives_up() {
    let mut dropped = pin!(dropped());
    poll_fn(|context| {
        assert!(dropped.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    tokio::task::yield_now().await;
}

/// The costs of each of these calls in these events, in nanoseconds.
fn costs<const N: usize>(mark: &str, events: [&str; N], mut call: impl FnMut()) -> Vec<[i64; N]> {
    let costs = |_| {
        let before = perfmark::snapshot();
        call();
        let since = perfmark::snapshot().since(&before);
        let mark = since.marks.into_iter().find(|known| known.name == mark).expect("called");
        events.map(|event| mark.event(event).expect("recorded").sum)
    };
    (0..TIMES).map(costs).collect()
}

/// Asserts that two times of most calls differ by at most that part of the first one. Where another program
/// interrupts a call between two readings, they differ by more.
#[track_caller]
fn assert_most_near(times: impl IntoIterator<Item = (i64, i64)>, part: f64) {
    let difference = |(one, other): (i64, i64)| (one - other).abs() as f64 / one as f64;
    let mut differences: Vec<_> = times.into_iter().map(difference).collect();
    assert!(!differences.is_empty(), "no call waited");
    differences.sort_by(f64::total_cmp);
    let median = differences[differences.len() / 2];
    assert!(median <= part, "differ by {:.2} %: {differences:?}", 100.0 * median);
}

#[track_caller]
fn assert_adds_up(mark: &str, call: impl FnMut()) {
    let mut costs = costs(mark, ["time", "off_cpu", "task-clock"], call);
    // On a busy machine, what a call waits for may have happened before it.
    costs.retain(|&[time, ..]| time >= i64::try_from(PAUSE.as_nanos() / 2).expect("small"));
    // On an idle machine within 1 %; other work makes switches longer.
    assert_most_near(costs.into_iter().map(|[time, off_cpu, on_cpu]| (time, off_cpu + on_cpu)), 0.02);
}

/// Each call waits for a lock that another thread holds for a while.
fn contend() {
    let (mutex, barrier) = (Mutex::new(0), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..TIMES {
                let held = mutex.lock().expect("not poisoned");
                barrier.wait();
                thread::sleep(PAUSE);
                drop(held);
                barrier.wait();
            }
        });
        assert_adds_up("lock", || {
            barrier.wait();
            lock(&mutex);
            barrier.wait();
        });
    });
}

fn read_slowly() {
    let (mut input, mut output) = io::pipe().expect("a pipe");
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..TIMES {
                barrier.wait();
                thread::sleep(PAUSE);
                output.write_all(&[1]).expect("read");
            }
        });
        assert_adds_up("read", || {
            barrier.wait();
            read(&mut input);
        });
    });
}

/// The nanoseconds for which the calling thread waited for a CPU, and those on one. The kernel may keep no such
/// statistics.
fn scheduler_statistics() -> Option<[u64; 2]> {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut times = statistics.split_whitespace().map_while(|time| time.parse().ok());
    let (on_cpu, waited) = (times.next()?, times.next()?);
    (on_cpu > 0).then_some([waited, on_cpu])
}

fn run_delay() -> u64 {
    scheduler_statistics().expect("as before")[0]
}

/// Runs this while another thread computes on the same CPU.
fn beside_a_neighbour(run: fn()) {
    if scheduler_statistics().is_none() {
        return println!("skipped: this kernel keeps no statistics of the scheduler");
    }
    move_to(cpus()[0]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                black_box(());
            }
        });
        run();
        is_over.store(true, Relaxed);
    });
}

fn start_threads(count: usize) {
    // All live at once.
    let (started, ready) = mpsc::channel();
    let barrier = Barrier::new(count);
    thread::scope(|scope| {
        for _ in 0..count {
            let (started, barrier) = (started.clone(), &barrier);
            let work = move || {
                compute(10);
                barrier.wait();
                compute(10);
                started.send(()).expect("received");
            };
            thread::Builder::new().stack_size(1 << 17).spawn_scoped(scope, work).expect("a thread");
        }
    });
    assert_eq!(ready.try_iter().count(), count);
}

fn fork() {
    sleep();
    // SAFETY: the child calls marks and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        sleep();
        let snapshot = perfmark::snapshot();
        let sleeps = snapshot.marks.iter().find(|mark| mark.name == "sleep").expect("it was called");
        let of = |event| sleeps.event(event).expect("recorded");
        assert_eq!(of("off_cpu").measured, 1);
        assert_slept(1, of("off_cpu").sum + of("task-clock").sum);
        std::process::exit(0);
    }
    wait_for(child, 0);
}

fn live(scenario: &str) {
    match scenario {
        "compute" => (0..20_000).for_each(|_| _ = compute(100)),
        "sleep" => (0..10).for_each(|_| sleep()),
        "pause" => assert_adds_up("pause", pause),
        "lock" => contend(),
        "pipe" => read_slowly(),
        "compete" => beside_a_neighbour(|| assert_adds_up("compete", || _ = compete())),
        "preempted" => beside_a_neighbour(|| {
            let mut waited = Vec::new();
            let preempted = costs("compete", ["preempted"], || waited.push(compete().cast_signed()));
            assert_most_near(waited.into_iter().zip(preempted.into_iter().map(|[preempted]| preempted)), 0.03);
        }),
        "on_cpu" => beside_a_neighbour(|| {
            let mut truth = Vec::new();
            let on_cpu = costs("shares_its_cpu", ["on_cpu"], || truth.push(shares_its_cpu()));
            // Each switch is in one of both clocks only, for some microseconds.
            assert_most_near(truth.into_iter().zip(on_cpu.into_iter().map(|[on_cpu]| on_cpu)), 0.02);
        }),
        "naps" => (0..5).for_each(|_| naps()),
        "exit" => exits(),
        "lose" => {
            sleep();
            wait_often();
            sleep();
        }
        "threads" => start_threads(300),
        "fork" => fork(),
        "async" => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build();
            runtime.expect("started").block_on(async {
                let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(poll_and_wait())).collect();
                for task in tasks {
                    task.await.expect("it ends");
                }
                at_once().await;
                gives_up().await;
            });
        }
        _ => unreachable!("{scenario}"),
    }
}

// The tests.

fn values<'a>(report: &'a Value, name: &str, event: &str) -> &'a Value {
    let values = &mark(report, name)["values"][event];
    assert!(!values.is_null(), "{name} has no {event} in {report}");
    values
}

fn sum(report: &Value, name: &str, event: &str) -> i64 {
    values(report, name, event)["sum"].as_i64().expect("a number")
}

/// Asserts that two times differ by at most that part of the first one.
#[track_caller]
fn assert_near(one: i64, other: i64, part: f64) {
    let difference = (one - other).abs() as f64;
    assert!(difference <= part * one as f64, "{one} and {other} differ by {:.2} %", 100.0 * difference / one as f64);
}

fn a_call_that_stays_on_its_cpu() {
    let report = json("compute", &[], 0);
    let off_cpu = values(&report, "compute", "off_cpu");
    // The machine may preempt the thread in a few calls.
    assert_eq!([&off_cpu["measured"], &off_cpu["min"], &off_cpu["p90"]], [20_000, 0, 0], "{off_cpu}");
}

/// Asserts that sleeps lasted for as long as asked for: the sum of the times on and off the CPU. A sleep begins
/// before its thread leaves the CPU. The clocks may differ a little.
#[track_caller]
fn assert_slept(times: i64, on_and_off: i64) {
    let least = times * i64::try_from(PAUSE.as_nanos()).expect("small");
    assert!(on_and_off >= least - least / 1_000, "{on_and_off} of {least} ns");
}

fn a_sleep_is_off_the_cpu() {
    let report = json("sleep", &[], 0);
    let [time, off_cpu, blocked, preempted, on_cpu] =
        ["time", "off_cpu", "blocked", "preempted", "task-clock"].map(|event| sum(&report, "sleep", event));
    assert_slept(10, off_cpu + on_cpu);
    assert_eq!(off_cpu, blocked + preempted);
    assert!(blocked > 0 && off_cpu <= time, "{blocked} blocked, {off_cpu} of {time} ns off the CPU");
}

fn off_and_on_add_up() {
    ["pause", "lock", "pipe", "compete"].into_iter().for_each(succeeds);
}

fn preempted_is_what_the_scheduler_says() {
    succeeds("preempted");
}

fn on_cpu_is_cpu_time() {
    succeeds("on_cpu");
}

fn on_cpu_and_off_cpu_add_up() {
    let report = json("naps", &[], 0);
    let [inner, outer] = ["nap", "naps"].map(|name| {
        let [on_cpu, off_cpu] = ["on_cpu", "off_cpu"].map(|event| values(&report, name, event));
        assert_slept(10, [on_cpu, off_cpu].map(|values| values["total"].as_i64().expect("a number")).iter().sum());
        let [on_cpu, off_cpu] = [on_cpu, off_cpu].map(|values| values["total"].as_i64().expect("a number"));
        // Of one call, it may be 0: the clock's rate may change during its nap.
        assert!(on_cpu > 0, "{on_cpu}");
        [on_cpu, off_cpu]
    });
    // On one thread, both parts are no longer than the run.
    assert!(outer.iter().sum::<i64>() <= report["wall_ns"].as_i64().expect("a number"), "{outer:?} in {report}");
    assert!(outer[0] >= inner[0] && outer[1] >= inner[1], "{outer:?} around {inner:?}");
}

/// Runs a scenario that checks its own values.
#[track_caller]
fn succeeds(name: &str) {
    let output = scenario(name, &[("PERFMARK_OUTPUT", "/dev/null")]);
    assert_code(&output, 0);
    print!("{}", text(&output.stdout));
}

fn open_at_exit() {
    let report = json("exit", &[], 0);
    let so_far = |event| values(&report, "exits", event)["in_flight_total"].as_i64().expect("a number");
    let [time, off_cpu, on_cpu] = ["time", "off_cpu", "task-clock"].map(so_far);
    assert_slept(1, off_cpu + on_cpu);
    assert!(off_cpu <= time, "{off_cpu} of {time} ns off the CPU");
}

fn lost_switches() {
    let report = json("lose", &[], 0);
    for event in ["off_cpu", "blocked", "preempted"] {
        let lost = values(&report, "wait_often", event);
        assert_eq!([&lost["measured"], &lost["unmeasured"]], [0, 1], "{event}: {lost}");
        let kept = values(&report, "sleep", event);
        assert_eq!([&kept["measured"], &kept["unmeasured"]], [2, 0], "{event}: {kept}");
    }
    assert_eq!(values(&report, "wait_often", "time")["measured"], 1);
}

/// The report of a scenario that runs without rights, with that limit of locked memory.
fn without_rights(scenario: &str, locked: u64) -> Option<Value> {
    const NOBODY: u32 = 65_534;
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").expect("readable");
    if level.trim().parse::<i32>().is_ok_and(|level| level > 2) {
        println!("skipped: kernel.perf_event_paranoid is {}", level.trim());
        return None;
    }
    let variables = [("PERFMARK_FORMAT", "json"), ("PERFMARK_OUTPUT", "-")];
    let mut command = command(&env::current_exe().expect("known"), scenario, &variables);
    let limit = libc::rlimit { rlim_cur: locked, rlim_max: locked };
    // SAFETY: only system calls, which a child may make after a fork; the arguments are live.
    unsafe {
        command.pre_exec(move || {
            if libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) != 0
                || libc::getuid() == 0
                    && (libc::setgroups(0, ptr::null()) != 0 || libc::setgid(NOBODY) != 0 || libc::setuid(NOBODY) != 0)
            {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    match command.output() {
        Ok(output) => {
            assert_code(&output, 0);
            let stdout = text(&output.stdout);
            Some(serde_json::from_str(&stdout[stdout.find('{').expect("a report")..]).expect("JSON"))
        }
        Err(why) => {
            println!("skipped: the program cannot give up its rights and start again: {why}");
            None
        }
    }
}

fn threads_beyond_the_locked_memory() {
    let Some(report) = without_rights("threads", 65_536) else { return };
    let off_cpu = values(&report, "compute", "off_cpu");
    let (measured, calls) = (off_cpu["measured"].as_u64().expect("a number"), 600);
    assert_eq!(mark(&report, "compute")["calls"], calls);
    assert_eq!(values(&report, "compute", "time")["measured"], calls, "time needs no locked memory");
    let limit = fs::read_to_string("/proc/sys/kernel/perf_event_mlock_kb").expect("readable");
    println!("{measured} of {calls} calls have off_cpu, with perf_event_mlock_kb {limit}");
    assert!(measured > 0 && measured < calls, "{off_cpu}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("off_cpu") && notes.contains("locked memory") && notes.contains("fewer threads"), "{notes}");
}

fn no_right_is_required() {
    let Some(report) = without_rights("sleep", 8 << 20) else { return };
    assert_eq!(values(&report, "sleep", "blocked")["measured"], 10);
    assert_slept(10, sum(&report, "sleep", "off_cpu") + sum(&report, "sleep", "task-clock"));
}

fn a_forked_child_records_its_own() {
    succeeds("fork");
}

fn polls_add_up() {
    let report = json("async", &[("PERFMARK_CALL_GRAPH", "on")], 0);
    let all = ["time", "off_cpu", "suspended", "task-clock"].map(|event| values(&report, "poll_and_wait", event));
    assert_eq!(all.map(|values| values["measured"].as_u64()), [Some(TASKS); 4]);
    let [time, off_cpu, suspended, on_cpu] = all.map(|values| values["sum"].as_u64().expect("a number"));
    println!("{time} ns in polls, {off_cpu} ns of it off the CPU, {suspended} ns between polls");
    assert!(off_cpu <= time, "{off_cpu} of {time} ns");
    // Two waits in polls, and two between them, which begin in a poll. The clocks may differ a little.
    let assert_lasts = |lasted: u64, waits: Duration| {
        let least = u64::try_from(waits.as_nanos()).expect("small") * TASKS;
        assert!(lasted >= least - least / 1_000, "{lasted} of {least} ns");
    };
    assert_lasts(off_cpu + on_cpu, 2 * IN_POLL);
    assert_lasts(time + suspended, 2 * (IN_POLL + BETWEEN_POLLS));
    // The inner call is suspended while the outer one is.
    let inner = sum(&report, "again", "suspended");
    let own = values(&report, "poll_and_wait", "suspended")["self"].as_i64().expect("a number");
    assert_lasts((inner + sum(&report, "again", "time")).cast_unsigned(), BETWEEN_POLLS);
    // Each sum is rounded to nanoseconds.
    assert!(suspended.abs_diff(u64::try_from(inner + own).expect("positive")) <= 2, "{inner} + {own}, {suspended}");
    assert_eq!(values(&report, "at_once", "suspended")["max"], 0);
    let dropped = &mark(&report, "dropped");
    let unwound = dropped["values"]["suspended"]["unwound_total"].as_u64().expect("a number");
    assert!(dropped["cancelled"] == 1 && unwound > 0, "{dropped}");
    // Nothing is subtracted for the call that was dropped, of which only a part may be the caller's.
    let gives_up = values(&report, "gives_up", "suspended");
    assert!(gives_up["self"] == gives_up["sum"] && gives_up["sum"].as_u64() > Some(0), "{gives_up}");
    let nodes = report["call_graph"].as_array().expect("a list");
    let of_nodes = nodes.iter().filter_map(|node| node["values"]["suspended"]["sum"].as_i64());
    let of_marks = ["poll_and_wait", "again", "at_once", "gives_up"].map(|name| sum(&report, name, "suspended"));
    assert_near(of_nodes.sum(), of_marks.iter().sum(), 1e-6);
}
