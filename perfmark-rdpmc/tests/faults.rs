//! Counters when the process forks, runs out of descriptors or locked memory, is filtered, or moves between CPUs.
//!
//! A scenario that changes the entire process runs in a new process of this program, with `PERFMARK_TEST_SCENARIO`.
#![cfg(target_os = "linux")]

mod allocator;
mod child;
mod forks;
mod seccomp;
mod support;
mod reused_numbers;

use std::{env, fs, thread};

use child::passes;
use perfmark_rdpmc::{
    Attr, Counter, Delta, Event, Group, Hardware, Reading, Region, Software, Target, TargetCounter, TargetGroup, clock,
    known_loop,
};
use support::{open_if_supported as open, trial};

/// Tests that change the entire process.
const ALONE: [(&str, fn()); 13] = [
    ("a_forked_child_closes_no_other_files", forks::closed_by_another),
    ("a_fork_in_a_thread_locals_destructor_works", forks::at_a_threads_end),
    ("forks_work_while_threads_open_and_close_counters", forks::beside_openings),
    ("fork_handlers_that_run_before_this_crates_may_use_counters", forks::handlers::earlier),
    ("counters_of_the_parent_fail_in_a_programs_fork_handlers", forks::handlers::of_a_program),
    ("descriptor_numbers_of_other_files_are_not_used", reused_numbers::all_kinds),
    ("an_allocator_may_open_counters", allocator::opens_counters),
    ("running_out_of_descriptors_is_reported", descriptors),
    ("closed_and_partly_opened_counters_leak_nothing", leaks),
    ("a_filter_that_returns_eperm_is_reported", || filtered(libc::EPERM)),
    ("a_filter_that_returns_enosys_is_reported", || filtered(libc::ENOSYS)),
    ("a_filter_that_raises_a_signal_is_reported", trapped),
    ("a_filter_that_forbids_fcntl_is_reported", without_fcntl),
];

/// The same, on a PMU.
const ALONE_ON_PMU: [(&str, fn()); 3] = [
    ("page's address used again", forks::address_used_again),
    ("reused off the PMU", reused_numbers::multiplexed),
    ("no locked memory", no_locked_memory),
];

fn main() {
    if child::runs_scenario(&[&ALONE[..], &ALONE_ON_PMU].concat()) {
        return;
    }
    let fork = trial("counters_fail_in_a_forked_child_and_continue_in_the_parent", || {
        forks::fork(&Attr::new(Software::TaskClock));
    });
    support::run(
        ALONE.iter().map(|&(name, _)| trial(name, || passes(name))).chain([fork]).collect(),
        &[
            ("hardware_counters_fail_in_a_forked_child", || forks::fork(&Attr::new(Hardware::Instructions))),
            ("a_child_keeps_no_counter_of_the_pmu_from_its_parent", forks::a_child_keeps_no_counter_of_the_pmu),
            ("a_forked_child_keeps_mappings_at_the_address_of_a_former_page", || passes("page's address used again")),
            ("descriptor_numbers_of_other_files_are_not_used_off_the_pmu", || passes("reused off the PMU")),
            ("without_locked_memory_counters_are_read_by_the_kernel", without_locked_memory),
            ("a_million_reads_never_run_backwards", a_million_reads_never_run_backwards),
        ],
    );
}

/// Instructions if there is a PMU, so that there are pages as well; otherwise a software event.
fn best_attr() -> Attr {
    let hardware = Attr::new(Hardware::Instructions);
    if Counter::open(&hardware).is_ok() { hardware } else { Attr::new(Software::TaskClock) }
}

/// Sets the limit on descriptors, and returns the previous one.
fn limit_descriptors(to: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: live limits.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, to);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        before
    }
}

fn descriptors() {
    let attr = best_attr();
    let Some(earlier) = open(&attr) else { return };
    let before = limit_descriptors(3);
    for error in [
        Counter::open(&attr).expect_err("0, 1 and 2 are open"),
        Group::open(std::slice::from_ref(&attr)).expect_err("as above"),
    ] {
        println!("{error}");
        // For a hardware event the list of PMUs is read first.
        let (call, cause) = error.reason().split_once(" failed with ").expect("an errno");
        assert!(["perf_event_open", "reading /sys/bus/event_source/devices"].contains(&call), "{error}");
        assert_eq!(cause, "EMFILE: this process has no file descriptor left; raise RLIMIT_NOFILE (`ulimit -n`)");
    }
    still_works(&earlier);
    limit_descriptors(before);
    still_works(&open(&attr).expect("there are descriptors again"));
}

/// Checks that existing counters and the tick counter still work.
fn still_works(counter: &Counter) {
    let ticks = clock::ticks();
    assert!(forks::continues(counter) && clock::ticks() > ticks, "{counter:?}");
}

/// The number of descriptors and of perf event mappings of this process.
fn open_resources() -> (usize, usize) {
    let descriptors = fs::read_dir("/proc/self/fd").expect("there").count();
    let maps = fs::read_to_string("/proc/self/maps").expect("there");
    (descriptors, maps.lines().filter(|line| line.contains("[perf_event]")).count())
}

fn leaks() {
    let attr = best_attr();
    if open(&attr).is_none() {
        return;
    }
    let (none, group) = (Attr::new(Event::raw(u64::MAX)), |count| vec![attr.clone(); count]);
    let followed_by = |last: &Attr| [group(3), vec![last.clone()]].concat();
    let before = open_resources();
    for _ in 0..100 {
        let counter = open(&attr);
        let three = Group::open(&group(3)).expect("opens");
        let pages = if attr.event().is_hardware() { 4 } else { 0 };
        assert_eq!(open_resources(), (before.0 + 4, before.1 + pages), "{counter:?} {three:?}");
        let _ = Counter::open(&none);
        assert!(!attr.event().is_hardware() || Group::open(&group(40)).is_err(), "no PMU has 40 counters");
        // Refused with three members open: by the kernel, by the name, and because kernel mode is not counted.
        let _ = Group::open(&followed_by(&none));
        Group::open(&followed_by(&Attr::new("no-such-event".parse::<Event>().expect("a name")))).expect_err("unknown");
        Group::open(&followed_by(&Attr::new(Software::ContextSwitches))).expect_err("counts nothing");
    }
    assert_eq!(open_resources(), before);
    // With descriptors for only some of them. Opening needs one more for a moment.
    let (first, mut opened) = (before.0 as u64 - 1, 0);
    for spare in 0..=8 {
        let all = limit_descriptors(first + spare);
        let four = Group::open(&group(4));
        limit_descriptors(all);
        match &four {
            Ok(_) => opened += 1,
            Err(error) => assert_eq!(error.errno_name(), Some("EMFILE"), "{spare} descriptors: {error}"),
        }
        drop(four);
        assert_eq!(open_resources(), before, "{spare} descriptors");
    }
    assert!((1..8).contains(&opened), "{opened} of 9 groups");
}

/// A seccomp filter refuses `perf_event_open(2)`, as in many containers.
fn filtered(errno: i32) {
    let cause = if errno == libc::EPERM {
        "EPERM: a seccomp filter or a security module refuses it (common in containers); allow perf_event_open there"
    } else {
        "ENOSYS: the kernel has no perf events, or a seccomp filter (common in containers) or an emulator hides them"
    };
    let attr = best_attr();
    let Some(earlier) = open(&attr) else { return };
    if let Err(why) = seccomp::refuse(&[libc::SYS_perf_event_open], errno) {
        println!("skipped: no filter can be installed here: {why}");
        return;
    }
    let refused = || {
        let software = Attr::new(Software::TaskClock);
        for error in [
            Counter::open(&software).expect_err("filtered"),
            Counter::open(&Attr::new(Hardware::Instructions)).expect_err("filtered"),
            Group::open(&[software]).expect_err("filtered"),
        ] {
            println!("{error}");
            assert_eq!(error.reason(), format!("perf_event_open failed with {cause}"));
        }
    };
    refused();
    still_works(&earlier);
    // The error is the same for a user without permissions, for whom the level may also be too high.
    // SAFETY: no preconditions; the program has one thread.
    if unsafe { libc::geteuid() == 0 && libc::setuid(65_534) == 0 } {
        refused();
        still_works(&earlier);
    }
}

/// A sandbox's filter raises SIGSYS, and the handler lets the call fail.
fn trapped() {
    extern "C" fn fail(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel passes a context.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
        let result = i64::from(-libc::EPERM);
        #[cfg(target_arch = "x86_64")]
        (registers.gregs[usize::try_from(libc::REG_RAX).expect("an index")] = result);
        #[cfg(target_arch = "aarch64")]
        (registers.regs[0] = result.cast_unsigned());
        #[cfg(target_arch = "riscv64")]
        (registers.__gregs[libc::REG_A0] = result.cast_unsigned());
    }
    // SAFETY: a zeroed action has an empty mask. The handler changes one register.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = fail as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()), 0);
    }
    if let Err(why) = seccomp::answer_to(&[libc::SYS_perf_event_open], libc::SECCOMP_RET_TRAP) {
        println!("skipped: no filter can be installed here: {why}");
        return;
    }
    let error = Counter::open(&Attr::new(Software::TaskClock)).expect_err("filtered");
    assert_eq!(error.errno_name(), Some("EPERM"), "{error}");
}

/// Without `fcntl`, descriptors cannot be distinguished from other files', and so are not read.
fn without_fcntl() {
    if let Err(why) = seccomp::refuse(&[libc::SYS_fcntl], libc::EPERM) {
        println!("skipped: no filter can be installed here: {why}");
        return;
    }
    let attr = Attr::new(Software::TaskClock);
    let target = Target::thread(std::process::id());
    let counter = Counter::open(&attr).and_then(|counter| counter.read());
    let of_target = TargetCounter::open(&attr, &target).and_then(|counter| counter.read());
    let group = TargetGroup::open(&[attr], &target).and_then(|group| group.read().map(|_| Reading::default()));
    for result in [counter, of_target, group] {
        let error = result.expect_err("not readable");
        assert!(error.reason().starts_with("fcntl(F_SETFL) failed with EPERM"), "{error}");
    }
}

/// Runs as another user, while the system allows no locked memory. CI allows this change only on the machine with a
/// PMU.
fn without_locked_memory() {
    const SETTINGS: [(&str, &str); 2] =
        [("/proc/sys/kernel/perf_event_mlock_kb", "0"), ("/proc/sys/kernel/perf_event_paranoid", "2")];
    if env::var_os("PERFMARK_TEST_MAY_CHANGE_SYSCTLS").is_none() {
        println!(
            "skipped: PERFMARK_TEST_MAY_CHANGE_SYSCTLS is not set; it allows this test to set \
             kernel.perf_event_mlock_kb to 0 temporarily"
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
    // SAFETY: a live limit, and a user without permissions.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit), 0);
        assert_eq!(libc::setuid(65_534), 0);
    }
    let counter = Counter::open(&Attr::new(Hardware::Instructions)).expect("opens");
    let why = counter.user_reads().expect_err("no page");
    println!("{why}");
    assert_eq!(why, "EPERM: no locked memory is left for the counter's page; raise kernel.perf_event_mlock_kb");
    let group = Group::open(&vec![Attr::new(Hardware::Instructions); 2]).expect("opens");
    assert!(group.read_user().is_none() && group.read().is_ok(), "by the kernel");
    let before = counter.read().expect("by the kernel");
    let length = known_loop(1_000_000);
    let Delta::Exact(value) = counter.read().expect("by the kernel").since(&before) else { panic!("not exact") };
    assert!((length..length + 5_000).contains(&value), "{value}");
}

/// Other threads push this one from CPU to CPU, if there are several.
fn a_million_reads_never_run_backwards() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    static DONE: AtomicBool = AtomicBool::new(false);
    let cpus = thread::available_parallelism().map_or(1, Into::into);
    let busy: Vec<_> = (0..cpus)
        .map(|_| {
            thread::spawn(|| {
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
        // On several CPUs the emulator adds what the other threads do; a torn or wrapped value would be off by 2^31 and
        // more.
        assert!(step < 1 << 31 && inside < 1 << 31, "{n}: {step} {inside}");
        changes += u32::from(counter.page_lock() != lock);
        last = reading;
    }
    DONE.store(true, Relaxed);
    for thread in busy {
        thread.join().expect("does not panic");
    }
    println!(
        "{cpus} CPUs: a million reads advanced by {}, the page changed during {changes}",
        last.value - start.value
    );
}
