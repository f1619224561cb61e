//! Counters of other processes, of entire CPUs and of cgroups.
//!
//! Each test first checks whether the kernel allows what it needs. If not, it is reported as ignored, with the kernel's
//! error. Workers are new processes of this program, with `PERFMARK_TEST_SCENARIO`.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports, reason = "only for linux"))]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{env, fs, io, thread};

use perfmark_rdpmc::sample::Sampler;
use perfmark_rdpmc::{Attr, Delta, Error, Event, Hardware, Software, Target, TargetCounter, TargetGroup};
use support::{Case, exact};

mod child;
mod memory;
mod process;
#[allow(dead_code, reason = "other test programs use the rest")]
mod support;

/// The user `nobody` on Debian.
const NOBODY: libc::uid_t = 65534;
/// The pages that a worker touches. It has far fewer page faults of its own.
const PAGES: u64 = 1_000;
const LOOP: u64 = 1_000_000;

fn main() {
    match env::var(child::SCENARIO).as_deref() {
        Ok("worker") => return work(),
        Ok("worker of nobody") => {
            process::become_user(NOBODY);
            return work();
        }
        Ok("nobody's errors") => return errors_of_nobody(),
        _ => {}
    }
    let faults = || TargetCounter::open(&page_faults(), &Target::this_thread()).map(drop);
    let cases: [Case<Error>; 12] = [
        ("another_process_is_counted_from_any_thread", faults, another_process),
        ("a_group_counts_another_process", faults, group),
        ("the_last_count_of_an_ended_thread_can_be_read", faults, ended_thread),
        ("a_counter_starts_and_stops", faults, requests),
        ("new_children_are_counted_if_the_event_inherits", faults, children),
        ("an_exec_starts_a_counter_that_waits_for_it", faults, exec),
        ("a_thread_is_counted_on_the_cpu_that_was_named", faults, on_cpu),
        ("a_forked_child_cannot_use_it", faults, forked),
        ("what_does_not_exist_is_named", faults, missing),
        ("an_entire_cpu_is_counted", || whole_cpu().map(drop), entire_cpu),
        ("a_cgroup_is_counted_and_nothing_else", || Cgroup::new("possible")?.open().map(drop), cgroup),
        ("another_users_process_is_counted_and_requires_a_permission", is_root, another_users_process),
    ];
    let on_pmu: Case<Error> =
        ("instructions_of_another_users_process_are_counted", has_pmu, instructions_of_another_user);
    support::run_possible(cases.into_iter().chain([on_pmu]));
}

fn page_faults() -> Attr {
    Attr::new(Software::PageFaults)
}

fn open(attr: &Attr, target: &Target) -> TargetCounter {
    TargetCounter::open(attr, target).expect("opens")
}

/// What `counter` counts during `work`.
fn count(counter: &TargetCounter, work: impl FnOnce()) -> u64 {
    let before = counter.read().expect("readable");
    work();
    exact(counter.read().expect("readable").since(&before))
}

/// A process that works for each line that it is sent.
struct Worker {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn new(scenario: &str) -> Self {
        let mut command = Command::new(env::current_exe().expect("known"));
        command.env(child::SCENARIO, scenario).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("starts");
        let (orders, answers) = (process.stdin.take().expect("piped"), process.stdout.take().expect("piped"));
        let mut worker = Self { process, orders, answers: BufReader::new(answers) };
        // It has become another user, and has had its first page faults.
        worker.touch(0);
        worker
    }

    fn target(&self) -> Target {
        Target::thread(self.process.id())
    }

    /// Executes a loop of known length, touches that many pages, and then waits.
    fn touch(&mut self, pages: u64) {
        writeln!(self.orders, "{pages}").expect("it reads");
        let mut done = String::new();
        self.answers.read_line(&mut done).expect("it writes");
        assert_eq!(done, "done\n");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn work() {
    for order in io::stdin().lines() {
        let pages = order.expect("a line").parse().expect("a number");
        let _ = perfmark_rdpmc::known_loop(LOOP);
        memory::faults(pages);
        println!("done");
    }
}

fn another_process() {
    let mut worker = Worker::new("worker");
    let counter = open(&page_faults(), &worker.target());
    let clock = open(&Attr::new(Software::TaskClock), &worker.target());
    thread::spawn(move || {
        let idle = count(&counter, || worker.touch(0));
        let busy = count(&counter, || worker.touch(PAGES));
        println!("{idle} faults, and {busy} with {PAGES} pages touched");
        assert!(idle < PAGES && busy >= PAGES, "{idle} and {busy}");
        assert!(count(&clock, || worker.touch(0)) > 0);
    })
    .join()
    .expect("any thread may read it");
}

fn group() {
    let mut worker = Worker::new("worker");
    let attrs = [Attr::new(Software::TaskClock), page_faults()];
    let group = TargetGroup::open(&attrs, &worker.target()).expect("opens");
    let before = group.read().expect("readable");
    worker.touch(PAGES);
    let after = group.read().expect("readable");
    let [Delta::Exact(nanoseconds), Delta::Exact(faults)] = after.since(&before)[..] else { panic!("{after:?}") };
    assert!(nanoseconds > 0 && faults >= PAGES, "{faults} in {nanoseconds} ns");
    group.disable().expect("allowed");
    let before = group.read().expect("readable");
    worker.touch(PAGES);
    assert_eq!(group.read().expect("readable"), before, "stopped");
}

fn ended_thread() {
    let (started, tid) = std::sync::mpsc::channel();
    let (go, ready) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        started.send(process::gettid()).expect("received");
        ready.recv().expect("sent");
        memory::faults(usize::try_from(PAGES).expect("few"));
    });
    let counter = open(&page_faults(), &Target::thread(tid.recv().expect("sent")));
    go.send(()).expect("received");
    thread.join().expect("does not panic");
    let value = counter.read().expect("readable").value;
    assert!(value >= PAGES, "{value}");
}

fn requests() {
    let mut worker = Worker::new("worker");
    let counter = open(&page_faults().disabled(true), &worker.target());
    worker.touch(PAGES);
    let read = || counter.read().expect("readable");
    assert_eq!((read().value, read().enabled), (0, 0), "opened stopped");
    counter.enable().expect("allowed");
    worker.touch(PAGES);
    counter.disable().expect("allowed");
    let stopped = read();
    assert!(stopped.value >= PAGES, "{stopped:?}");
    worker.touch(PAGES);
    assert_eq!(read(), stopped, "stopped again");
    assert_ne!(counter.id().expect("readable"), 0);
}

fn children() {
    for inherit in [false, true] {
        let counter = open(&page_faults().inherit(inherit), &Target::this_thread());
        let mut worker = Worker::new("worker");
        let faults = count(&counter, || worker.touch(PAGES));
        assert_eq!(faults >= PAGES, inherit, "{faults} faults of a child");
    }
}

fn exec() {
    let mut waits = Command::new("sh");
    waits.args(["-c", "read -r _ && exec true"]).stdin(Stdio::piped());
    for on_exec in [false, true] {
        let mut process = waits.spawn().expect("starts");
        let attr = page_faults().disabled(true).enable_on_exec(on_exec);
        let counter = open(&attr, &Target::thread(process.id()));
        let group = TargetGroup::open(&[attr.clone(), attr], &Target::thread(process.id())).expect("opens");
        assert_eq!(counter.read().map(|reading| reading.value), Ok(0));
        process.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
        assert!(process.wait().expect("waited for").success());
        let faults = counter.read().expect("readable").value;
        assert_eq!(faults > 0, on_exec, "{faults} faults after the exec");
        assert_eq!(
            group.read().map(|reading| reading.values),
            Ok(vec![faults; 2]),
            "all members start with the leader"
        );
    }
}

/// Its own CPU counts it, and no other one does.
fn on_cpu() {
    let cpus = process::cpus();
    thread::spawn(move || {
        process::move_to(cpus[0]);
        for &cpu in &cpus {
            let on = u32::try_from(cpu).expect("small");
            let own = |target: Target| open(&page_faults(), &target.on_cpu(on));
            for counter in [own(Target::this_thread()), own(Target::thread(process::gettid()))] {
                let memory = memory::Memory::new(usize::try_from(PAGES).expect("few"));
                let before = counter.read().expect("readable");
                memory.touch();
                let faults = counter.read().expect("readable").value - before.value;
                assert_eq!(faults >= PAGES, cpu == cpus[0], "{faults} on CPU {cpu}");
            }
        }
    })
    .join()
    .expect("counted");
}

fn forked() {
    let counter = open(&page_faults(), &Target::this_thread());
    let group = TargetGroup::open(&[page_faults()], &Target::this_thread()).expect("opens");
    let belongs = |error: Error| error.to_string().contains("belongs to the parent");
    assert!(child::in_child(child::fork, || {
        counter.read().is_err_and(belongs) && counter.disable().is_err() && group.read().is_err_and(belongs)
    }));
    assert!(counter.read().is_ok() && group.read().is_ok(), "the parent's continue");
}

fn missing() {
    let refused = |target: &Target| TargetCounter::open(&page_faults(), target).expect_err("missing").to_string();
    for tid in [0, 0x3fff_ffff, u32::MAX] {
        let thread = refused(&Target::thread(tid));
        assert!(thread.contains(&format!("ESRCH: there is no thread {tid}; it may have ended")), "{thread}");
    }
    let file = Target::cgroup("/proc/self/maps", 0).expect_err("no directory").to_string();
    assert!(file.contains("ENOTDIR: a cgroup is a directory"), "{file}");
    for path in ["", "a\0b"] {
        let why = Target::cgroup(path, 0).expect_err("no path").to_string();
        assert!(why.starts_with(&format!("cgroup {path:?}: it is not a path")), "{why}");
    }
    let sampler = Sampler::new(Attr::new(Software::CpuClock)).target(Target::cpu(0)).signal(libc::SIGUSR1);
    let signals = sampler.open().expect_err("no thread").to_string();
    assert!(signals.contains("signals are sent to the sampled thread"), "{signals}");
    let cpu = refused(&Target::this_thread().on_cpu(0xffff));
    assert!(cpu.contains("there is no CPU 65535, or it is offline; online are 0"), "{cpu}");
    if let Err(error) = whole_cpu() {
        return println!("not run: a directory that is no cgroup: {error}");
    }
    let directory = refused(&Target::cgroup("/proc/self", 0).expect("readable"));
    assert!(directory.contains("EBADF: /proc/self is not the directory of a cgroup"), "{directory}");
}

/// A counter of all page faults on the first CPU that this process may use.
fn whole_cpu() -> Result<(usize, TargetCounter), Error> {
    let cpu = process::cpus()[0];
    TargetCounter::open(&page_faults(), &Target::cpu(u32::try_from(cpu).expect("small"))).map(|counter| (cpu, counter))
}

fn entire_cpu() {
    let (cpu, faults) = whole_cpu().expect("opens");
    let clock = open(&Attr::new(Software::CpuClock), &Target::cpu(u32::try_from(cpu).expect("small")));
    thread::spawn(move || {
        process::move_to(cpu);
        let counted = count(&faults, || memory::faults(usize::try_from(PAGES).expect("few")));
        assert!(counted >= PAGES, "{counted}");
        let nanoseconds = count(&clock, || _ = perfmark_rdpmc::known_loop(LOOP));
        println!("{counted} faults; {nanoseconds} ns of CPU {cpu}");
        assert!(nanoseconds > 0);
    })
    .join()
    .expect("counted");
}

/// A new cgroup, removed on drop.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str) -> Result<Self, Error> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mount = |line: &str| {
            let mut fields = line.split(' ').skip(1);
            let (directory, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
            let counts = kind == "cgroup2" || kind == "cgroup" && options.split(',').any(|one| one == "perf_event");
            counts.then(|| PathBuf::from(directory))
        };
        let root = mounts.lines().find_map(mount).unwrap_or_else(|| {
            if let Err(error) = process::mount(c"cgroup2", c"/sys/fs/cgroup") {
                println!("cgroups cannot be mounted: {error}");
            }
            // Linux adds the controller perf_event to cgroups together with the first other controller.
            if let Err(error) = fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+pids") {
                println!("controllers cannot be enabled: {error}");
            }
            "/sys/fs/cgroup".into()
        });
        let path = root.join(format!("perfmark-{name}-{}", std::process::id()));
        // If it cannot be created, the error of `Target::cgroup` says that it is missing.
        if let Err(error) = fs::create_dir(&path) {
            println!("{}: {error}", path.display());
        }
        Target::cgroup(&path, 0).map(|_| Self(path))
    }

    /// A counter of its page faults on each CPU.
    fn open(&self) -> Result<Vec<TargetCounter>, Error> {
        let cpus = process::cpus().into_iter().map(|cpu| u32::try_from(cpu).expect("small"));
        cpus.map(|cpu| TargetCounter::open(&page_faults(), &Target::cgroup(&self.0, cpu)?)).collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        _ = fs::remove_dir(&self.0);
    }
}

fn cgroup() {
    let cgroup = Cgroup::new("counted").expect("readable");
    let counters = cgroup.open().expect("opens");
    let mut worker = Worker::new("worker");
    fs::write(cgroup.0.join("cgroup.procs"), worker.process.id().to_string()).expect("root may");
    let sum = || -> u64 { counters.iter().map(|counter| counter.read().expect("readable").value).sum() };
    let before = sum();
    memory::faults(usize::try_from(PAGES).expect("few"));
    let outside = sum() - before;
    worker.touch(PAGES);
    let inside = sum() - before;
    println!("{outside} faults while this process touched {PAGES} pages, {inside} after the cgroup's did");
    assert!(outside < PAGES && inside >= PAGES, "{outside} and {inside}");
}

fn is_root() -> Result<(), Error> {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        return whole_cpu().map(drop);
    }
    // Of init, which is root's.
    TargetCounter::open(&page_faults(), &Target::thread(1)).map(drop)
}

fn another_users_process() {
    let mut worker = Worker::new("worker of nobody");
    let counter = open(&page_faults(), &worker.target());
    assert!(count(&counter, || worker.touch(PAGES)) >= PAGES);
    child::passes("nobody's errors");
}

/// As another user, of a process of root.
fn errors_of_nobody() {
    process::become_user(NOBODY);
    if let Err(error) = TargetCounter::open(&page_faults(), &Target::this_thread()) {
        return println!("skipped: {error}");
    }
    for (target, cause) in [
        (Target::thread(1), "thread 1 belongs to user 0, and this process to 65534; counting it requires CAP_PERFMON"),
        (Target::cpu(0), "counting an entire CPU requires CAP_PERFMON, or level 0"),
    ] {
        match TargetCounter::open(&page_faults(), &target) {
            Ok(_) => println!("kernel.perf_event_paranoid allows {target:?}"),
            Err(error) => {
                println!("{error}");
                assert!(error.errno_name() == Some("EACCES") && error.reason().contains(cause), "{error}");
            }
        }
    }
}

fn has_pmu() -> Result<(), Error> {
    is_root()?;
    TargetCounter::open(&Attr::new(Hardware::Instructions), &Target::this_thread()).map(drop)
}

fn instructions_of_another_user() {
    let mut worker = Worker::new("worker of nobody");
    let counter = open(&Attr::new(Event::from(Hardware::Instructions)), &worker.target());
    let instructions = count(&counter, || worker.touch(0));
    println!("{instructions} instructions of a loop with {LOOP} iterations");
    assert!(instructions >= LOOP, "{instructions}");
}
