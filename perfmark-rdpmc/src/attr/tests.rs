//! The requests to the kernel, and those that are refused before.

use super::*;
use crate::event::{Hardware, Software};

fn attr(text: &str) -> Attr {
    Attr::new(text.parse::<Event>().unwrap_or_else(|error| panic!("{error}")))
}

fn filled(attr: &Attr) -> PerfEventAttr {
    attr.encode(&Machine::fixture("skylake-server")).unwrap_or_else(|error| panic!("{error}"))[0].attr()
}

fn refusal(attr: &Attr, machine: &str) -> String {
    match attr.encode(&Machine::fixture(machine)) {
        Ok(requests) => panic!("{attr} is accepted: {requests:?}"),
        Err(error) => error.to_string(),
    }
}

const EK: u64 = FLAG_EXCLUDE_KERNEL;
const EH: u64 = FLAG_EXCLUDE_HV;
const EU: u64 = FLAG_EXCLUDE_USER;

#[test]
fn modifiers_set_the_flags_that_perf_sets() {
    for (text, flags, shown) in [
        ("cycles", EK | EH, "cycles:u"),
        ("cycles:u", EK | EH, "cycles:u"),
        ("cycles:k", EU | EH, "cycles:k"),
        ("cycles:uk", EH, "cycles:uk"),
        ("cycles:kh", EU, "cycles:kh"),
        ("cycles:ukh", 0, "cycles"),
        ("cycles:G", EK | EH | FLAG_EXCLUDE_HOST, "cycles:uG"),
        ("cycles:uH", EK | EH | FLAG_EXCLUDE_GUEST, "cycles:uH"),
        ("cycles:GH", EK | EH, "cycles:u"),
        ("cycles:I", EK | EH | FLAG_EXCLUDE_IDLE, "cycles:uI"),
        ("cycles:kDe", EU | EH | FLAG_PINNED | FLAG_EXCLUSIVE, "cycles:kDe"),
        ("cpu/event=1/k", EU | EH, "cpu/event=0x1/k"),
        ("mem:0x1000/8:w:u", EK | EH, "mem:0x1000/8:w:u"),
    ] {
        assert_eq!(filled(&attr(text)).flags, flags, "{text}");
        assert_eq!(attr(text).to_string(), shown);
        assert_eq!(attr(shown).flags & !(EU | EK | EH), flags & !(EU | EK | EH), "{shown}");
    }
}

#[test]
fn every_method_sets_its_flag_and_takes_it_back() {
    type Set = fn(Attr, bool) -> Attr;
    let flags: [(Set, u64); 10] = [
        (Attr::disabled, FLAG_DISABLED),
        (|attr, on| attr.user_reads(false).inherit(on), FLAG_INHERIT),
        (Attr::pinned, FLAG_PINNED),
        (Attr::exclusive, FLAG_EXCLUSIVE),
        (Attr::exclude_user, FLAG_EXCLUDE_USER),
        (Attr::exclude_kernel, FLAG_EXCLUDE_KERNEL),
        (Attr::exclude_idle, FLAG_EXCLUDE_IDLE),
        (Attr::enable_on_exec, FLAG_ENABLE_ON_EXEC),
        (Attr::exclude_host, FLAG_EXCLUDE_HOST),
        (Attr::exclude_guest, FLAG_EXCLUDE_GUEST),
    ];
    let plain = Attr::new(Hardware::Cycles).kernel(true);
    for (set, flag) in flags {
        assert_eq!(filled(&set(plain.clone(), true)).flags, flag);
        assert_eq!(filled(&set(set(plain.clone(), true), false)).flags, 0);
    }
    assert_eq!(filled(&plain.clone().exclude_hv(true)).flags, EH);
    assert_eq!(filled(&plain.clone().kernel(false)).flags, EK | EH);
    let precise = plain.precise_ip(9).field(Field::SamplePeriod, 1000);
    assert_eq!(filled(&precise).flags, 3 << 15);
    assert_eq!(filled(&precise.precise_ip(1)).flags, 1 << 15);
}

#[test]
fn fields_without_a_method_are_set_as_they_are() {
    let raw = attr("r1a8")
        .field(Field::Config1, 5)
        .field(Field::Config1, 7)
        .field(Field::Flags, 1 << 10)
        .field(Field::WakeupEvents, 2);
    let raw = filled(
        &raw.field(Field::SamplePeriod, 1000)
            .field(Field::SampleType, 1)
            .field(Field::Config3, 9)
            .field(Field::SigData, 3),
    );
    assert_eq!((raw.kind, raw.config, raw.config1, raw.config3), (4, 0x1a8, 7, 9));
    assert_eq!((raw.flags, raw.sample_period, raw.sample_type), (EK | EH | 1 << 10, 1000, 1));
    assert_eq!((raw.wakeup_events, raw.sig_data), (2, 3));
}

#[test]
fn requests_are_equal_whatever_the_order_of_calls() {
    let plain = Attr::new(Hardware::Cycles);
    let set =
        |fields: &[(Field, u64)]| fields.iter().fold(plain.clone(), |attr, &(field, value)| attr.field(field, value));
    let [period, content] = [(Field::SamplePeriod, 1_000), (Field::SampleType, 1)];
    assert_eq!(set(&[period, content]), set(&[content, period]));
    let set_and_cleared = plain.clone().bits(Field::Flags, FLAG_INHERIT, true).bits(Field::Flags, FLAG_INHERIT, false);
    assert_eq!(set_and_cleared, plain);
    assert_eq!(plain.clone().bits(Field::SampleType, 1, false), plain);
}

#[test]
fn a_breakpoint_is_its_address_length_and_accesses() {
    let raw = filled(&attr("mem:0x1000/8:w"));
    assert_eq!((raw.kind, raw.config, raw.bp_type, raw.config1, raw.config2), (5, 0, 2, 0x1000, 8));
    let raw = filled(&attr("mem:0x1000"));
    assert_eq!((raw.bp_type, raw.config2), (3, 4));
    let raw = filled(&attr("mem:0x1001:x"));
    assert_eq!((raw.bp_type, raw.config2), (4, if cfg!(target_arch = "x86_64") { 8 } else { 4 }));
    if cfg!(target_arch = "x86_64") {
        for (text, message) in [
            ("mem:0x1000:r", "no breakpoint for reads only"),
            ("mem:0x1000/3:w", "1, 2, 4 or 8 bytes"),
            ("mem:0x1000/5:w", "1, 2, 4 or 8 bytes"),
            ("mem:0x1000/6:w", "1, 2, 4 or 8 bytes"),
            ("mem:0x1000/7:w", "1, 2, 4 or 8 bytes"),
            ("mem:0x1001/2:w", "a multiple of 2"),
            ("mem:0x1000/4:x", "only with a length of 8"),
        ] {
            assert!(refusal(&attr(text), "zen").contains(message), "{text}");
        }
    }
}

#[test]
fn a_probes_location_is_passed_to_the_kernel() {
    for (event, kind, location, offset) in
        [("uprobe/path=/bin/true,offset=0x10/", 7, "/bin/true", 0x10), ("kprobe/func=vfs_read/uk", 6, "vfs_read", 0)]
    {
        let requests = attr(event).encode(&Machine::fixture("alder-lake")).expect("a location");
        let raw = requests[0].attr();
        assert_eq!((raw.kind, raw.config2), (kind, offset));
        let text = requests[0].encoding.text.as_ref().expect("a text");
        assert_eq!((raw.config1, text.to_str()), (text.as_ptr().addr() as u64, Ok(location)));
    }
}

#[test]
fn events_that_would_count_nothing_are_refused_with_the_reason() {
    for event in [Software::ContextSwitches, Software::CpuMigrations, Software::CgroupSwitches] {
        let message = refusal(&Attr::new(event), "zen");
        assert!(message.starts_with(&format!("{}:u: it happens in kernel mode only", event.name())), "{message}");
        assert!(Attr::new(event).kernel(true).encode(&Machine::fixture("zen")).is_ok());
    }
    for text in
        ["1:3", "software/config=3/", "sched:sched_switch", "2:316", "tracepoint/config=316/", "kprobe/func=vfs_read/"]
    {
        assert!(refusal(&attr(text), "alder-lake").contains("in kernel mode only"), "{text}");
        assert!(attr(text).kernel(true).encode(&Machine::fixture("alder-lake")).is_ok(), "{text}");
    }
    for text in [
        "syscalls:sys_enter_read",
        "2:716",
        "tracepoint/config=716/",
        "probe_true:main",
        "2:2000",
        "uprobe/path=/bin/true,offset=0x1130/",
    ] {
        assert!(attr(text).encode(&Machine::fixture("alder-lake")).is_ok(), "{text} is reached in user mode");
    }
    assert!(attr("2:316").encode(&Machine::fixture("zen")).is_ok(), "without tracefs, it may be a system call");
    assert!(refusal(&Attr::new(Hardware::Cycles).exclude_user(true), "zen").contains("every mode is excluded"));
    assert!(
        refusal(&Attr::new(Hardware::Cycles).exclude_host(true).exclude_guest(true), "zen")
            .contains("every mode is excluded")
    );
}

#[test]
fn the_kernels_own_events_cannot_exclude_the_host() {
    for event in ["page-faults", "task-clock:u", "2:316:uk", "mem:0x1000/8:w", "uprobe/path=/bin/true,offset=1/", "1:2"]
    {
        let why = refusal(&attr(event).exclude_host(true), "alder-lake");
        assert!(why.contains("it would count the host"), "{why}");
        assert!(attr(event).exclude_guest(true).encode(&Machine::fixture("alder-lake")).is_ok(), "{event}");
    }
}

#[test]
fn events_without_a_hypervisor_mode_are_refused_if_no_other_mode_is_requested() {
    for text in ["page-faults:h", "alignment-faults:h", "1:2:h", "software/config=2/h", "mem:0x1000/8:w:h"] {
        let message = refusal(&attr(text), "alder-lake");
        assert!(
            message.contains("always be 0") && message.contains("are always counted in one of the two"),
            "{message}"
        );
    }
    for text in ["syscalls:sys_enter_read:h", "uprobe/path=/bin/true,offset=0x1130/h", "sched:sched_switch:h"] {
        assert!(refusal(&attr(text), "alder-lake").contains("always be 0"), "{text}");
    }
    for text in ["task-clock:h", "cpu-clock:k"] {
        assert!(refusal(&attr(text), "alder-lake").contains("the thread's total time"), "{text}");
    }
    let sampled = attr("cpu-clock:k").field(Field::SamplePeriod, 1_000_000);
    assert!(sampled.encode(&Machine::fixture("alder-lake")).is_ok(), "linux takes no samples in an excluded mode");
    for text in ["task-clock", "cpu-clock:u", "task-clock:ukh", "page-faults:k", "page-faults:uh"] {
        assert!(attr(text).encode(&Machine::fixture("alder-lake")).is_ok(), "{text} counts something");
    }
    for text in ["cycles:h", "L1-dcache-loads:h", "r1a8:h", "cpu/event=0xc0/h"] {
        let encoded = attr(text).encode(&Machine::fixture("skylake-server"));
        assert_eq!(encoded.is_err(), cfg!(target_arch = "x86_64"), "{text}");
        assert!(encoded.err().is_none_or(|why| why.reason().contains("x86 counters")), "{text}");
    }
}

#[test]
fn each_event_without_user_reads_has_its_reason() {
    let message = |attr: Attr| {
        let requests = attr.encode(&Machine::fixture("alder-lake")).unwrap_or_else(|error| panic!("{error}"));
        attr.maps(&requests[0].encoding)
    };
    assert_eq!(message(attr("cpu_core/cycles/")), Ok(()));
    assert!(message(attr("cpu_core/cycles/").user_reads(false)).is_err_and(|why| why.contains("user_reads(false)")));
    assert_eq!(message(attr("page-faults").user_reads(false)), Err("a kernel event without a hardware counter"));
    assert!(message(attr("cpu_core/slots/")).is_err_and(|why| why.contains("fractions of slots")));
}

#[test]
fn only_the_kernel_refuses_a_pmu_that_lists_cpus() {
    for (text, machine) in [
        ("arm_spe_0/jitter/", "armv8.8-threshold"),
        ("uncore_imc_0/cas_count_read/ukh", "skylake-server"),
        ("amd_l3/event=4/", "zen"),
    ] {
        assert!(attr(text).encode(&Machine::fixture(machine)).is_ok(), "{text}");
    }
}

#[test]
fn an_event_that_cannot_count_in_a_mode_is_refused_with_the_reason() {
    let message = refusal(&attr("msr/tsc/"), "zen");
    assert!(message.contains("cannot distinguish user mode from kernel mode"), "{message}");
    assert!(attr("msr/tsc/ukh").encode(&Machine::fixture("zen")).is_ok());
}

#[test]
fn inheriting_and_user_reads_exclude_each_other() {
    let both = Attr::new(Hardware::Cycles).inherit(true);
    let message = refusal(&both, "zen");
    assert!(message.contains("linux does not map the page of an event that inherits (EINVAL)"), "{message}");
    assert!(both.user_reads(false).encode(&Machine::fixture("zen")).is_ok());
    assert!(
        Attr::new(Software::PageFaults).inherit(true).encode(&Machine::fixture("zen")).is_ok(),
        "has no page anyway"
    );
}

#[test]
#[cfg(target_arch = "x86_64")]
fn precision_without_samples_is_refused() {
    let precise = Attr::new(Hardware::Cycles).precise_ip(1);
    assert!(refusal(&precise, "skylake-server").contains("without a sample period"));
    assert!(precise.field(Field::SamplePeriod, 1000).encode(&Machine::fixture("skylake-server")).is_ok());
    assert!(Attr::new(Software::PageFaults).precise_ip(1).encode(&Machine::fixture("skylake-server")).is_ok());
}
