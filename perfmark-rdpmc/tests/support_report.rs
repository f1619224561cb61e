//! The support report of machines that are described by files, and of this machine.

#[cfg(target_os = "linux")]
mod child;
mod files;

use std::fs;

use files::Files;
use perfmark_rdpmc::sample::Sampler;
use perfmark_rdpmc::support::{Finding, LoopCheck, Status};
use perfmark_rdpmc::{Attr, Counter, Hardware, Machine, OffCpu, Software, Support, support};

/// The report of a machine with these files. `devices` is the directory of PMUs.
fn described(name: &str, texts: &[(&str, &str)]) -> Support {
    let files = Files::new(&format!("support-{name}"));
    for (path, text) in texts {
        let parent = if path.starts_with("devices/") { "sys/bus/event_source/" } else { "" };
        files.write(format!("{parent}{path}"), text);
    }
    let mut support = Support::of(&Machine::at(&files.0));
    // The files are Linux's, whatever this build's target is.
    support.target = true;
    every_obstacle_has_its_remedy(&support);
    support
}

fn finding(support: &Support, subject: &str) -> Finding {
    let found = support.findings().into_iter().find(|finding| finding.subject == subject);
    found.unwrap_or_else(|| panic!("nothing about {subject}:\n{support}"))
}

fn every_obstacle_has_its_remedy(support: &Support) {
    let shown = support.to_string();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let all = words(&shown);
    for finding in support.findings() {
        assert!(all.contains(&words(&finding.text)), "{finding:?} is not in\n{shown}");
        if finding.status == Status::Bad {
            let remedy = finding.remedy.as_ref().unwrap_or_else(|| panic!("{finding:?}"));
            assert!(remedy.len() > 5 && all.contains(&words(remedy)), "{finding:?} is not in\n{shown}");
        }
    }
    for line in shown.lines().skip(1) {
        assert!(line.chars().count() <= 110, "{line}");
    }
}

const STATUS: &str = "proc/self/status";
const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";
const NOBODY: &str = "Name:\tx\nCapEff:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t0\n";
const ROOT: &str = "Name:\tx\nCapEff:\t000001ffffffffff\nNoNewPrivs:\t0\nSeccomp:\t0\n";

#[test]
fn levels_and_capabilities_determine_what_may_be_counted() {
    let perfmon = "CapEff:\t0000004000000000\n";
    let admin = "CapEff:\t0000000000200000\n";
    let allowed = |support: &Support| {
        [support.user_mode(), support.kernel_part(), support.rights.kprobes(), support.rights.uprobes()]
    };
    for (name, level, status, expected) in [
        ("nobody-1", "1\n", NOBODY, [true, true, false, false]),
        ("nobody-2", "2\n", NOBODY, [true, false, false, false]),
        ("nobody-3", "3\n", NOBODY, [false; 4]),
        ("perfmon-2", "2\n", perfmon, [true, true, true, false]),
        ("perfmon-3", "3\n", perfmon, [false; 4]),
        ("admin-4", "4\n", admin, [true; 4]),
        ("root-3", "3\n", ROOT, [true; 4]),
        ("without-perf-events", "", ROOT, [false; 4]),
    ] {
        let support = described(name, &[(PARANOID, level), (STATUS, status)]);
        assert_eq!(allowed(&support), expected, "{name}:\n{support}");
    }
    // The kernel of kernel.org treats 3 as 2.
    let mut mainline = described("mainline-3", &[(PARANOID, "3\n"), (STATUS, perfmon)]);
    mainline.rights.high_level_opens = true;
    assert_eq!(allowed(&mainline), [true, true, true, false], "{mainline}");
    let three = described("debian", &[(PARANOID, "3\n"), (STATUS, NOBODY)]);
    let remedy = finding(&three, "user mode").remedy.expect("remedy");
    assert!(remedy.contains("sysctl kernel.perf_event_paranoid=2"), "{remedy}");
    assert!(remedy.ends_with("setcap cap_sys_admin=ep PROGRAM, which then ignores perfmark's variables"), "{remedy}");
    let two = described("mainline", &[(PARANOID, "2\n"), (STATUS, NOBODY)]);
    assert!(finding(&two, "kernel mode").remedy.expect("remedy").contains("setcap cap_perfmon=ep"));
}

#[test]
fn capabilities_of_a_user_namespace_do_not_count() {
    let files = [(PARANOID, "2\n"), (STATUS, ROOT), ("proc/self/uid_map", "         0       1000          1\n")];
    let support = described("rootless", &files);
    assert!(support.rights.user_namespace && support.rights.cap_sys_admin);
    assert!(support.user_mode() && !support.kernel_part(), "{support}");
    assert!(finding(&support, "kernel mode").remedy.expect("remedy").contains("outside this user namespace"));
}

#[test]
fn settings_that_forbid_user_reads_are_reported_with_their_remedy() {
    let arm = [
        ("proc/sys/kernel/perf_user_access", "0\n"),
        ("devices/armv8_pmuv3_0/cpus", "0-3\n"),
        ("devices/armv8_pmuv3_0/type", "10\n"),
    ];
    let arm = described("arm", &arm);
    assert!(finding(&arm, "user reads").remedy.expect("remedy").contains("sysctl kernel.perf_user_access=1"));
    let x86 = described("x86", &[("devices/cpu/rdpmc", "0\n"), ("devices/cpu/type", "4\n")]);
    assert!(finding(&x86, "user reads").remedy.expect("remedy").contains("cpu/rdpmc"));
    let allowed = described("x86-1", &[("devices/cpu/rdpmc", "1\n"), ("devices/cpu/type", "4\n")]);
    assert!(allowed.findings().iter().all(|finding| finding.subject != "user reads" || finding.remedy.is_none()));
}

#[test]
fn limits_of_sampling_thresholds_and_open_user_reads_are_reported() {
    let support = described(
        "limits",
        &[
            ("proc/sys/kernel/perf_event_max_sample_rate", "100000\n"),
            ("proc/sys/kernel/perf_event_max_stack", "127\n"),
            ("devices/cpu/type", "4\n"),
            ("devices/cpu/rdpmc", "2\n"),
            ("devices/armv8_pmuv3/type", "8\n"),
            ("devices/armv8_pmuv3/cpus", "0-3\n"),
            ("devices/armv8_pmuv3/caps/threshold_max", "0x000000ff\n"),
        ],
    );
    let limits = finding(&support, "sample limits").text;
    assert!(limits.contains("100,000 samples a second (kernel.perf_event_max_sample_rate)"), "{limits}");
    assert!(limits.contains("at most 127 entries (kernel.perf_event_max_stack)"), "{limits}");
    let thresholds: Vec<_> = support.core_pmus.iter().map(|pmu| (pmu.name.as_str(), pmu.threshold_max)).collect();
    assert_eq!(thresholds, [("armv8_pmuv3", Some(255)), ("cpu", None)]);
    assert!(finding(&support, "PMU").text.ends_with("; thresholds up to 255"), "{support}");
    let open = finding(&support, "user reads");
    assert!(open.text.contains("cpu/rdpmc is 2: every process may read every counter"), "{open:?}");
    assert!(open.remedy.is_some_and(|remedy| remedy.contains("echo 1 >/sys/bus/event_source/devices/cpu/rdpmc")));
}

#[test]
fn tracepoints_are_available_if_this_process_can_read_tracefs() {
    for (name, mount, readable) in [
        ("tracefs", "sys/kernel/tracing", true),
        ("in-debugfs", "sys/kernel/debug/tracing", true),
        ("elsewhere", "mnt", false),
    ] {
        let id = format!("{mount}/events/sched/sched_switch/id");
        let support = described(name, &[(PARANOID, "2\n"), (STATUS, NOBODY), (&id, "316\n")]);
        assert_eq!(support.tracepoints, readable, "{support}");
        assert_eq!(finding(&support, "tracepoints").remedy.is_none(), readable, "{support}");
    }
}

#[test]
fn a_hybrid_machine_has_two_core_pmus_and_lists_the_others_by_name() {
    let files = [
        ("devices/cpu_core/type", "4\n"),
        ("devices/cpu_core/cpus", "0-15\n"),
        ("devices/cpu_core/rdpmc", "1\n"),
        ("devices/cpu_atom/type", "10\n"),
        ("devices/cpu_atom/cpus", "16-23\n"),
        ("devices/software/type", "1\n"),
        ("devices/uncore_imc_0/type", "24\n"),
        ("proc/sys/kernel/nmi_watchdog", "1\n"),
    ];
    let support = described("hybrid", &files);
    let pmus: Vec<_> = support.core_pmus.iter().map(|pmu| (pmu.name.as_str(), pmu.kind, pmu.cpus.as_deref())).collect();
    assert_eq!(pmus, [("cpu_atom", Some(10), Some("16-23")), ("cpu_core", Some(4), Some("0-15"))]);
    assert_eq!(support.other_pmus, ["software", "uncore_imc_0"]);
    assert!(finding(&support, "NMI watchdog").remedy.expect("remedy").contains("kernel.nmi_watchdog=0"));
}

#[test]
fn without_sysfs_it_is_unknown_whether_there_is_a_pmu() {
    let pmu = |files: &[(&str, &str)]| finding(&described("pmus", files), "PMU").text;
    assert_eq!(pmu(&[]), "unknown: /sys/bus/event_source/devices is missing or empty");
    assert!(pmu(&[("devices/software/type", "1\n")]).starts_with("none"));
}

#[test]
fn virtual_machines_and_containers_are_detected_and_physical_machines_are_not() {
    let vendor = "sys/class/dmi/id/sys_vendor";
    let product = "sys/class/dmi/id/product_name";
    for (name, files, machine) in [
        ("qemu", &[(vendor, "QEMU\n"), (product, "Standard PC (Q35 + ICH9, 2009)\n")][..], Some(Some("QEMU"))),
        ("ec2", &[(vendor, "Amazon EC2\n"), (product, "c7g.large\n")], Some(Some("Amazon EC2"))),
        ("metal", &[(vendor, "Amazon EC2\n"), (product, "c7g.metal\n")], None),
        ("laptop", &[(vendor, "LENOVO\n"), (product, "20XW\n"), ("proc/cpuinfo", "flags\t\t: fpu vme tsc\n")], None),
        ("surface", &[(vendor, "Microsoft Corporation\n"), (product, "Surface Pro\n")], None),
        ("unnamed", &[("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n")], Some(None)),
        ("arm-virt", &[("proc/device-tree/compatible", "linux,dummy-virt\0")], Some(Some("QEMU"))),
        ("board", &[("proc/device-tree/compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0")], None),
    ] {
        let support = described(name, files);
        let found = support.virtual_machine.as_ref().map(|machine| machine.name.as_deref());
        assert_eq!(found, machine, "{name}:\n{support}");
    }
    for (name, file, text, container) in [
        ("docker", ".dockerenv", "", "Docker"),
        ("podman", "run/.containerenv", "", "Podman"),
        ("nspawn", "run/systemd/container", "systemd-nspawn\n", "systemd-nspawn"),
        ("pod", "proc/1/cgroup", "1:name=systemd:/kubepods/besteffort/pod1\n", "Kubernetes"),
    ] {
        let support = described(name, &[(file, text)]);
        assert_eq!(support.confinement.container.as_ref().map(|is| is.name.as_str()), Some(container), "{support}");
    }
    assert_eq!(described("none", &[("proc/1/cgroup", "0::/init.scope\n")]).confinement.container, None);
}

#[test]
fn locked_memory_is_computed_from_its_two_limits() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max locked memory         8388608              unlimited            bytes     \n";
    let files = [
        ("proc/self/limits", limits),
        ("proc/sys/kernel/perf_event_mlock_kb", "516\n"),
        ("sys/devices/system/cpu/online", "0-1,4\n"),
        (PARANOID, "2\n"),
        (STATUS, NOBODY),
    ];
    let mut support = described("locked", &files);
    assert_eq!(support.locked_memory.rlimit_memlock, Some(8 << 20));
    support.locked_memory.page_bytes = Some(4096);
    assert_eq!(support.locked_memory.counters(), Some(3 * 129 + 2048));
    assert_eq!([1, 16].map(|pages| support.locked_memory.rings(pages)), [Some(2435 / 2), Some(2435 / 17)]);
    support.locked_memory.rlimit_memlock = Some(u64::MAX);
    assert_eq!((support.locked_memory.counters(), support.locked_memory.rings(1)), (None, None));
    (support.locked_memory.perf_event_mlock_kb, support.locked_memory.rlimit_memlock) = (Some(0), Some(4096));
    assert!(finding(&support, "locked memory").remedy.expect("remedy").contains("ulimit -l"));
    every_obstacle_has_its_remedy(&support);
    let rootless = ("proc/self/uid_map", "0 1000 1\n");
    for (name, files, why) in [
        ("root", &[(PARANOID, "2\n"), (STATUS, ROOT)][..], "CAP_IPC_LOCK"),
        ("rootless-lock", &[(PARANOID, "-1\n"), (STATUS, ROOT), rootless], "kernel.perf_event_paranoid below 0"),
        ("nobody-lock", &[(PARANOID, "-1\n"), (STATUS, NOBODY)], "kernel.perf_event_paranoid below 0"),
    ] {
        let support = described(name, files);
        let text = finding(&support, "locked memory").text;
        assert!(support.locked_memory.exempt && text.ends_with(&format!("({why})")), "{name}: {text}");
    }
}

#[test]
fn invalid_files_do_not_panic() {
    let invalid =
        ["", "\n", "-", "99999999999999999999999", "CapEff:\tzz\nSeccomp:", "Max locked memory", "0-,,4-1", "\0\0"];
    let paths = "proc/self/status proc/sys/kernel/perf_event_paranoid proc/self/limits proc/self/uid_map proc/cpuinfo \
                 proc/sys/kernel/perf_event_mlock_kb proc/sys/kernel/nmi_watchdog sys/devices/system/cpu/online \
                 sys/class/dmi/id/product_name proc/device-tree/compatible sys/bus/event_source/devices/cpu/type \
                 sys/bus/event_source/devices/cpu/rdpmc run/systemd/container";
    for (i, text) in invalid.iter().enumerate() {
        let files: Vec<_> = paths.split_whitespace().map(|path| (path, *text)).collect();
        described(&format!("invalid-{i}"), &files);
    }
    let nowhere = described("nowhere", &[]);
    assert!(!nowhere.user_mode() && nowhere.core_pmus.is_empty(), "{nowhere}");
}

#[test]
fn without_descriptors_the_remedy_is_of_the_limit_that_was_reached() {
    let mut support = support();
    for (errno, remedy) in [(libc::EMFILE, "raise RLIMIT_NOFILE (`ulimit -n`)"), (libc::ENFILE, "raise fs.file-max")] {
        let Some(trial) = &mut support.trial else { return println!("skipped: no counters on this target") };
        trial.user_mode = Err(errno);
        assert_eq!(finding(&support, "user mode").remedy.as_deref(), Some(remedy));
    }
}

#[test]
fn an_unknown_limit_on_rings_is_not_reported_as_none() {
    let mut support = support();
    if support.trial.as_ref().is_none_or(|trial| trial.sampling.is_err()) {
        return println!("skipped: no event samples here");
    }
    support.locked_memory.exempt = false;
    support.locked_memory.rlimit_memlock = None;
    let text = finding(&support, "sampling").text;
    assert!(!text.contains("rings") && !text.contains("no limit"), "{text}");
    support.locked_memory.exempt = true;
    let text = finding(&support, "sampling").text;
    assert!(text.ends_with("; there is no limit on rings"), "{text}");
}

#[test]
fn the_report_of_this_machine_agrees_with_what_opens() {
    let support = support();
    println!("{support}");
    every_obstacle_has_its_remedy(&support);
    let counter = Counter::open(&Attr::new(Hardware::Instructions));
    let Some(trial) = &support.trial else {
        assert!(!support.target && counter.is_err_and(|error| error.is_unsupported()));
        return;
    };
    assert_eq!(trial.instructions.is_ok(), counter.is_ok());
    let clock = Sampler::new(Attr::new(Software::TaskClock)).open();
    assert_eq!(trial.sampling.is_ok(), clock.is_ok(), "{:?}", trial.sampling);
    assert!(clock.is_err() || finding(&support, "sampling").status == Status::Good);
    match &trial.switch_cost {
        Ok(cost) => assert!(!cost.is_zero() && support.user_mode(), "{cost:?}"),
        Err(why) if OffCpu::open().is_err() => assert!(!why.is_empty()),
        Err(why) => {
            let is_known = ["sched_setaffinity", "no thread", "disturbed"].iter().any(|part| why.contains(part));
            assert!(is_known, "{why}");
        }
    }
    let switch_cost = support.findings().into_iter().find(|finding| finding.subject == "switch cost");
    assert_eq!(switch_cost.is_some(), support.user_mode(), "{support}");
    let Ok(counter) = counter else { return };
    assert_eq!(trial.user_reads.is_ok(), counter.user_reads().is_ok());
    assert!(support.user_mode() && trial.cost.read.is_some());
    assert_eq!(trial.cost.user.is_some(), counter.user_reads().is_ok());
    assert!(support.core_pmus.iter().any(|pmu| pmu.counters.is_ok()), "{support}");
}

#[test]
fn the_emulated_machines_six_counters_and_its_cycle_counter_are_found() {
    let support = support();
    let emulated = support.virtual_machine.as_ref().is_some_and(|machine| machine.by.contains("linux,dummy-virt"));
    let Some(trial) = support.trial.as_ref().filter(|trial| emulated && trial.instructions.is_ok()) else {
        eprintln!("skipped: not in the emulated machine (ci/pmu-machine), so the number of counters is unknown");
        return;
    };
    let counters = support.core_pmus[0].counters.as_ref().expect("countable");
    assert_eq!((counters.generic, &counters.fixed[..]), (6, &[Hardware::Cycles][..]));
    assert!(trial.instructions.as_ref().is_ok_and(LoopCheck::passes), "{support}");
}

#[test]
#[cfg(target_os = "linux")]
fn everything_is_closed() {
    if std::env::var_os(child::SCENARIO).is_none() {
        // Alone in a process, because the other tests open and close files meanwhile.
        let mut program = std::process::Command::new(std::env::current_exe().expect("known"));
        return child::succeeds(program.args(["--exact", "everything_is_closed"]).env(child::SCENARIO, "alone"));
    }
    let open = || fs::read_dir("/proc/self/fd").expect("proc").count();
    let before = open();
    let _ = support();
    assert_eq!(open(), before);
}
