//! The kernel's own events on this machine's kernel: software events, tracepoints, breakpoints and probes; as root, and
//! as another user.
//!
//! Each test first checks whether the kernel allows what it needs. If not, it is reported as ignored, with the kernel's
//! error.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports, reason = "only for linux"))]

use std::hint::black_box;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use perfmark_rdpmc::sample::{Body, Sampler};
use perfmark_rdpmc::{Access, Attr, Breakpoint, Counter, Event, Group, Software, Target, TargetCounter, TargetGroup};
use support::{Case, exact};

mod child;
mod memory;
mod process;
#[allow(dead_code, reason = "other test programs use the rest")]
mod support;

/// The user `nobody` on Debian.
const NOBODY: libc::uid_t = 65534;

fn main() {
    if std::env::var_os(child::SCENARIO).is_some() {
        return other_user::main();
    }
    // For all tests, and their processes.
    if let Err(why) = process::mount_tracefs() {
        eprintln!("tracefs is not mounted: {why}");
    }
    let cases: [Case<String>; 13] = [
        ("every_software_event_opens_or_is_refused_with_a_reason", || allowed(&attr("page-faults")), software),
        ("page_faults_are_counted_exactly", || allowed(&attr("page-faults")), page_faults),
        ("switches_and_migrations_are_counted_with_kernel_mode", || allowed(&all("cs")), switches),
        ("a_breakpoint_counts_the_writes_of_a_variable_exactly", || allowed(&breakpoint(Access::Write)), writes),
        ("user_mode_and_kernel_mode_are_counted_apart", || allowed(&all("page-faults")), modes),
        ("breakpoints_of_every_length_and_on_execution_count", || allowed(&breakpoint(Access::Write)), lengths),
        ("an_exec_closes_every_descriptor", || allowed(&attr("page-faults")), descriptors),
        ("a_tracepoint_counts_exactly", || allowed(&all("syscalls:sys_enter_getppid")), tracepoint),
        ("a_filter_leaves_out_what_does_not_pass", || allowed(&all(PRIORITY)), filtered),
        ("a_bpf_program_decides_what_is_counted", || program(1).and(allowed(&all(GROUP))), by_program),
        ("a_bpf_program_writes_to_a_ring", || program(1).and(allowed(&all(GROUP))), written_by_program),
        ("a_uprobe_counts_the_calls_of_a_function_exactly", || allowed(&uprobe()?), calls),
        ("another_user_may_count_by_breakpoints_and_learns_what_the_rest_requires", is_root, another_user),
    ];
    support::run_possible(cases);
}

fn attr(text: &str) -> Attr {
    Attr::new(text.parse::<Event>().expect("well formed"))
}

/// With kernel mode.
fn all(text: &str) -> Attr {
    attr(text).kernel(true)
}

fn allowed(attr: &Attr) -> Result<(), String> {
    Counter::open(attr).map(|_| ()).map_err(|error| error.to_string())
}

fn open(attr: &Attr) -> Counter {
    Counter::open(attr).expect("opens")
}

/// What `counter` counts during `work`.
fn count(counter: &Counter, work: impl FnOnce()) -> u64 {
    let before = counter.read().expect("readable");
    work();
    exact(counter.read().expect("readable").since(&before))
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
            assert!(error.starts_with(&format!("{}:u: it happens in kernel mode only", event.name())), "{error}");
        } else {
            let counter = user_mode.expect("opens");
            let value = count(&counter, || _ = perfmark_rdpmc::known_loop(1_000_000));
            assert!(!counter.event().is_time() || value > 0, "{}", event.name());
        }
        match Counter::open(&Attr::new(event).kernel(true)) {
            Ok(counter) => assert!(counter.read().is_ok(), "{}", event.name()),
            // No permission, or a kernel before 5.13 without cgroup-switches.
            Err(error) => println!("{error}"),
        }
    }
}

fn page_faults() {
    const PAGES: usize = 100;
    let counters = ["page-faults", "minor-faults", "major-faults"].map(|name| open(&attr(name)));
    // The code itself may not be mapped yet.
    memory::faults(1);
    let memory = memory::Memory::new(PAGES);
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
    let cpus = process::cpus();
    let moved = count(&migrations, || cpus.iter().for_each(|&cpu| process::move_to(cpu)));
    process::move_to_any(&cpus);
    assert!(moved + 1 >= cpus.len() as u64, "{moved} over {cpus:?}");
}

/// Checks that it counts the thread's switches as the kernel accounts for them.
fn assert_counts_switches(counter: &Counter) {
    const SWITCHES: u64 = 20;
    let (outer, mut inner) = (process::switches(), 0);
    let value = count(counter, || {
        let before = process::switches();
        // A sleep does not yield the CPU if its time is already over.
        while inner < SWITCHES {
            std::thread::sleep(std::time::Duration::from_micros(50));
            inner = process::switches() - before;
        }
    });
    // Others may occur between the readings of the one and of the other.
    let outer = process::switches() - outer;
    assert!((inner..=outer).contains(&value), "{value}, not from {inner} to {outer}");
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
    // The processor's breakpoints are released: opens many more than exist, one after the other.
    drop(both);
    (0..20).for_each(|_| _ = open(&breakpoint(Access::Write)));
    let opened: Vec<_> = std::iter::repeat_with(|| Counter::open(&breakpoint(Access::Write))).take(20).collect();
    let error = opened.iter().find_map(|counter| counter.as_ref().err()).expect("no processor has 20").to_string();
    assert!(error.contains("ENOSPC") && error.contains("breakpoints are in use"), "{error}");
    let error = Counter::open(&attr("5:0")).expect_err("neither reads, writes nor executions");
    assert_eq!(error.errno_name(), Some("EINVAL"), "{error}");
}

/// A page fault in user mode, and one of `read(2)` in kernel mode.
fn modes() {
    const PAGES: usize = 100;
    let counters = ["page-faults:u", "page-faults:k", "page-faults:uk"].map(|text| open(&attr(text)));
    let zeros = std::fs::File::open("/dev/zero").expect("there");
    let counted = |work: &dyn Fn(&memory::Memory)| {
        // The code itself may not be mapped yet.
        work(&memory::Memory::new(PAGES));
        let memory = memory::Memory::new(PAGES);
        let read = || counters.each_ref().map(|counter| counter.read().expect("readable").value);
        let before = read();
        work(&memory);
        let after = read();
        [0, 1, 2].map(|i| after[i] - before[i])
    };
    assert_eq!(counted(&memory::Memory::touch), [PAGES as u64, 0, PAGES as u64]);
    let in_kernel = counted(&|memory| {
        let (start, length) = (memory.address(), PAGES * memory::page_size());
        // SAFETY: memory of that length.
        let read = unsafe { libc::read(zeros.as_raw_fd(), ptr::with_exposed_provenance_mut(start), length) };
        assert_eq!(usize::try_from(read), Ok(length));
    });
    assert_eq!(in_kernel, [0, PAGES as u64, PAGES as u64]);
}

fn lengths() {
    let address = WRITTEN.as_ptr().addr() as u64;
    for length in [1, 2, 4, 8] {
        let counter = open(&Attr::new(Breakpoint::at(address, length, Access::Write).expect("a length")));
        assert_eq!(count(&counter, || write(5)), 5, "{length} bytes");
    }
    let length = if cfg!(target_arch = "x86_64") { 8 } else { 4 };
    let code = (probed as *const ()).addr() as u64;
    let counter = open(&Attr::new(Breakpoint::at(code, length, Access::Execute).expect("a length")));
    let function: extern "C" fn() = black_box(probed);
    assert_eq!(count(&counter, || (0..7).for_each(|_| function())), 7);
}

fn descriptors() {
    let (attr, target) = (attr("page-faults"), Target::this_thread());
    let counter = open(&attr);
    let target_counter = TargetCounter::open(&attr, &target).expect("opens");
    let group = Group::open(std::slice::from_ref(&attr)).expect("opens");
    let target_group = TargetGroup::open(std::slice::from_ref(&attr), &target).expect("opens");
    let ring = Sampler::dummy().open().expect("opens");
    for fd in [counter.as_fd(), target_counter.as_fd(), group.as_fd(), target_group.as_fd(), ring.as_fd()] {
        // SAFETY: takes no pointer.
        assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) }, libc::FD_CLOEXEC);
    }
}

static CALLED: AtomicU32 = AtomicU32::new(0);

#[inline(never)]
extern "C" fn probed() {
    // Not fetch_add: x86 has no uprobes on instructions with a lock prefix.
    CALLED.store(CALLED.load(Relaxed) + 1, Relaxed);
}

fn uprobe() -> Result<Attr, String> {
    let (path, offset) =
        process::in_file(probed as *const ()).ok_or("the position of this program's code in its file is unknown")?;
    let text = format!("uprobe/path='{path}',offset={offset:#x}/");
    text.parse::<Event>().map(Attr::new).map_err(|error| error.to_string())
}

fn calls() {
    let counter = open(&uprobe().expect("known"));
    for times in [0, 1, 7, 1000] {
        let function: extern "C" fn() = black_box(probed);
        assert_eq!(count(&counter, || (0..times).for_each(|_| function())), times);
    }
    let missing = attr("uprobe/path=/no/such/file,offset=0/");
    let error = Counter::open(&missing).expect_err("no such file").to_string();
    assert!(error.contains("ENOENT: there is no such file"), "{error}");
}

fn tracepoint() {
    let call = |times: u64| (0..times).for_each(|_| _ = std::os::unix::process::parent_id());
    for attr in [all("syscalls:sys_enter_getppid"), attr("syscalls:sys_enter_getppid")] {
        let counter = open(&attr);
        for times in [0, 1, 7, 1000] {
            assert_eq!(count(&counter, || call(times)), times, "{attr}");
        }
    }
    assert_counts_switches(&open(&all("sched:sched_switch")));
    let error = Counter::open(&attr("sched:sched_switch")).expect_err("counts nothing in user mode").to_string();
    assert!(error.contains("tracepoints are reached in kernel mode only"), "{error}");
    let error = Counter::open(&all("sched:sched_swich")).expect_err("no such tracepoint").to_string();
    assert!(error.contains("did you mean") && error.contains("sched_switch"), "{error}");
}

/// A system call with arguments.
const PRIORITY: &str = "syscalls:sys_enter_getpriority";

fn filtered() {
    // SAFETY: takes numbers.
    let call = || (0..10).for_each(|user| _ = unsafe { libc::getpriority(libc::PRIO_USER, user) });
    let counter = open(&all(PRIORITY));
    assert_eq!(count(&counter, call), 10);
    let error = counter.set_filter("nobody > 6").expect_err("no such field").to_string();
    assert!(error.contains("ioctl(SET_FILTER) failed with EINVAL") && error.contains("names a field"), "{error}");
    assert_eq!(count(&counter, call), 10, "as before");
    counter.set_filter("who > 6").expect("allowed");
    assert_eq!(count(&counter, call), 3, "7, 8 and 9");
    let error = counter.set_filter("who > 7").expect_err("a second one").to_string();
    assert!(error.contains("EEXIST: the event has a filter already"), "{error}");
    let all_of_the_thread = TargetCounter::open(&all(PRIORITY), &Target::this_thread()).expect("opens");
    all_of_the_thread.set_filter("who == 1").expect("allowed");
    call();
    assert_eq!(all_of_the_thread.read().map(|reading| reading.value), Ok(1));
    let error = open(&attr("page-faults")).set_filter("who > 6").expect_err("no fields").to_string();
    assert!(error.contains("EINVAL") && error.contains("has no filters"), "{error}");
}

/// A system call that nothing else in these tests makes: a program is for all events of its tracepoint.
const GROUP: &str = "syscalls:sys_enter_getpgid";

/// `bpf(2)`, which returns a descriptor or 0. `Attr` is the start of `union bpf_attr` for that command.
fn bpf<Attr>(command: libc::c_long, attr: &Attr) -> Result<i32, String> {
    // SAFETY: a live structure of this size, with pointers to live memory.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr, size_of::<Attr>()) };
    let error = || format!("bpf({command}): {}", std::io::Error::last_os_error());
    i32::try_from(result).ok().filter(|&fd| fd >= 0).ok_or_else(error)
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: a new descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Loads a BPF program for tracepoints.
fn load(code: &[u64]) -> Result<OwnedFd, String> {
    #[repr(C)]
    struct Load {
        kind: u32,
        instructions: u32,
        code: u64,
        license: u64,
    }
    const BPF_PROG_LOAD: libc::c_long = 5;
    const BPF_PROG_TYPE_TRACEPOINT: u32 = 5;
    let load = Load {
        kind: BPF_PROG_TYPE_TRACEPOINT,
        instructions: u32::try_from(code.len()).expect("few"),
        code: code.as_ptr().expose_provenance() as u64,
        // Linux has functions for programs under the GPL only, and checks just the text.
        license: c"GPL".as_ptr().expose_provenance() as u64,
    };
    bpf(BPF_PROG_LOAD, &load).map(owned)
}

/// An instruction: operation, registers (source and destination), offset, number.
fn instruction(operation: u8, source: u8, destination: u8, offset: i16, number: i32) -> u64 {
    let [low, high] = offset.to_le_bytes();
    u64::from(u32::from_le_bytes([operation, source << 4 | destination, low, high]))
        | u64::from(number.cast_unsigned()) << 32
}

/// Loads a program that returns a number: it moves the number to register 0, and exits
/// (`Documentation/bpf/standardization`).
fn program(returns: i32) -> Result<OwnedFd, String> {
    load(&[instruction(0xb7, 0, 0, 0, returns), instruction(0x95, 0, 0, 0, 0)])
}

/// Loads a program that writes a number of eight bytes to the perf event that `map` has for the current CPU.
fn writes_to(map: &OwnedFd, number: i32) -> Result<OwnedFd, String> {
    const PERF_EVENT_OUTPUT: i32 = 25;
    load(&[
        // The second argument is the map; the first one is the program's own.
        instruction(0x18, 1, 2, 0, map.as_raw_fd()),
        0,
        instruction(0x7a, 0, 10, -8, number),
        // BPF_F_CURRENT_CPU, in 32 bits.
        instruction(0xb4, 0, 3, 0, -1),
        instruction(0xbf, 10, 4, 0, 0),
        instruction(0x07, 0, 4, 0, -8),
        instruction(0xb7, 0, 5, 0, 8),
        instruction(0x85, 0, 0, 0, PERF_EVENT_OUTPUT),
        instruction(0xb7, 0, 0, 0, 0),
        instruction(0x95, 0, 0, 0, 0),
    ])
}

/// A map with the same perf event for each CPU.
fn perf_events(event: BorrowedFd<'_>) -> Result<OwnedFd, String> {
    const BPF_MAP_CREATE: libc::c_long = 0;
    const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
    const BPF_MAP_TYPE_PERF_EVENT_ARRAY: u32 = 4;
    #[repr(C)]
    struct Update {
        map: u64,
        key: u64,
        value: u64,
        flags: u64,
    }
    let cpus = process::cpus();
    let entries = cpus.iter().max().map_or(1, |&cpu| u32::try_from(cpu).expect("small") + 1);
    let map = owned(bpf(BPF_MAP_CREATE, &[BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, entries])?);
    let (number, event) = (u64::try_from(map.as_raw_fd()).expect("open"), event.as_raw_fd());
    for cpu in cpus.into_iter().map(|cpu| u32::try_from(cpu).expect("small")) {
        let address = |value: *const ()| value.expose_provenance() as u64;
        let (key, value) = (address((&raw const cpu).cast()), address((&raw const event).cast()));
        bpf(BPF_MAP_UPDATE_ELEM, &Update { map: number, key, value, flags: 0 })?;
    }
    Ok(map)
}

fn written_by_program() {
    let ring = Sampler::bpf_output().open().expect("opens");
    // Linux removes the ring from the map when the map's descriptor is closed.
    let map = perf_events(ring.as_fd()).expect("allowed");
    let program = writes_to(&map, 77).expect("valid");
    let counter = open(&all(GROUP));
    counter.set_bpf(program.as_fd()).expect("allowed");
    // SAFETY: takes a number.
    (0..10).for_each(|_| _ = unsafe { libc::getpgid(0) });
    let mut reader = ring.reader().expect("readable");
    let mut samples = 0;
    while let Some(record) = reader.read() {
        let Body::Sample(sample) = record.body else { panic!("{record:?}") };
        assert_eq!(sample.raw.and_then(|raw| raw.first_chunk()), Some(&77_u64.to_ne_bytes()), "{sample:?}");
        samples += 1;
    }
    assert_eq!(samples, 10);
}

fn by_program() {
    // SAFETY: takes a number.
    let call = || (0..10).for_each(|_| _ = unsafe { libc::getpgid(0) });
    for (returns, counts) in [(1, 10), (0, 0)] {
        let (program, counter) = (program(returns).expect("valid"), open(&all(GROUP)));
        assert_eq!(counter.bpf_programs(), Ok(Vec::new()));
        counter.set_bpf(program.as_fd()).expect("allowed");
        assert_eq!(count(&counter, call), counts, "if the program returns {returns}");
        assert_eq!(counter.bpf_programs().map(|ids| ids.len()), Ok(1));
    }
    let error = open(&attr("page-faults"))
        .set_bpf(program(1).expect("valid").as_fd())
        .expect_err("not a tracepoint")
        .to_string();
    assert!(error.contains("ioctl(SET_BPF) failed with E") && error.contains("only tracepoints"), "{error}");
}

/// Starts a new process of this program, which becomes another user while it has only one thread.
fn another_user() {
    child::passes("another user");
}

mod other_user {
    use super::{Access, Counter, NOBODY, all, breakpoint, count, process, uprobe, write};

    pub(super) fn main() {
        let probe = uprobe();
        process::become_user(NOBODY);
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
            let error = Counter::open(&probe).expect_err("only root may use uprobes").to_string();
            assert_refused(true, &error, &["failed with EACCES", "CAP_SYS_ADMIN"]);
        }
        if level >= 2 {
            let error =
                Counter::open(&all("context-switches")).expect_err("only root may count kernel mode").to_string();
            assert_refused(
                true,
                &error,
                &["failed with EACCES", if level > 2 { "CAP_SYS_ADMIN" } else { "requires CAP_PERFMON, or level 1" }],
            );
        }
        let error = Counter::open(&all("sched:sched_switch")).expect_err("only root may read tracefs").to_string();
        let mounted = error.contains("open failed with EACCES") && error.contains("only root can access tracefs");
        assert_refused(mounted || error.contains("is not mounted"), &error, &[]);
    }

    fn assert_refused(expected: bool, error: &str, expected_parts: &[&str]) {
        assert!(expected && expected_parts.iter().all(|part| error.contains(part)), "{error}");
        println!("{error}");
    }
}
