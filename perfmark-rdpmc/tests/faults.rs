//! What happens to a counter when the process forks, runs out of descriptors or locked memory, is filtered, or moves between CPUs.
//!
//! What changes a whole process happens in this program started anew, with `PERFMARK_TEST_SCENARIO`.
#![cfg(target_os = "linux")]

mod support;

use std::process::Command;
use std::{env, fs, io};

use perfmark_rdpmc::{Attr, Counter, Delta, Error, Event, Hardware, Reading, Region, Software, known_loop};
use support::trial;

const SCENARIO: &str = "PERFMARK_TEST_SCENARIO";

fn main() {
    if let Ok(scenario) = env::var(SCENARIO) {
        return run_scenario(&scenario);
    }
    support::run(
        vec![
            trial("a_forked_childs_counters_are_gone_and_the_parents_go_on", || fork(&Attr::new(Software::TaskClock))),
            trial("without_descriptors_it_is_told_and_nothing_leaks", || passes("descriptors")),
            trial("a_filter_that_answers_eperm_is_told_as_such", || passes("eperm")),
            trial("a_filter_that_answers_enosys_is_told_as_such", || passes("enosys")),
        ],
        &[
            ("a_forked_childs_hardware_counters_are_gone", || fork(&Attr::new(Hardware::Instructions))),
            ("a_child_keeps_no_counter_of_the_pmu_from_its_parent", a_child_keeps_no_counter_of_the_pmu),
            ("without_locked_memory_it_reads_by_the_kernel", without_locked_memory),
            ("a_million_reads_never_run_backwards", a_million_reads_never_run_backwards),
        ],
    );
}

/// Runs a scenario, which panics where it fails.
fn passes(scenario: &str) {
    let output = Command::new(env::current_exe().expect("known")).env(SCENARIO, scenario).output().expect("started");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

fn run_scenario(scenario: &str) {
    match scenario {
        "descriptors" => descriptors(),
        "eperm" => filtered(libc::EPERM, "EPERM"),
        "enosys" => filtered(libc::ENOSYS, "ENOSYS"),
        "no locked memory" => no_locked_memory(),
        _ => panic!("no scenario {scenario}"),
    }
}

/// None on a target without counters.
fn open(attr: &Attr) -> Option<Counter> {
    match Counter::open(attr) {
        Ok(counter) => Some(counter),
        Err(error) if error.is_unsupported() => None,
        Err(error) => panic!("{error}"),
    }
}

/// Forks, and gives what the child made of it: an exit status. The child ends without destructors.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child reads counters and exits.
    match unsafe { libc::fork() } {
        0 => {
            let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(false);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!passed)) }
        }
        child => {
            let mut status = -1;
            // SAFETY: a child of ours, and a live integer.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            status == 0
        }
    }
}

fn fork(attr: &Attr) {
    let Some(counter) = open(attr) else { return };
    let mut region = Region::default();
    counter.begin(&mut region);
    let before = counter.read().expect("readable");
    let _ = known_loop(10_000);
    assert!(in_child(|| {
        let says_so = |error: &Error| error.to_string().contains("forked");
        let is_gone = counter.read().is_err_and(|error| says_so(&error)) && counter.read_user().is_none();
        let cannot_stop = counter.disable().is_err_and(|error| says_so(&error));
        // Its own counts from here on.
        let own = open(attr).is_some_and(|own| {
            let before = own.read().expect("readable").value;
            let _ = known_loop(10_000);
            own.read().expect("readable").value > before
        });
        is_gone && cannot_stop && counter.end(&region) == Delta::Unmeasured && own
    }));
    let _ = known_loop(10_000);
    let Delta::Exact(value) = counter.read().expect("readable").since(&before) else { panic!("the parent's goes on") };
    assert!(value >= if attr.event() == &Event::from(Hardware::Instructions) { 40_000 } else { 1 });
    assert!(matches!(counter.end(&region), Delta::Exact(_)));
}

fn a_child_keeps_no_counter_of_the_pmu() {
    let open_all = || -> Vec<Counter> {
        (0..6).filter_map(|_| Counter::open(&Attr::new(Hardware::Instructions).pinned(true)).ok()).collect()
    };
    let counters = open_all();
    let on_the_pmu = |counters: &[Counter]| counters.iter().filter(|counter| counter.read().is_ok()).count();
    let fit = on_the_pmu(&counters);
    assert!(fit > 0);
    let (mut wait, mut ready, mut byte) = ([0; 2], [0; 2], [0_u8; 1]);
    // SAFETY: live memory for two descriptors each.
    assert_eq!(unsafe { (libc::pipe(wait.as_mut_ptr()), libc::pipe(ready.as_mut_ptr())) }, (0, 0));
    // SAFETY: the child says that it is there, waits for the end of the pipe, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: descriptors and memory of its own.
        unsafe {
            libc::close(wait[1]);
            libc::write(ready[1], byte.as_ptr().cast(), 1);
            libc::read(wait[0], byte.as_mut_ptr().cast(), 1);
            libc::_exit(0)
        }
    }
    // SAFETY: live memory for a byte.
    assert_eq!(unsafe { libc::read(ready[0], byte.as_mut_ptr().cast(), 1) }, 1);
    drop(counters);
    // While the child lives: a pinned event that finds no room is in error state, and cannot be read.
    let again = open_all();
    assert_eq!(on_the_pmu(&again), fit);
    // SAFETY: the pipe's ends, and a child of ours.
    unsafe {
        libc::close(wait[1]);
        for end in [wait[0], ready[0], ready[1]] {
            libc::close(end);
        }
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("there").count()
}

fn descriptors() {
    let attr = Attr::new(Software::TaskClock);
    if open(&attr).is_none() {
        return;
    }
    let before = open_descriptors();
    for _ in 0..100 {
        let _ = open(&attr);
        let _ = Counter::open(&Attr::new(Event::raw(u64::MAX)));
    }
    assert_eq!(open_descriptors(), before, "closed with their counters");
    let limit = libc::rlimit { rlim_cur: 3, rlim_max: 3 };
    // SAFETY: a live limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let error = Counter::open(&attr).expect_err("0, 1 and 2 are open");
    println!("{error}");
    assert_eq!(error.errno_name(), Some("EMFILE"));
    assert!(error.reason().contains("RLIMIT_NOFILE"), "{error}");
}

/// A seccomp filter that answers `perf_event_open(2)` so, as containers' do (`seccomp(2)`).
fn filtered(errno: i32, name: &str) {
    const NR: u32 = 0;
    let statement =
        |code: u32, k: u32| libc::sock_filter { code: u16::try_from(code).expect("small"), jt: 0, jf: 0, k };
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NR),
        libc::sock_filter {
            jf: 1,
            ..statement(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                u32::try_from(libc::SYS_perf_event_open).expect("small"),
            )
        },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | u32::try_from(errno).expect("small")),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    // SAFETY: a live program of that length.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if !installed {
        println!("skipped: no filter can be installed here: {}", io::Error::last_os_error());
        return;
    }
    let error = Counter::open(&Attr::new(Software::TaskClock)).expect_err("filtered");
    println!("{error}");
    assert!(error.is_unsupported() || error.errno_name() == Some(name), "{error}");
    assert!(error.is_unsupported() || error.reason().contains("filter"), "{error}");
}

/// As another user, while the system allows no locked memory: CI lets the machine with a PMU be changed so, and no other.
fn without_locked_memory() {
    const SETTINGS: [(&str, &str); 2] =
        [("/proc/sys/kernel/perf_event_mlock_kb", "0"), ("/proc/sys/kernel/perf_event_paranoid", "2")];
    if env::var_os("PERFMARK_TEST_MAY_CHANGE_SYSCTLS").is_none() {
        println!(
            "skipped: PERFMARK_TEST_MAY_CHANGE_SYSCTLS is not set, which lets this test set kernel.perf_event_mlock_kb to 0 for a moment"
        );
        return;
    }
    let before = SETTINGS.map(|(file, value)| {
        let before = fs::read_to_string(file).expect("readable");
        fs::write(file, value).expect("writable");
        (file, before)
    });
    let passed = std::panic::catch_unwind(|| passes("no locked memory"));
    for (file, value) in before {
        fs::write(file, value).expect("writable");
    }
    assert!(passed.is_ok());
}

fn no_locked_memory() {
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a live limit, and a user without rights.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit), 0);
        assert_eq!(libc::setuid(65_534), 0);
    }
    let counter = Counter::open(&Attr::new(Hardware::Instructions)).unwrap_or_else(|error| panic!("{error}"));
    let why = counter.user_reads().expect_err("no page");
    println!("{why}");
    assert!(why.contains("EPERM") && why.contains("perf_event_mlock_kb"), "{why}");
    let before = counter.read().expect("by the kernel");
    let length = known_loop(1_000_000);
    let Delta::Exact(value) = counter.read().expect("by the kernel").since(&before) else { panic!("not exact") };
    assert!((length..length + 5_000).contains(&value), "{value}");
}

/// While other threads push this one from CPU to CPU, where there are several.
fn a_million_reads_never_run_backwards() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    static DONE: AtomicBool = AtomicBool::new(false);
    let cpus = std::thread::available_parallelism().map_or(1, Into::into);
    let busy: Vec<_> = (0..cpus)
        .map(|_| {
            std::thread::spawn(|| {
                while !DONE.load(Relaxed) {
                    let _ = known_loop(1_000);
                }
            })
        })
        .collect();
    let counter = Counter::open(&Attr::new(Hardware::Instructions)).expect("there is a PMU");
    let start = counter.read().expect("readable");
    let (mut last, mut region, mut changes) = (start, Region::default(), 0);
    for n in 0..1_000_000_u64 {
        let lock = counter.page_lock();
        counter.begin(&mut region);
        let reading: Reading = counter.read().expect("readable");
        let Delta::Exact(inside) = counter.end(&region) else { panic!("it has the PMU for itself") };
        let Delta::Exact(step) = reading.since(&last) else { panic!("{last:?} {reading:?}") };
        // On several CPUs the emulator adds what the others do; a torn or wrapped value would be off by 2^31 and more.
        assert!(step < 1 << 31 && inside < 1 << 31, "{n}: {step} {inside}");
        changes += u32::from(counter.page_lock() != lock);
        last = reading;
    }
    DONE.store(true, Relaxed);
    for thread in busy {
        thread.join().expect("does not panic");
    }
    println!("{cpus} CPUs: a million reads forward by {}, the page changed under {changes}", last.value - start.value);
}
