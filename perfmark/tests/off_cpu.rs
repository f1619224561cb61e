//! What a call waits for: `off_cpu`, `blocked` and `preempted` are the times that its thread was not on a CPU.
//!
//! The scenarios of `linux` are this program, started again.

#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
#[path = "../../perfmark-rdpmc/tests/support/mod.rs"]
mod support;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("skipped: only Linux reports context switches to a program");
}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::hint::black_box;
    use std::io::{Read, Write};
    use std::os::unix::process::CommandExt;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::{Barrier, Mutex, mpsc};
    use std::time::{Duration, Instant};
    use std::{env, fs, io, mem, process, ptr, thread};

    use perfmark::perfmark;
    use perfmark_rdpmc::OffCpu;
    use serde_json::Value;

    use crate::program::{SCENARIO, command, json, mark, text};
    use crate::support;

    pub(super) fn main() {
        if let Ok(scenario) = env::var(SCENARIO) {
            return live(&scenario);
        }
        if let Err(why) = OffCpu::open() {
            println!("skipped: context switches cannot be recorded here: {why}");
            return;
        }
        let tests: &[(&str, fn())] = &[
            ("a_call_that_stays_on_its_cpu_is_off_it_for_exactly_0", a_call_that_stays_on_its_cpu),
            ("a_sleep_is_blocked_for_its_duration", a_sleep_is_blocked),
            ("time_off_the_cpu_and_cpu_time_add_up_to_time", off_and_on_add_up),
            ("preempted_is_what_the_scheduler_says", preempted_is_what_the_scheduler_says),
            ("self_excludes_the_waits_of_callees", self_excludes_the_waits_of_callees),
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
    const PAUSE: Duration = Duration::from_millis(1);
    const TIMES: u32 = 1_000;
    const TASKS: u64 = 10_000;
    const IN_POLL: Duration = Duration::from_micros(50);
    const BETWEEN_POLLS: Duration = Duration::from_millis(20);

    #[perfmark(time, off_cpu)]
    fn compute(n: u64) -> u64 {
        (0..n).fold(0, |sum, n| black_box(sum + n))
    }

    #[perfmark(time, off_cpu, blocked, preempted)]
    fn sleep() {
        thread::sleep(Duration::from_millis(50));
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

    /// Computes for a while. Returns the nanoseconds for which the thread waited for a CPU, as the scheduler says.
    #[perfmark(time, off_cpu, task_clock, preempted)]
    fn compete(duration: Duration) -> Option<u64> {
        let (begun, before) = (Instant::now(), run_delay());
        while begun.elapsed() < duration {
            black_box(());
        }
        Some(run_delay()? - before?)
    }

    #[perfmark(time, off_cpu)]
    fn outer() {
        black_box(compute(1_000));
        sleep();
    }

    /// Waits more often than the ring has room for.
    #[perfmark(time, off_cpu, blocked, preempted)]
    fn wait_often() {
        (0..600).for_each(|_| thread::sleep(Duration::from_nanos(1)));
    }

    #[perfmark(time, off_cpu, suspended)]
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
    async fn at_once() {}

    #[perfmark(time, suspended)]
    async fn dropped() {
        std::future::pending::<()>().await;
    }

    #[perfmark(time, suspended)]
    async fn gives_up() {
        _ = tokio::time::timeout(BETWEEN_POLLS, dropped()).await;
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
            for _ in 0..TIMES {
                barrier.wait();
                lock(&mutex);
                barrier.wait();
            }
        });
    }

    fn read_slowly() {
        let (mut input, mut output) = io::pipe().expect("a pipe");
        thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..TIMES {
                    thread::sleep(PAUSE);
                    output.write_all(&[1]).expect("read");
                }
            });
            (0..TIMES).for_each(|_| read(&mut input));
        });
    }

    /// Keeps the calling thread and those that it starts on one CPU.
    fn stay_on_one_cpu() {
        // SAFETY: a set of CPUs may be zeroed, and is live.
        let done = unsafe {
            let (mut set, size) = (mem::zeroed::<libc::cpu_set_t>(), size_of::<libc::cpu_set_t>());
            assert_eq!(libc::sched_getaffinity(0, size, &raw mut set), 0);
            let first = (0..1_024).find(|&cpu| libc::CPU_ISSET(cpu, &set)).expect("one");
            libc::CPU_ZERO(&mut set);
            libc::CPU_SET(first, &mut set);
            libc::sched_setaffinity(0, size, &raw const set)
        };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
    }

    /// The nanoseconds for which the calling thread waited for a CPU.
    fn run_delay() -> Option<u64> {
        let statistics = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        statistics.split_whitespace().nth(1)?.parse().ok()
    }

    fn compete_with_a_neighbour() {
        stay_on_one_cpu();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    black_box(());
                }
            });
            let waited: Option<u64> = (0..5).map(|_| compete(Duration::from_millis(80))).sum();
            is_over.store(true, Relaxed);
            eprintln!("{}", waited.unwrap_or(0));
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
            let blocked = sleeps.values.iter().find(|values| values.event == "blocked").expect("recorded");
            let is_as_expected = blocked.measured == 1 && blocked.min >= Some(50_000_000);
            process::exit(i32::from(!is_as_expected));
        }
        let mut status = 0;
        // SAFETY: a child of this process, and a live integer.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child was killed, or recorded something else");
    }

    fn live(scenario: &str) {
        match scenario {
            "compute" => (0..20_000).for_each(|_| _ = compute(100)),
            "sleep" => (0..10).for_each(|_| sleep()),
            "pause" => (0..TIMES).for_each(|_| pause()),
            "lock" => contend(),
            "pipe" => read_slowly(),
            "compete" => compete_with_a_neighbour(),
            "nested" => (0..5).for_each(|_| outer()),
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
        assert!(
            difference <= part * one as f64,
            "{one} and {other} differ by {:.2} %",
            100.0 * difference / one as f64
        );
    }

    fn a_call_that_stays_on_its_cpu() {
        let report = json("compute", &[], 0);
        let off_cpu = values(&report, "compute", "off_cpu");
        // The machine may preempt the thread in a few calls.
        assert_eq!([&off_cpu["measured"], &off_cpu["min"], &off_cpu["p90"]], [20_000, 0, 0], "{off_cpu}");
    }

    fn a_sleep_is_blocked() {
        let report = json("sleep", &[], 0);
        let least = values(&report, "sleep", "blocked")["min"].as_i64().expect("a number");
        assert!(least >= 50_000_000, "blocked for {least} ns");
        let [time, off_cpu, blocked, preempted] =
            ["time", "off_cpu", "blocked", "preempted"].map(|event| sum(&report, "sleep", event));
        assert_eq!(off_cpu, blocked + preempted);
        assert!(blocked <= time, "blocked for {blocked} of {time} ns");
        assert!(preempted < time / 10, "preempted for {preempted} of {time} ns");
    }

    fn off_and_on_add_up() {
        for (scenario, name) in [("pause", "pause"), ("lock", "lock"), ("pipe", "read"), ("compete", "compete")] {
            let report = json(scenario, &[], 0);
            let [time, off_cpu, on_cpu] = ["time", "off_cpu", "task-clock"].map(|event| sum(&report, name, event));
            println!("{scenario}: {time} ns, {off_cpu} ns off the CPU, {on_cpu} ns on it");
            assert!(off_cpu > time / 10, "{scenario}: {off_cpu} of {time} ns");
            // On an idle machine within 1 %; other work makes switches longer.
            assert_near(time, off_cpu + on_cpu, 0.02);
        }
    }

    fn preempted_is_what_the_scheduler_says() {
        let all = [("PERFMARK_FORMAT", "json"), ("PERFMARK_OUTPUT", "-")];
        let output = command(&env::current_exe().expect("known"), "compete", &all).output().expect("started");
        let report = serde_json::from_str(text(&output.stdout)).expect("JSON");
        let run_delay: i64 = text(&output.stderr).trim().parse().expect("a number");
        if run_delay == 0 {
            return println!("skipped: this kernel keeps no statistics of the scheduler");
        }
        let preempted = sum(&report, "compete", "preempted");
        println!("{preempted} ns preempted, {run_delay} ns by the scheduler");
        // One of them may have a time slice more at the end, which is 2 % of them on many machines.
        assert_near(run_delay, preempted, 0.03);
    }

    fn self_excludes_the_waits_of_callees() {
        let report = json("nested", &[], 0);
        let outer = values(&report, "outer", "off_cpu");
        let slept = sum(&report, "sleep", "off_cpu");
        assert!(slept >= 250_000_000 && outer["total"].as_i64() >= Some(slept), "{outer}");
        let own = outer["self"].as_i64().expect("a number");
        let of_callees = slept + sum(&report, "compute", "off_cpu");
        assert_eq!(outer["total"].as_i64(), Some(own + of_callees));
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
                        && (libc::setgroups(0, ptr::null()) != 0
                            || libc::setgid(NOBODY) != 0
                            || libc::setuid(NOBODY) != 0)
                {
                    return Err(io::Error::last_os_error());
                }
                Ok(())
            });
        }
        match command.output() {
            Ok(output) => {
                assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
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
        assert!(
            notes.contains("off_cpu") && notes.contains("locked memory") && notes.contains("fewer threads"),
            "{notes}"
        );
    }

    fn no_right_is_required() {
        let Some(report) = without_rights("sleep", 8 << 20) else { return };
        let blocked = values(&report, "sleep", "blocked");
        assert!(blocked["measured"] == 10 && blocked["min"].as_u64() >= Some(50_000_000), "{blocked}");
    }

    fn a_forked_child_records_its_own() {
        let variables = [("PERFMARK_OUTPUT", "/dev/null")];
        let output = command(&env::current_exe().expect("known"), "fork", &variables).output().expect("started");
        assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    }

    fn polls_add_up() {
        let report = json("async", &[("PERFMARK_CALL_GRAPH", "on")], 0);
        let all = ["time", "off_cpu", "suspended"].map(|event| values(&report, "poll_and_wait", event));
        assert_eq!(all.map(|values| values["measured"].as_u64()), [Some(TASKS); 3]);
        let [time, off_cpu, suspended] = all.map(|values| values["sum"].as_u64().expect("a number"));
        println!("{time} ns in polls, {off_cpu} ns of it off the CPU, {suspended} ns between polls");
        // Two waits in polls, and two between them.
        assert!((TASKS * 2 * 50_000..=time).contains(&off_cpu), "{off_cpu} of {time} ns");
        assert!(suspended >= TASKS * 2 * 20_000_000, "{suspended} ns");
        // The inner call is suspended while the outer one is.
        let inner = sum(&report, "again", "suspended");
        let own = values(&report, "poll_and_wait", "suspended")["self"].as_i64().expect("a number");
        assert!(inner >= i64::try_from(TASKS * 20_000_000).expect("small"), "{inner} ns");
        // Each sum is rounded to nanoseconds.
        assert!(suspended.abs_diff(u64::try_from(inner + own).expect("positive")) <= 2, "{inner} + {own}, {suspended}");
        assert_eq!(values(&report, "at_once", "suspended")["max"], 0);
        // A part of the time limit may be over before the first poll ends.
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
}
