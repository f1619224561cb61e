//! Errors name their actual causes: files that cannot be read, capabilities without effect.
//!
//! A scenario that changes the entire process runs in a new process of this program, with `PERFMARK_TEST_SCENARIO`.
#![cfg(target_os = "linux")]

mod child;
mod files;
mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use files::Files;
use perfmark_rdpmc::{
    Attr, Counter, EmulatedCounter, Error, Event, Hardware, Machine, Software, Support, disable_all_of_thread,
    enable_all_of_thread,
};
use support::trial;

/// Tests that change the entire process.
const ALONE: [(&str, fn()); 3] = [
    ("without_descriptors_no_name_is_unknown", without_descriptors),
    ("root_of_a_user_namespace_learns_why_it_has_no_permission", in_a_user_namespace),
    ("a_limit_on_file_sizes_that_stops_the_emulator_is_named", without_files),
];

fn main() {
    if child::runs_scenario(&ALONE) {
        return;
    }
    let unreadable = trial("a_file_that_cannot_be_read_is_reported_with_errno_not_as_an_unknown_name", unreadable);
    support::run(
        ALONE.iter().map(|&(name, _)| trial(name, || child::passes(name))).chain([unreadable]).collect(),
        &[
            ("a_kernel_in_a_virtual_machine_does_not_count_a_hypervisor", counting_nothing),
            ("user_reads_that_were_turned_off_name_the_callers_setting", turned_off),
            ("user_reads_of_a_stopped_counter_are_unknown_because_it_is_stopped", stopped),
        ],
    );
}

fn parse(text: &str) -> Event {
    text.parse().expect("an event")
}

fn fixture(name: &str) -> Machine {
    Machine::at(format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR")))
}

fn assert_names_cause(error: &Error, errno: &str, path: &str) {
    assert_eq!(error.errno_name(), Some(errno), "{error}");
    assert!(!error.is_invalid_event() && error.reason().contains(path), "{error}");
    assert_eq!(error.reason().contains("symbolic link"), errno == "ELOOP", "{error}");
    assert!(!error.reason().contains("did you mean") && !error.reason().contains("as root"), "{error}");
}

/// Not even root can read a symbolic link that points to itself.
fn unreadable() {
    const PMU: &str = "sys/bus/event_source/devices/cpu";
    for (name, broken, events) in [
        ("devices", "sys/bus/event_source/devices", &["cycles", "no-such-event", "cpu/event=1/", "nopmu/event=1/"][..]),
        ("type", &format!("{PMU}/type"), &["cycles", "no-such-event", "cpu/event=1/", "4:0x3c"]),
        ("events", &format!("{PMU}/events"), &["no-such-event", "cpu/nothing/", "cpu/listed/"]),
        ("format", &format!("{PMU}/format"), &["cpu/event=1/", "cpu/nothing/"]),
        ("listed", &format!("{PMU}/events/listed"), &["listed", "cpu/listed/"]),
        ("id", "sys/kernel/tracing/events/sched/sched_switch/id", &["sched:sched_switch:uk"]),
        ("system", "sys/kernel/tracing/events/sched", &["sched:sched_switch:uk", "sched:nothing:uk"]),
        ("uprobes", "sys/kernel/tracing/uprobe_events", &["sched:sched_switch:uk"]),
    ] {
        let files = Files::new(&format!("causes-{name}"));
        for (file, text) in [
            (format!("{PMU}/type"), "4"),
            (format!("{PMU}/events/listed"), "event=1"),
            (format!("{PMU}/format/event"), "config:0-7"),
            ("sys/kernel/tracing/events/sched/sched_switch/id".into(), "316"),
            ("sys/kernel/tracing/uprobe_events".into(), ""),
        ] {
            if !Path::new(&file).starts_with(broken) {
                files.write(file, text);
            }
        }
        let link = files.0.join(broken);
        fs::create_dir_all(link.parent().expect("below the root")).expect("writable");
        symlink(&link, &link).expect("writable");
        for event in events {
            let error = parse(event).resolve(&Machine::at(&files.0)).expect_err("unknown");
            println!("{error}");
            assert_names_cause(&error, "ELOOP", broken);
        }
        if name == "devices" {
            let mut support = Support::of(&Machine::at(&files.0));
            support.target = true;
            let findings = support.findings();
            let pmu = findings.iter().find(|finding| finding.subject == "PMU").expect("reported");
            assert!(pmu.text.contains("ELOOP") && !pmu.text.contains("no hardware event"), "{pmu:?}");
        }
    }
}

/// Leaves the process the descriptors 0, 1 and 2, which are open.
fn without_descriptors() {
    let machine = fixture("alder-lake");
    let events = [
        "cycles",
        "no-such-event",
        "cpu_core/cycles/",
        "cpu_core/nothing/",
        "sched:sched_switch:uk",
        "no:tracepoint:uk",
    ];
    let limit = libc::rlimit { rlim_cur: 3, rlim_max: 3 };
    // SAFETY: a live limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    for event in events {
        let error = parse(event).resolve(&machine).expect_err("no file can be opened");
        println!("{error}");
        assert_names_cause(&error, "EMFILE", "/sys/");
        assert!(error.reason().contains("RLIMIT_NOFILE"), "{error}");
    }
    let error = Counter::open(&Attr::new(Hardware::Cycles)).expect_err("nor an event");
    assert!(error.is_unsupported() || error.errno_name() == Some("EMFILE"), "{error}");
}

fn in_a_user_namespace() {
    // SAFETY: takes no pointer; this process has one thread.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } == -1 {
        println!("skipped: no user namespace can be made here: {}", std::io::Error::last_os_error());
        return;
    }
    let probe = parse("uprobe/path=/proc/self/exe,offset=0/");
    if !probe
        .resolve(&Machine::here())
        .is_ok_and(|_| fs::exists("/proc/sys/kernel/perf_event_paranoid").is_ok_and(|is| is))
    {
        println!("skipped: this kernel has no uprobes");
        return;
    }
    let error = Counter::open(&Attr::new(probe)).expect_err("no capability outside the namespace");
    println!("{error}");
    let explained = error.errno_name() == Some("EACCES") && error.reason().contains("belong to its user namespace");
    let filtered = error.errno_name() != Some("EACCES") && error.reason().contains("filter");
    assert!(explained || filtered || error.is_unsupported(), "{error}");
}

fn without_files() {
    let limit = libc::rlimit { rlim_cur: 4_095, rlim_max: 4_095 };
    // SAFETY: a live limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    let error = EmulatedCounter::open(&Hardware::Instructions.into()).expect_err("no file of 4,096 bytes");
    println!("{error}");
    let explained = error.errno_name() == Some("EFBIG") && error.reason().contains("raise RLIMIT_FSIZE (`ulimit -f`)");
    let is_unsupported = Counter::open(&Attr::new(Software::TaskClock)).is_err_and(|error| error.is_unsupported());
    assert!(explained || is_unsupported, "{error}");
}

fn counting_nothing() {
    // Where there are no atomic instructions, nothing tells whether the kernel is in a virtual machine.
    if !support::is_emulated() || !fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" atomics")) {
        return println!("skipped: not the machine of ci/pmu-machine, or its processor has no atomic instructions");
    }
    let error = Counter::open(&Attr::new(parse("cycles:h"))).expect_err("a kernel in a virtual machine");
    assert!(error.reason().contains("counts no hypervisor apart from the kernel"), "{error}");
}

fn turned_off() {
    let counter = Counter::open(&Attr::new(Hardware::Instructions).user_reads(false)).expect("there is a PMU");
    let why = counter.user_reads().expect_err("turned off");
    assert!(why.contains("Attr::user_reads(false)"), "{why}");
    assert!(counter.read_user().is_none() && counter.read().is_ok());
}

fn stopped() {
    let counter = Counter::open(&Attr::new(Hardware::Instructions).disabled(true)).expect("there is a PMU");
    let assert_stopped = || {
        let why = counter.user_reads().expect_err("stopped");
        assert!(why.contains("it is stopped"), "{why}");
    };
    assert_stopped();
    counter.enable().expect("allowed");
    assert_eq!(counter.user_reads(), Ok(()));
    counter.disable().expect("allowed");
    assert_stopped();
    counter.enable().expect("allowed");
    disable_all_of_thread().expect("allowed");
    assert_stopped();
    enable_all_of_thread().expect("allowed");
    assert_eq!(counter.user_reads(), Ok(()));
}
