//! What the kernel counts itself, on this kernel: software events, tracepoints, breakpoints, probes; as root, and as another user.
//!
//! Each test first tries whether the kernel allows what it needs. Where not, it is told as ignored, with the kernel's words.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports, reason = "nothing of it is there"))]

use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use libtest_mimic::{Arguments, Failed, Trial};
use perfmark_rdpmc::{Access, Attr, Breakpoint, Counter, Delta, Event, Software};

mod place;

/// Set for the program that this one starts to be another user.
const OTHER_USER: &str = "PERFMARK_TEST_OTHER_USER";
/// Nobody, on Debian.
const NOBODY: libc::uid_t = 65534;

/// A test, and what has to be possible for it.
type Case = (&'static str, fn() -> Result<(), String>, fn());

fn main() {
    if std::env::var_os(OTHER_USER).is_some() {
        return other_user::main();
    }
    let cases: [Case; 7] = [
        ("every_software_event_opens_or_is_refused_for_its_reason", || allowed(&attr("page-faults")), software),
        ("page_faults_are_counted_exactly", || allowed(&attr("page-faults")), page_faults),
        ("switches_and_migrations_are_counted_with_the_kernels_part", || allowed(&all("cs")), switches),
        ("a_breakpoint_counts_the_writes_of_a_variable_exactly", || allowed(&breakpoint(Access::Write)), writes),
        ("a_tracepoint_counts_exactly", || in_tracefs(|| allowed(&all("syscalls:sys_enter_getppid"))), tracepoint),
        ("a_uprobe_counts_the_calls_of_a_function_exactly", || allowed(&uprobe()?), calls),
        ("another_user_may_count_by_breakpoints_and_is_told_what_the_rest_wants", is_root, another_user),
    ];
    let trials = cases.into_iter().map(|(name, possible, test)| {
        let impossible = possible().err();
        if let Some(why) = &impossible {
            eprintln!("{name} is ignored: {why}");
        }
        let run = move || std::panic::catch_unwind(test).map_err(|_| Failed::without_message());
        Trial::test(name, run).with_ignored_flag(impossible.is_some())
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

fn attr(text: &str) -> Attr {
    Attr::new(text.parse::<Event>().unwrap_or_else(|error| panic!("{error}")))
}

/// With the kernel's part.
fn all(text: &str) -> Attr {
    attr(text).kernel(true)
}

fn allowed(attr: &Attr) -> Result<(), String> {
    Counter::open(attr).map(|_| ()).map_err(|error| error.to_string())
}

fn open(attr: &Attr) -> Counter {
    Counter::open(attr).unwrap_or_else(|error| panic!("{error}"))
}

/// What `counter` counts of `work`.
fn count(counter: &Counter, work: impl FnOnce()) -> u64 {
    let before = counter.read().unwrap_or_else(|error| panic!("{error}"));
    work();
    match counter.read().unwrap_or_else(|error| panic!("{error}")).since(&before) {
        Delta::Exact(value) => value,
        other => panic!("not exact: {other:?}"),
    }
}

fn is_root() -> Result<(), String> {
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    if user == 0 { allowed(&breakpoint(Access::Write)) } else { Err(format!("user {user} cannot become another")) }
}

fn software() {
    for &event in Software::ALL {
        let user_mode = Counter::open(&Attr::new(event));
        if matches!(event, Software::ContextSwitches | Software::CpuMigrations | Software::CgroupSwitches) {
            let error = user_mode.expect_err("counts nothing in user mode").to_string();
            assert!(error.starts_with(&format!("{}:u: it happens in the kernel only", event.name())), "{error}");
        } else {
            let counter = user_mode.unwrap_or_else(|error| panic!("{error}"));
            let value = count(&counter, || _ = perfmark_rdpmc::known_loop(1_000_000));
            assert!(!event_is_time(event) || value > 0, "{}", event.name());
        }
        match Counter::open(&Attr::new(event).kernel(true)) {
            Ok(counter) => assert!(counter.read().is_ok(), "{}", event.name()),
            // Rights, or a kernel before 5.13 without cgroup-switches.
            Err(error) => println!("{error}"),
        }
    }
}

fn event_is_time(event: Software) -> bool {
    Event::from(event).is_time()
}

fn page_faults() {
    const PAGES: usize = 100;
    let counters = ["page-faults", "minor-faults", "major-faults"].map(|name| open(&attr(name)));
    let memory = place::Memory::new(PAGES);
    let read = || counters.each_ref().map(|counter| counter.read().expect("readable").value);
    let before = read();
    memory.touch();
    let after = read();
    assert_eq!([0, 1, 2].map(|i| after[i] - before[i]), [PAGES as u64, PAGES as u64, 0]);
}

fn switches() {
    let switches = open(&all("context-switches"));
    assert_counts_switches(&switches);
    let migrations = open(&all("cpu-migrations"));
    let cpus = place::cpus();
    let moved = count(&migrations, || cpus.iter().for_each(|&cpu| place::move_to(cpu)));
    place::move_to_any(&cpus);
    assert!(moved + 1 >= cpus.len() as u64, "{moved} over {cpus:?}");
}

/// It counts the thread's switches, as the kernel accounts for them.
fn assert_counts_switches(counter: &Counter) {
    let mut accounted = 0;
    let told = count(counter, || {
        let before = place::switches();
        // They give the CPU away, unless the time is over before that.
        (0..20).for_each(|_| std::thread::sleep(std::time::Duration::from_micros(50)));
        accounted = place::switches() - before;
    });
    // Some more may come between the two readings.
    assert!(accounted > 0 && (accounted..=accounted + 5).contains(&told), "{told} of {accounted}");
}

static WRITTEN: AtomicU64 = AtomicU64::new(0);

fn breakpoint(access: Access) -> Attr {
    Attr::new(Breakpoint::on(&WRITTEN, access).expect("8 bytes"))
}

#[inline(never)]
fn write(times: u64) {
    (0..times).for_each(|i| WRITTEN.store(black_box(i), Relaxed));
}

fn writes() {
    let counter = open(&breakpoint(Access::Write));
    for times in [0, 1, 7, 1000] {
        assert_eq!(count(&counter, || write(times)), times);
    }
    assert_eq!(count(&counter, || _ = black_box(WRITTEN.load(Relaxed))), 0, "a read is no write");
    drop(counter);
    let both = open(&breakpoint(Access::ReadWrite));
    assert_eq!(count(&both, || _ = black_box(WRITTEN.load(Relaxed))), 1);
    assert_eq!(count(&both, || write(10)), 10);
    // Descriptors of the processor's breakpoints are given back: many more than there are, one after the other.
    drop(both);
    (0..20).for_each(|_| _ = open(&breakpoint(Access::Write)));
    let held: Vec<_> = std::iter::repeat_with(|| Counter::open(&breakpoint(Access::Write))).take(20).collect();
    let error = held.iter().find_map(|counter| counter.as_ref().err()).expect("no processor has 20").to_string();
    assert!(error.contains("ENOSPC") && error.contains("breakpoints are in use"), "{error}");
}

static CALLED: AtomicU32 = AtomicU32::new(0);

#[inline(never)]
extern "C" fn probed() {
    // Not fetch_add: x86 has no uprobes on instructions with a lock prefix.
    CALLED.store(CALLED.load(Relaxed) + 1, Relaxed);
}

fn uprobe() -> Result<Attr, String> {
    let (path, offset) =
        place::in_file(probed as *const ()).ok_or("this program's own place in its file is unknown")?;
    let text = format!("uprobe/path='{path}',offset={offset:#x}/");
    text.parse::<Event>().map(Attr::new).map_err(|error| error.to_string())
}

fn calls() {
    let counter = open(&uprobe().unwrap_or_else(|error| panic!("{error}")));
    for times in [0, 1, 7, 1000] {
        let function: extern "C" fn() = black_box(probed);
        assert_eq!(count(&counter, || (0..times).for_each(|_| function())), times);
    }
    let missing = attr("uprobe/path=/no/such/file,offset=0/");
    let error = Counter::open(&missing).expect_err("no such file").to_string();
    assert!(error.contains("ENOENT: there is no such file"), "{error}");
}

/// In a thread with a view of the file systems of its own, in which tracefs is mounted.
fn in_tracefs<R: Send>(work: impl FnOnce() -> Result<R, String> + Send) -> Result<R, String> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| place::mount_tracefs().and_then(|()| work()));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn tracepoint() {
    let told = in_tracefs(|| {
        let ask = |times: u64| (0..times).for_each(|_| _ = std::os::unix::process::parent_id());
        for attr in [all("syscalls:sys_enter_getppid"), attr("syscalls:sys_enter_getppid")] {
            let counter = open(&attr);
            for times in [0, 1, 7, 1000] {
                assert_eq!(count(&counter, || ask(times)), times, "{attr}");
            }
        }
        assert_counts_switches(&open(&all("sched:sched_switch")));
        let error = Counter::open(&attr("sched:sched_switch")).expect_err("counts nothing in user mode").to_string();
        assert!(error.contains("tracepoints are met in the kernel only"), "{error}");
        let error = Counter::open(&all("sched:sched_swich")).expect_err("no such tracepoint").to_string();
        assert!(error.contains("did you mean") && error.contains("sched_switch"), "{error}");
        Ok(())
    });
    told.unwrap_or_else(|error| panic!("{error}"));
}

/// Starts this program anew, to become another user while it has one thread alone.
fn another_user() {
    let run = || {
        let mut program = std::process::Command::new("/proc/self/exe");
        program.env(OTHER_USER, "1").output().map_err(|error| error.to_string())
    };
    let output = in_tracefs(run).or_else(|_| run()).unwrap_or_else(|error| panic!("{error}"));
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

mod other_user {
    use super::{Access, Counter, NOBODY, all, breakpoint, count, place, uprobe, write};

    pub(super) fn main() {
        let probe = uprobe();
        place::become_user(NOBODY);
        let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
        let level: i64 = level.trim().parse().unwrap_or(2);
        println!("as user {NOBODY}, kernel.perf_event_paranoid {level}:");
        match Counter::open(&breakpoint(Access::Write)) {
            Ok(counter) => {
                assert!(level < 3);
                assert_eq!(count(&counter, || write(1000)), 1000);
                println!("the breakpoint counts");
            }
            Err(error) => {
                assert_refused(level >= 3, &error.to_string(), &["EACCES", "CAP_SYS_ADMIN", "perf_event_paranoid=2"]);
            }
        }
        if let Ok(probe) = probe {
            let error = Counter::open(&probe).expect_err("uprobes are root's").to_string();
            assert_refused(true, &error, &["gave EACCES", "CAP_SYS_ADMIN"]);
        }
        if level >= 2 {
            let error = Counter::open(&all("context-switches")).expect_err("the kernel's part is root's").to_string();
            assert_refused(
                true,
                &error,
                &["gave EACCES", if level > 2 { "CAP_SYS_ADMIN" } else { "wants CAP_PERFMON, or level 1" }],
            );
        }
        let error = Counter::open(&all("sched:sched_switch")).expect_err("tracefs is root's").to_string();
        let mounted = error.contains("open gave EACCES") && error.contains("tracefs lets root alone look there");
        assert_refused(mounted || error.contains("is not mounted"), &error, &[]);
    }

    fn assert_refused(expected: bool, error: &str, told: &[&str]) {
        assert!(expected && told.iter().all(|part| error.contains(part)), "{error}");
        println!("{error}");
    }
}
