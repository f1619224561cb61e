//! How the kernel's errors are explained, and what is refused without asking it.

use std::fs;

use super::*;
use crate::attr::Field;
use crate::event::Event;
use crate::machine::Files;

/// A machine's files. `root` says whether the process has all capabilities; `uid_map` describes its user namespace.
fn files(name: &str, level: &str, root: bool, uid_map: &str) -> Files {
    let files = Files::new(&format!("open-{name}"));
    let status = if root { "CapEff:\t000001ffffffffff\n" } else { "CapEff:\t0000000000000000\n" };
    files.write(PARANOID, level);
    files.write("proc/self/status", status);
    files.write("proc/self/uid_map", uid_map);
    files.write("sys/bus/event_source/devices/kprobe/type", "8");
    files.write("sys/bus/event_source/devices/uprobe/type", "9");
    files
}

const FIRST_NAMESPACE: &str = "         0          0 4294967295\n";
const OWN_NAMESPACE: &str = "         0       1000          1\n";

fn attr(text: &str) -> Attr {
    Attr::new(text.parse::<Event>().unwrap_or_else(|error| panic!("{error}")))
}

/// A substitute for an event's descriptor.
fn opened() -> Descriptor {
    fs::File::open("/dev/null").expect("there").into()
}

/// The error if the kernel answers `errno`. `dummy` is its answer for an event that counts nothing.
fn message(attr: &Attr, machine: &Machine, errno: i32, dummy: Result<(), i32>) -> String {
    message_on(&Target::this_thread(), attr, machine, errno, dummy)
}

/// The same for a target, whose events the kernel all refuses in the same way.
fn message_on(target: &Target, attr: &Attr, machine: &Machine, errno: i32, dummy: Result<(), i32>) -> String {
    let answer = |raw: &PerfEventAttr, on: &Target| match dummy {
        _ if !on.is_caller() => Err(errno),
        Ok(()) if raw.config == sys::COUNT_SW_DUMMY && raw.kind == sys::TYPE_SOFTWARE => Ok(opened()),
        _ => Err(errno),
    };
    let error = open_each(attr, target, machine, &mut { answer }).expect_err("refused");
    assert_eq!(error.errno(), Some(errno));
    error.to_string()
}

#[test]
fn a_level_above_2_is_explained_as_this_kernel_treats_it() {
    let three = files("three", "3\n", false, FIRST_NAMESPACE);
    let kernels = attr("page-faults:uk");
    let debian = message(&kernels, &Machine::at(&three.0), libc::EACCES, Err(libc::EACCES));
    assert!(
        debian.contains("is 3, and this kernel (as Debian's and Ubuntu's) then requires CAP_SYS_ADMIN"),
        "{debian}"
    );
    assert!(debian.contains("sysctl kernel.perf_event_paranoid=2"), "{debian}");
    let mainline = message(&kernels, &Machine::at(&three.0), libc::EACCES, Ok(()));
    assert!(mainline.contains("is 3: counting kernel mode requires CAP_PERFMON, or level 1"), "{mainline}");
    assert!(!mainline.contains("CAP_SYS_ADMIN"), "{mainline}");
    let mainline = message(&attr("page-faults"), &Machine::at(&three.0), libc::EACCES, Ok(()));
    assert!(mainline.contains("which allows it") && mainline.contains("security module"), "{mainline}");
}

#[test]
fn capabilities_of_a_user_namespace_are_reported_as_ineffective() {
    for (level, event) in
        [("2\n", "page-faults:uk"), ("4\n", "page-faults"), ("2\n", "uprobe/path=/bin/true,offset=1/")]
    {
        let all = files("all", level, true, FIRST_NAMESPACE);
        let own = files("own", level, true, OWN_NAMESPACE);
        let none = files("none", level, false, OWN_NAMESPACE);
        let of = |files: &Files| message(&attr(event), &Machine::at(&files.0), libc::EACCES, Err(libc::EACCES));
        assert!(of(&own).contains("belong to its user namespace"), "{}", of(&own));
        assert!(of(&own).contains("CAP_"), "{}", of(&own));
        assert!(!of(&none).contains("namespace"), "{}", of(&none));
        assert!(of(&all).contains("a seccomp filter or a security module"), "{}", of(&all));
    }
}

#[test]
fn probes_name_the_capability_that_they_require() {
    let files = files("probes", "1\n", false, FIRST_NAMESPACE);
    let of = |event: &str| message(&attr(event), &Machine::at(&files.0), libc::EACCES, Ok(()));
    assert!(of("uprobe/path=/bin/true,offset=1/").contains("uprobes require CAP_SYS_ADMIN at every level"));
    assert!(of("kprobe/func=vfs_read/uk").contains("kprobes require CAP_PERFMON (CAP_SYS_ADMIN before linux 5.8)"));
}

#[test]
fn eperm_comes_from_a_filter_except_for_tracepoints_and_kernel_addresses() {
    let files = files("eperm", "2\n", false, FIRST_NAMESPACE);
    let of = |event: &str| message(&attr(event), &Machine::at(&files.0), libc::EPERM, Ok(()));
    for event in ["page-faults", "cycles", "mem:0x1000/8:w"] {
        assert!(of(event).contains("seccomp filter"), "{}", of(event));
    }
    let kernels = of("mem:0xffffffff81000000/8:w");
    assert!(kernels.contains("kernel address requires CAP_SYS_ADMIN"), "{kernels}");
}

#[test]
fn a_pmu_that_counts_whole_cpus_is_named_with_its_cpus() {
    for (event, machine, cpus) in [
        ("uncore_imc_0/cas_count_read/ukh", "skylake-server", "0,24"),
        ("14:0x304", "skylake-server", "0,24"),
        ("amd_df/event=7/", "zen", "0"),
    ] {
        let why = message(&attr(event), &Machine::fixture(machine), libc::EINVAL, Ok(()));
        assert!(why.contains(&format!("cpumask: {cpus}")) && why.contains("never for one thread"), "{why}");
    }
}

/// As `arm_spe_pmu_event_init` in `drivers/perf/arm_spe_pmu.c`, linux 6.12.
#[test]
fn a_pmu_that_samples_at_no_frequency_says_so() {
    let mut answer = |raw: &PerfEventAttr, _: &Target| match raw.flags & sys::FLAG_FREQ {
        0 => Ok(opened()),
        _ => Err(libc::EINVAL),
    };
    let machine = Machine::fixture("armv8.8-threshold");
    let mut open = |attr: &Attr| open_each(attr, &Target::this_thread(), &machine, &mut answer);
    let attr = attr("arm_spe_0/jitter/").field(Field::SamplePeriod, 99);
    assert!(open(&attr).is_ok());
    let error = open(&attr.field(Field::Flags, sys::FLAG_FREQ)).expect_err("a frequency").to_string();
    assert!(error.contains("does not accept the frequency (Sampler::frequency) for this event"), "{error}");
}

#[test]
fn a_target_that_is_refused_is_named_with_what_it_requires() {
    let files = files("targets", "2\n", false, FIRST_NAMESPACE);
    let machine = Machine::at(&files.0);
    for (path, text) in [
        (ONLINE_CPUS, "0-3\n"),
        ("proc/self/status", "Uid:\t65534\t65534\t65534\t65534\nCapEff:\t0000000000000000\n"),
        ("proc/12/status", "Name:\tother\nUid:\t1000\t1000\t1000\t1000\n"),
        ("proc/13/status", "Name:\tsame\nUid:\t65534\t65534\t65534\t65534\n"),
    ] {
        files.write(path, text);
    }
    let of = |target: &Target, errno| message_on(target, &attr("page-faults"), &machine, errno, Ok(()));
    let other = of(&Target::thread(12), libc::EACCES);
    assert!(other.contains("thread 12 belongs to user 1000, and this process to 65534"), "{other}");
    assert!(other.contains("CAP_PERFMON") && !other.contains("seccomp"), "{other}");
    let same = of(&Target::thread(13), libc::EACCES);
    assert!(same.contains("cannot be dumped"), "{same}");
    assert!(of(&Target::thread(14), libc::ESRCH).contains("no thread 14"));
    let cpu = of(&Target::cpu(0), libc::EACCES);
    assert!(cpu.contains("is 2: counting an entire CPU requires CAP_PERFMON, or level 0"), "{cpu}");
    for target in [Target::cpu(4), Target::thread(13).on_cpu(4)] {
        for errno in [libc::EINVAL, libc::ENODEV] {
            let missing = of(&target, errno);
            assert!(missing.contains("there is no CPU 4, or it is offline; online are 0-3"), "{missing}");
        }
    }
    let directory = std::env::temp_dir();
    let cgroup = Target::cgroup(&directory, 0).expect("readable");
    assert!(of(&cgroup, libc::EACCES).contains("counting a cgroup requires CAP_PERFMON, or level 0"));
    assert!(of(&cgroup, libc::EBADF).contains(&format!("{} is not the directory of a cgroup", directory.display())));
    assert!(of(&cgroup, libc::ENOENT).contains("does not have the controller perf_event"));
    let none = Target::cgroup("/nonexistent/cgroup", 0).expect_err("missing").to_string();
    assert!(none.starts_with("/nonexistent/cgroup: open failed with ENOENT: there is no such cgroup"), "{none}");
}

#[test]
fn a_pmu_that_cannot_exclude_a_mode_says_so() {
    let machine = Machine::fixture("skylake-server");
    let message = |text, rights: Result<(), i32>| {
        let mut answer = |raw: &PerfEventAttr, _: &Target| match raw.flags & EXCLUDE_MODES {
            excluded if excluded == 0 || raw.kind == sys::TYPE_SOFTWARE => rights.map(|()| opened()),
            _ => Err(libc::EINVAL),
        };
        let opened = open_each(&attr(text), &Target::cpu(0), &machine, &mut answer);
        opened.map_or_else(|error| error.to_string(), |_| "opened".into())
    };
    let error = message("uncore_imc_0/clockticks/", Ok(()));
    assert!(error.contains("the PMU uncore_imc_0 cannot exclude a mode; count all modes (:ukh"), "{error}");
    assert_eq!(message("uncore_imc_0/clockticks/ukh", Ok(())), "opened");
    // As riscv64 without Sscofpmf (`pmu_sbi_device_probe` in `drivers/perf/riscv_pmu_sbi.c`, linux 6.12).
    for text in ["cycles", "r3c", "L1-dcache-load-misses"] {
        let error = message(text, Ok(()));
        assert!(error.contains("this processor's PMU cannot exclude a mode; count all modes (:ukh"), "{error}");
        let unknown = message(text, Err(libc::EACCES));
        let names_it = unknown.contains("or cannot exclude a mode; then count all modes (:ukh");
        assert_eq!(names_it, cfg!(target_arch = "riscv64"), "{unknown}");
    }
}

#[test]
fn a_cpu_of_one_kind_of_core_needs_only_that_kinds_pmu() {
    let machine = Machine::fixture("alder-lake");
    let mut requested = Vec::new();
    for cpu in [0, 16, 99] {
        let mut open = |raw: &PerfEventAttr, _: &Target| {
            requested.push((cpu, raw.config >> 32));
            Ok(opened())
        };
        match open_each(&attr("cycles"), &Target::cpu(cpu), &machine, &mut open) {
            Ok(events) => assert_eq!(events.len(), 1),
            Err(error) => assert!(error.to_string().contains("counts it on CPU 99"), "{error}"),
        }
    }
    assert_eq!(requested, [(0, 4), (16, 8)], "cpu_core is 4, cpu_atom is 8");
}

/// As `perf_init_event` in `kernel/events/core.c` and `armpmu_map_event` in `drivers/perf/arm_pmu.c`, linux 4.14, 5.15
/// and 6.6. Event 9 is one that the PMUs do not have.
#[test]
fn generic_events_are_counted_on_several_arm_pmus_by_old_kernels_too() {
    /// Why a hardware event and a cache event are refused.
    const OLD: [Option<i32>; 2] = [Some(libc::EINVAL), None];
    const LATER: [Option<i32>; 2] = [Some(libc::ENOENT); 2];
    const NEW: [Option<i32>; 2] = [None; 2];
    let machine = Machine::fixture("big-little");
    let open = |text: &str, [refusal_of_hardware, refusal_of_caches]: [Option<i32>; 2]| {
        let mut requested = Vec::new();
        let mut answer = |raw: &PerfEventAttr, _: &Target| {
            let refusal = match (raw.kind, raw.config >> 32, raw.config & 0xffff_ffff) {
                (sys::TYPE_HARDWARE, 6.., 9) => Some(libc::ENOENT),
                (sys::TYPE_HARDWARE, 6.., _) => refusal_of_hardware,
                (sys::TYPE_HW_CACHE, 6.., _) => refusal_of_caches,
                _ => None,
            };
            refusal.map_or(Ok(()), Err)?;
            requested.push((raw.kind, raw.config));
            Ok(opened())
        };
        let result = open_each(&attr(text), &Target::this_thread(), &machine, &mut answer);
        result.map(|_| requested).map_err(|error| error.to_string())
    };
    for kernel in [OLD, LATER] {
        assert_eq!(open("cycles", kernel), Ok(vec![(6, 0x11), (7, 0x11)]));
        assert_eq!(open("instructions", kernel), Ok(vec![(6, 8), (7, 8)]));
        for text in ["L1-dcache-load-misses", "stalled-cycles-frontend"] {
            let error = open(text, kernel).expect_err("too old");
            assert!(error.contains("linux before 6.6 opens no generic event on each of several Arm PMUs"), "{error}");
        }
    }
    assert_eq!(open("cycles", NEW), Ok(vec![(0, 6 << 32), (0, 7 << 32)]));
    // With what tells old kernels apart: cycles of each PMU.
    let caches = vec![(0, 6 << 32), (3, 6 << 32 | 0x1_0000), (0, 7 << 32), (3, 7 << 32 | 0x1_0000)];
    assert_eq!(open("L1-dcache-load-misses", NEW), Ok(caches));
    let error = open("ref-cycles", NEW).expect_err("no such event");
    assert!(error.contains("this processor's PMU does not have the event"), "{error}");
}

#[test]
fn a_pmu_that_cannot_count_virtual_machines_counts_the_host() {
    let mut answer = |raw: &PerfEventAttr, _: &Target| match raw.flags & FLAG_EXCLUDE_GUEST {
        0 => Err(libc::EOPNOTSUPP),
        _ => Ok(opened()),
    };
    let machine = Machine::fixture("armv8.8-threshold");
    let mut open = |text| open_each(&attr(text), &Target::this_thread(), &machine, &mut answer);
    for text in ["cycles", "inst_retired", "cycles:H"] {
        assert!(open(text).is_ok(), "{text}");
    }
    for text in ["cycles:G", "cycles:GH", "page-faults"] {
        assert_eq!(open(text).expect_err("as requested").errno(), Some(libc::EOPNOTSUPP), "{text}");
    }
}

#[test]
fn each_documented_errno_has_its_cause() {
    let of = |text, errno| message(&attr(text), &Machine::fixture("alder-lake"), errno, Ok(()));
    let mixed = of("uprobe/path=/bin/true,offset=1/", libc::EINTR);
    assert!(mixed.contains("ftrace") && mixed.contains("uprobe_events"), "{mixed}");
    let gone = of("cycles", libc::ENODEV);
    assert!(gone.contains("lacks a feature"), "{gone}");
    for (errno, cause) in [
        (libc::EFAULT, "the request contains a wrong address"),
        (libc::EBUSY, "another event uses the PMU exclusively"),
        (libc::EMFILE, "no file descriptor left; raise RLIMIT_NOFILE"),
        (libc::ENOENT, "this processor's PMU does not have the event"),
        (libc::EINVAL, "the kernel rejects the event as malformed"),
        (libc::ENOSYS, "the kernel has no perf events, or a seccomp filter"),
        (libc::EOPNOTSUPP, "PMU cannot count the event in this way"),
    ] {
        assert!(of("cycles", errno).contains(cause), "{}", of("cycles", errno));
    }
    assert!(of("mem:0x1000/8:w", libc::ENOSPC).contains("breakpoints are in use"));
}

#[test]
fn without_sysfs_it_is_unknown_whether_there_is_a_pmu() {
    let of = |machine| message(&attr("cycles"), &machine, libc::ENOENT, Ok(()));
    let unknown = of(Machine::at("/nonexistent"));
    assert!(unknown.contains("or there is no PMU: sysfs cannot be read to find out"), "{unknown}");
    let others = files("no-pmu", "2\n", false, FIRST_NAMESPACE);
    assert!(of(Machine::at(&others.0)).contains("this machine has no PMU"));
}

#[test]
fn tracepoints_without_permission_name_the_level() {
    for (level, needs) in [("2\n", "counting kernel mode requires CAP_PERFMON, or level 1"), ("1\n", "level -1")] {
        let files = files(&format!("tracepoint-{}", level.trim()), level, false, FIRST_NAMESPACE);
        let why = message(&attr("2:316:uk"), &Machine::at(&files.0), libc::EPERM, Ok(()));
        assert!(why.contains(needs), "{why}");
    }
}

#[test]
fn e2big_names_the_field_that_is_set() {
    let of = |attr: Attr| message(&attr, &Machine::fixture("alder-lake"), libc::E2BIG, Ok(()));
    for (field, expected) in [
        (Field::Config3, "config3 is set, and this kernel is too old for it (it requires linux 6.3"),
        (Field::SigData, "sig_data is set, and this kernel is too old for it (it requires linux 5.13"),
    ] {
        assert!(of(attr("page-faults").field(field, 1)).contains(expected));
    }
    let long = of(attr("uprobe/path=/bin/true,offset=1/"));
    assert!(long.contains("path") && long.contains("longer than") && !long.contains("config3"), "{long}");
    assert!(!of(attr("page-faults")).contains("config3"));
    if sys::open(&user_mode_dummy(), &Target::this_thread(), None).is_ok() {
        let size = sys::attr_size().expect("the kernel returns it");
        assert!(size >= 64, "PERF_ATTR_SIZE_VER0: {size}");
        assert!(of(attr("page-faults")).contains(&format!("struct perf_event_attr has {size} bytes")));
    }
}

#[test]
fn a_group_on_two_kinds_of_core_is_refused_without_asking_the_kernel() {
    let mut requests = 0;
    let mut refused = |event: &str, machine: &str, pmu: Option<&str>| {
        let mut answer = |_: &PerfEventAttr, _: &Target| {
            requests += 1;
            Err(libc::EINVAL)
        };
        open_member(&attr(event), &Target::this_thread(), &Machine::fixture(machine), pmu, &mut answer)
            .expect_err("not in this group")
    };
    for event in ["cpu_atom/instructions/", "cpu_atom/event=0xc0/", "8:0xc0", "0:0x800000001"] {
        let error = refused(event, "alder-lake", Some("cpu_core")).to_string();
        assert!(error.contains("on the PMU cpu_atom") && error.contains("are on cpu_core"), "{error}");
    }
    let error = refused("cycles", "alder-lake", None).to_string();
    assert!(error.contains("several kinds of core"), "{error}");
    for (event, machine, pmu) in [
        ("cpu_core/event=0xc0/", "alder-lake", "cpu_core"),
        ("page-faults", "alder-lake", "cpu_core"),
        ("cpu_core/slots/", "alder-lake", "cpu_core"),
        ("cpu/event=0xc0/", "skylake-server", "cpu"),
    ] {
        assert_eq!(refused(event, machine, Some(pmu)).errno(), Some(libc::EINVAL), "the kernel is asked for {event}");
    }
    assert!(requests >= 4);
}
