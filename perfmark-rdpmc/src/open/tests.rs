//! What is told of the kernel's answers, and what is not even asked.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::attr::Field;

/// A machine's files in a directory of their own, removed at the end.
struct Files(PathBuf);

impl Files {
    /// `root` tells whether the process has all capabilities; it lives in the user namespace of that map.
    fn new(name: &str, level: &str, root: bool, uid_map: &str) -> Self {
        let files = Self(std::env::temp_dir().join(format!("perfmark-open-{}-{name}", std::process::id())));
        let status = if root { "CapEff:\t000001ffffffffff\n" } else { "CapEff:\t0000000000000000\n" };
        let probes = ["kprobe", "uprobe"].map(|pmu| format!("sys/bus/event_source/devices/{pmu}/type"));
        for (path, text) in [
            (PARANOID, level),
            ("proc/self/status", status),
            ("proc/self/uid_map", uid_map),
            (&probes[0], "8"),
            (&probes[1], "9"),
        ] {
            let file = files.0.join(path);
            fs::create_dir_all(file.parent().expect("below the root")).expect("writable");
            fs::write(file, text).expect("writable");
        }
        files
    }

    fn machine(&self) -> Machine {
        Machine::at(&self.0)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

const OF_ALL: &str = "         0          0 4294967295\n";
const OF_ONE: &str = "         0       1000          1\n";

fn fixture(name: &str) -> Machine {
    Machine::at(format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR")))
}

fn attr(text: &str) -> Attr {
    Attr::new(text.parse::<Event>().unwrap_or_else(|error| panic!("{error}")))
}

/// What is told where the kernel answers so, and lets events that count nothing pass as it says.
fn told(attr: &Attr, machine: &Machine, errno: i32, dummy: Result<(), i32>) -> String {
    let answer = |raw: &PerfEventAttr| match dummy {
        Ok(()) if raw.config == sys::COUNT_SW_DUMMY && raw.kind == sys::TYPE_SOFTWARE => {
            Ok(fs::File::open("/dev/null").expect("there").into())
        }
        _ => Err(errno),
    };
    let error = open_each(attr, machine, &mut { answer }).expect_err("refused");
    assert_eq!(error.errno(), Some(errno));
    error.to_string()
}

#[test]
fn a_level_above_2_is_what_the_kernel_at_hand_takes_it_for() {
    let three = Files::new("three", "3\n", false, OF_ALL);
    let kernels = attr("page-faults:uk");
    let debian = told(&kernels, &three.machine(), libc::EACCES, Err(libc::EACCES));
    assert!(debian.contains("is 3, at which this kernel (Debian's, Ubuntu's) wants CAP_SYS_ADMIN"), "{debian}");
    assert!(debian.contains("sysctl kernel.perf_event_paranoid=2"), "{debian}");
    let mainline = told(&kernels, &three.machine(), libc::EACCES, Ok(()));
    assert!(mainline.contains("is 3: counting the kernel's part wants CAP_PERFMON, or level 1"), "{mainline}");
    assert!(!mainline.contains("CAP_SYS_ADMIN"), "{mainline}");
    let mainline = told(&attr("page-faults"), &three.machine(), libc::EACCES, Ok(()));
    assert!(mainline.contains("would allow it") && mainline.contains("security module"), "{mainline}");
}

#[test]
fn capabilities_of_a_user_namespace_are_told_to_count_for_nothing() {
    for (level, event) in
        [("2\n", "page-faults:uk"), ("4\n", "page-faults"), ("2\n", "uprobe/path=/bin/true,offset=1/")]
    {
        let all = Files::new("all", level, true, OF_ALL);
        let own = Files::new("own", level, true, OF_ONE);
        let none = Files::new("none", level, false, OF_ONE);
        let of = |files: &Files| told(&attr(event), &files.machine(), libc::EACCES, Err(libc::EACCES));
        assert!(of(&own).contains("are its user namespace's"), "{}", of(&own));
        assert!(of(&own).contains("CAP_"), "{}", of(&own));
        assert!(!of(&none).contains("namespace"), "{}", of(&none));
        assert!(of(&all).contains("a seccomp filter or a security module"), "{}", of(&all));
    }
}

#[test]
fn probes_are_told_the_capability_that_they_want() {
    let files = Files::new("probes", "1\n", false, OF_ALL);
    let of = |event: &str| told(&attr(event), &files.machine(), libc::EACCES, Ok(()));
    assert!(of("uprobe/path=/bin/true,offset=1/").contains("uprobes want CAP_SYS_ADMIN at every level"));
    assert!(of("kprobe/func=vfs_read/uk").contains("kprobes want CAP_PERFMON (CAP_SYS_ADMIN before linux 5.8)"));
}

#[test]
fn eperm_is_a_filters_but_for_tracepoints_and_the_kernels_addresses() {
    let files = Files::new("eperm", "2\n", false, OF_ALL);
    let of = |event: &str| told(&attr(event), &files.machine(), libc::EPERM, Ok(()));
    for event in ["page-faults", "cycles", "mem:0x1000/8:w"] {
        assert!(of(event).contains("seccomp filter"), "{}", of(event));
    }
    let kernels = of("mem:0xffffffff81000000/8:w");
    assert!(kernels.contains("the kernel's own addresses wants CAP_SYS_ADMIN"), "{kernels}");
}

#[test]
fn the_field_that_is_too_new_is_the_one_that_is_set() {
    let of = |attr: Attr| told(&attr, &fixture("alder-lake"), libc::E2BIG, Ok(()));
    assert!(of(attr("page-faults").field(Field::Config3, 1)).contains("config3, which is set (linux 6.3"));
    assert!(of(attr("page-faults").field(Field::SigData, 1)).contains("sig_data, which is set (linux 5.13"));
    let long = of(attr("uprobe/path=/bin/true,offset=1/"));
    assert!(long.contains("path") && long.contains("longer than") && !long.contains("config3"), "{long}");
    assert!(!of(attr("page-faults")).contains("config3"));
}

#[test]
fn a_group_on_two_kinds_of_core_is_refused_by_name_and_nothing_is_asked() {
    let mut asked = 0;
    let mut ask = |_: &PerfEventAttr| {
        asked += 1;
        Err(libc::EINVAL)
    };
    let machine = fixture("alder-lake");
    for event in ["cpu_atom/instructions/", "cpu_atom/event=0xc0/", "8:0xc0", "0:0x800000001"] {
        let error = open_member(&attr(event), &machine, Some("cpu_core"), &mut ask).expect_err("mixed").to_string();
        assert!(error.contains("on the PMU cpu_atom") && error.contains("are on cpu_core"), "{error}");
    }
    let error = open_member(&attr("cycles"), &machine, None, &mut ask).expect_err("on both").to_string();
    assert!(error.contains("several kinds of core"), "{error}");
    for (event, pmu) in
        [("cpu_core/event=0xc0/", "cpu_core"), ("page-faults", "cpu_core"), ("cpu_core/slots/", "cpu_core")]
    {
        let error = open_member(&attr(event), &machine, Some(pmu), &mut ask).expect_err("as answered");
        assert_eq!(error.errno(), Some(libc::EINVAL), "{event} is asked for");
    }
    let single = open_member(&attr("cpu/event=0xc0/"), &fixture("skylake-server"), Some("cpu"), &mut ask);
    assert_eq!(single.expect_err("as answered").errno(), Some(libc::EINVAL));
    assert!(asked >= 4);
}
