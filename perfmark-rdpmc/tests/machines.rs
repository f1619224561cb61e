//! Events on other machines, from copies of their sysfs. The files contain what the kernel's sources publish for each
//! machine (`arch/x86/events/{intel,amd}`, `drivers/perf/arm_pmuv3.c`; the events of an Arm core are in its manual and
//! in `tools/perf/pmu-events/arch/arm64`). The expected numbers are those that perf documents.
//!
//! Each directory has a file `events` with all events that its PMUs list, one per line: type, config, config1 unless it
//! is 0, scale and unit. `alder-lake` is a client without TSX, `skylake-server` has TSX and two threads per core, `zen`
//! is Zen 2, `big-little` has Cortex-A53 and Cortex-A73. `armv8.8-threshold` is not a real machine: it has the events
//! of Neoverse N2, and thresholds.

mod files;

use std::fs;

use files::Files;
use perfmark_rdpmc::{CacheEvent, Encoding, Event, Hardware, ListedEvent, ListedPmu, Machine};

/// The directories, and the `type`s of their core PMUs if there are several.
const MACHINES: [(&str, &[u64]); 5] = [
    ("alder-lake", &[8, 4]),
    ("armv8.8-threshold", &[]),
    ("big-little", &[6, 7]),
    ("skylake-server", &[]),
    ("zen", &[]),
];

fn machine(name: &str) -> Machine {
    Machine::at(format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR")))
}

fn resolve(machine: &Machine, event: &str) -> Vec<Encoding> {
    let event: Event = event.parse().unwrap_or_else(|error| panic!("{error}"));
    event.resolve(machine).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(machine: &Machine, event: &str) -> String {
    match event.parse::<Event>().and_then(|event| event.resolve(machine)) {
        Ok(encodings) => panic!("{event} is {encodings:?}"),
        Err(error) => error.to_string(),
    }
}

/// Type, config and config1 of all encodings.
fn numbers(machine: &Machine, event: &str) -> Vec<(u32, u64, u64)> {
    resolve(machine, event).iter().map(|encoding| (encoding.kind, encoding.config, encoding.config1)).collect()
}

fn lists(machine: &Machine, pmu: &str) -> Vec<String> {
    let listed = machine.list_pmus().expect("copies of files").into_iter().find(|listed| listed.name == pmu);
    listed.expect("there").events.into_iter().map(|event| event.name).collect()
}

#[test]
fn every_machines_events_are_listed_and_encoded_as_documented() {
    for (name, _) in MACHINES {
        let machine = machine(name);
        let line = |event: String| {
            let event: Event = event.parse().unwrap_or_else(|error| panic!("{error}"));
            let [encoding] = &event.resolve(&machine).unwrap_or_else(|error| panic!("{error}"))[..] else {
                panic!("{event} names its PMU")
            };
            assert_eq!((encoding.config2, encoding.config3), (0, 0), "{event}");
            let config1 = if encoding.config1 == 0 { String::new() } else { format!(" {:#x}", encoding.config1) };
            (
                format!("{event} {} {:#x}{config1}", encoding.kind, encoding.config),
                encoding.scale,
                encoding.unit.clone(),
            )
        };
        let pmus = machine.list_pmus().expect("copies of files");
        let names = |pmu: &ListedPmu| -> Vec<String> {
            pmu.events.iter().map(|event| format!("{}/{}/", pmu.name, event.name)).collect()
        };
        let listed: Vec<_> = pmus.iter().flat_map(names).map(line).collect();
        let path = format!("{}/tests/fixtures/{name}/events", env!("CARGO_MANIFEST_DIR"));
        let documented = fs::read_to_string(path).expect("there");
        let documented: Vec<_> = documented
            .lines()
            .map(|line| {
                let (line, unit) = line.split_once(" unit ").map_or((line, None), |(line, unit)| (line, Some(unit)));
                let (line, scale) =
                    line.split_once(" scale ").map_or((line, None), |(line, scale)| (line, Some(scale)));
                (line.to_owned(), scale.map(|scale| scale.parse().expect("a factor")), unit.map(str::to_owned))
            })
            .collect();
        assert_eq!(listed, documented, "{name}");
    }
}

#[test]
fn a_machines_pmus_are_listed_with_events_and_fields() {
    let pmus = machine("alder-lake").list_pmus().expect("copies of files");
    let find = |name: &str| pmus.iter().find(|pmu| pmu.name == name).expect("listed");
    let (core, power) = (find("cpu_core"), find("power"));
    assert_eq!((core.is_core, core.kind, core.cpumask.as_deref()), (true, Some(4), None));
    assert_eq!((power.is_core, power.cpumask.as_deref()), (false, Some("0")));
    assert!(core.events.iter().any(|event| event.name == "slots" && event.terms.contains("event=")), "{core:?}");
    assert!(core.fields.iter().any(|field| field.name == "event" && field.bits == "config:0-7"), "{core:?}");
    let unit = |event: &ListedEvent| event.name == "energy-pkg" && event.unit.as_deref() == Some("Joules");
    assert!(power.events.iter().any(unit), "{power:?}");
}

#[test]
fn generic_events_name_each_core_pmu_in_the_upper_half_of_their_number() {
    // `enum perf_hw_id`, and cache | op << 8 | result << 16 with those combinations that perf accepts
    // (`evsel__hw_cache_stat`).
    let hardware = "cycles instructions cache-references cache-misses branches branch-misses bus-cycles \
                    stalled-cycles-frontend stalled-cycles-backend ref-cycles";
    let caches = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
    let ops = ["load", "store", "prefetch"];
    let accepted: [&[usize]; 7] = [&[0, 1, 2], &[0, 2], &[0, 1, 2], &[0, 1, 2], &[0], &[0], &[0, 1, 2]];
    let mut events: Vec<_> = hardware.split(' ').zip(0..).map(|(name, id)| (0, id, name.to_owned())).collect();
    for (cache, (name, ops_accepted)) in caches.iter().zip(accepted).enumerate() {
        for &op in ops_accepted {
            let plural = if ops[op].ends_with("ch") { "es" } else { "s" };
            let number = (cache | op << 8) as u64;
            events.push((3, number, format!("{name}-{}{plural}", ops[op])));
            events.push((3, number | 1 << 16, format!("{name}-{}-misses", ops[op])));
        }
    }
    assert_eq!(events.len(), Hardware::ALL.len() + CacheEvent::all().count(), "all of them");
    for (name, kinds) in MACHINES {
        let machine = machine(name);
        for (kind, config, event) in &events {
            let several: Vec<_> = kinds.iter().map(|pmu| (*kind, pmu << 32 | config, 0)).collect();
            let documented = if kinds.is_empty() { vec![(*kind, *config, 0)] } else { several };
            assert_eq!(numbers(&machine, event), documented, "{event} on {name}");
        }
        assert_eq!(numbers(&machine, "task-clock"), [(1, 1, 0)], "software events are on none of them");
    }
}

#[test]
fn alder_lake_counts_an_event_on_both_kinds_of_core() {
    let machine = machine("alder-lake");
    // `tools/perf/Documentation/intel-hybrid.txt`: cycles is 0x400000000 and 0x800000000, of type 0.
    assert_eq!(numbers(&machine, "cycles"), [(0, 0x8_0000_0000, 0), (0, 0x4_0000_0000, 0)]);
    assert_eq!(numbers(&machine, "L1-dcache-load-misses"), [(3, 0x8_0001_0000, 0), (3, 0x4_0001_0000, 0)]);
    assert_eq!(numbers(&machine, "page-faults"), [(1, 2, 0)]);
    assert_eq!(numbers(&machine, "r1a"), [(8, 0x1a, 0), (4, 0x1a, 0)]);
    assert_eq!(numbers(&machine, "cpu/event=0xc0/"), [(8, 0xc0, 0), (4, 0xc0, 0)]);
    let pmus: Vec<_> = resolve(&machine, "instructions").into_iter().filter_map(|encoding| encoding.pmu).collect();
    assert_eq!(pmus, ["cpu_atom", "cpu_core"]);
}

#[test]
fn alder_lake_counts_on_the_kind_of_core_that_is_named() {
    let machine = machine("alder-lake");
    assert_eq!(numbers(&machine, "cpu_core/cycles/"), [(0, 0x4_0000_0000, 0)]);
    assert_eq!(numbers(&machine, "cpu_atom/L1-icache-loads/"), [(3, 0x8_0000_0001, 0)]);
    assert_eq!(numbers(&machine, "cpu_core/r1a/"), [(4, 0x1a, 0)]);
    // Listed: by the PMU's own number.
    assert_eq!(numbers(&machine, "cpu_core/cache-misses/"), [(4, 0x412e, 0)]);
    assert_eq!(numbers(&machine, "cpu_atom/mem-loads/"), [(8, 0x5d0, 3)]);
    // A field beside a generic event: the one that the PMU lists under another of its names.
    assert_eq!(numbers(&machine, "cpu_core/cycles,cmask=1,inv/"), [(4, 0x3c | 1 << 23 | 1 << 24, 0)]);
}

#[test]
fn alder_lakes_slots_are_recognized() {
    let machine = machine("alder-lake");
    let retiring = resolve(&machine, "topdown-retiring");
    let topdown: Vec<_> = retiring
        .iter()
        .map(|event| (event.pmu.as_deref(), event.config, event.is_topdown(), event.is_user_readable()))
        .collect();
    assert_eq!(topdown, [(Some("cpu_atom"), 0xc2, false, true), (Some("cpu_core"), 0x8000, true, false)]);
    assert_eq!(numbers(&machine, "topdown_retiring"), numbers(&machine, "topdown-retiring"), "as a Rust identifier");
    let all = "slots cpu_core/slots/ cpu_core/event=0,umask=4/ cpu_core/topdown-fetch-lat/ cpu_core/r8700/ 4:0x400";
    for slots in all.split(' ') {
        assert!(resolve(&machine, slots).iter().all(Encoding::is_topdown), "{slots}");
    }
    assert!(resolve(&machine, "cpu_core/ref-cycles/")[0].is_user_readable(), "event 0 with unit mask 3 is a counter");
}

#[test]
fn skylake_encodes_its_events() {
    let machine = machine("skylake-server");
    // The example of perf-list(1).
    assert_eq!(numbers(&machine, "cpu/event=0xa8,umask=0x1,name=LSD.UOPS_CYCLES,cmask=0x1/"), [(4, 0x100_01a8, 0)]);
    assert_eq!(numbers(&machine, "r1a8"), [(4, 0x1a8, 0)]);
    assert_eq!(numbers(&machine, "cpu/r1a8/"), [(4, 0x1a8, 0)]);
    assert_eq!(numbers(&machine, "cpu/r0x1a8/"), [(4, 0x1a8, 0)]);
    assert_eq!(numbers(&machine, "cycles"), [(0, 0, 0)], "one core PMU: the kernel chooses it");
    assert_eq!(numbers(&machine, "cpu/cycles/"), [(0, 0, 0)]);
    assert_eq!(numbers(&machine, "cycles-ct"), [(4, 0x3_0000_003c, 0)], "in_tx and in_tx_cp are bits 32 and 33");
    assert_eq!(numbers(&machine, "cpu/mem-loads/"), [(4, 0x1cd, 3)]);
    assert_eq!(
        numbers(&machine, "cpu/mem-loads,ldlat=30/"),
        [(4, 0x1cd, 30)],
        "the given latency, not combined with the listed one"
    );
    assert_eq!(numbers(&machine, "cpu/event=0xb7,umask=1,offcore_rsp=0x3fbfc00001/"), [(4, 0x1b7, 0x3f_bfc0_0001)]);
    assert_eq!(numbers(&machine, "cpu/config=0x3c,config1=0x5/"), [(4, 0x3c, 5)]);
    assert!(!resolve(&machine, "topdown-total-slots")[0].is_topdown(), "counted in an ordinary counter here");
}

#[test]
fn skylakes_units_come_with_its_events() {
    let machine = machine("skylake-server");
    for (event, config, scale, unit) in [
        ("uncore_imc_0/cas_count_read/", 0x304, Some(6.103_515_625e-5), Some("MiB")),
        ("power/energy-pkg/", 2, Some(2.328_306_436_538_696_3e-10), Some("Joules")),
        ("topdown-total-slots", 0x3c | 1 << 21, Some(2.0), None),
        ("uncore_imc_0/clockticks/", 0, None, None),
        ("msr/cpu_thermal_margin/", 7, None, Some("C")),
    ] {
        let encoding = &resolve(&machine, event)[0];
        assert_eq!((encoding.config, encoding.scale, encoding.unit.as_deref()), (config, scale, unit), "{event}");
    }
    assert_eq!(lists(&machine, "power"), ["energy-pkg", "energy-ram"], "scale and unit are no events");
    assert_eq!(numbers(&machine, "uncore_imc_0/event=1,thresh=255/"), [(14, 0xff00_0001, 0)]);
    // A field called threshold that is not arm64's.
    assert_eq!(numbers(&self::machine("alder-lake"), "uncore_cbox_0/event=0x22,threshold=63/"), [(12, 0x3f00_0022, 0)]);
}

#[test]
fn zens_event_numbers_have_two_bit_ranges() {
    let machine = machine("zen");
    // perf-list(1): the op cache's hits are 0x28f with unit mask 3, r20000038f.
    assert_eq!(numbers(&machine, "cpu/event=0x28f,umask=0x03/"), [(4, 0x2_0000_038f, 0)]);
    assert_eq!(numbers(&machine, "r20000038f"), [(4, 0x2_0000_038f, 0)]);
    assert_eq!(numbers(&machine, "cpu/cache-misses/"), [(4, 0x964, 0)]);
    assert_eq!(numbers(&machine, "cpu/stalled-cycles-frontend/"), [(4, 0xa9, 0)]);
    assert_eq!(numbers(&machine, "amd_df/event=0x3fff,umask=0xff/"), [(12, 0x1800_000f_0000_ffff, 0)]);
    assert_eq!(
        numbers(&machine, "amd_l3/event=0x04,umask=0xff,slicemask=0xf,threadmask=0xff/"),
        [(11, 0xff0f_0000_0000_ff04, 0)]
    );
    // High bits, and a single bit: ibs_op counts micro-operations by cnt_ctl, ibs_fetch tags at random by rand_en.
    assert_eq!(numbers(&machine, "ibs_op/cnt_ctl/"), [(14, 1 << 19, 0)]);
    assert_eq!(numbers(&machine, "ibs_fetch/rand_en/"), [(13, 1 << 57, 0)]);
}

#[test]
fn big_little_counts_on_both_kinds_of_core() {
    let machine = machine("big-little");
    assert_eq!(numbers(&machine, "instructions"), [(0, 0x6_0000_0001, 0), (0, 0x7_0000_0001, 0)]);
    assert_eq!(numbers(&machine, "l1d_cache_refill"), [(6, 3, 0), (7, 3, 0)]);
    assert_eq!(numbers(&machine, "inst_spec"), [(7, 0x1b, 0)], "the A53 does not list it");
    assert_eq!(numbers(&machine, "armv8_cortex_a53/event=0x11,long/"), [(6, 0x11, 1)]);
    assert_eq!(numbers(&machine, "armv8_cortex_a73/br_mis_pred,rdpmc,long=1/"), [(7, 0x10, 3)]);
}

#[test]
fn thresholds_are_encoded_and_checked() {
    let machine = machine("armv8.8-threshold");
    // `Documentation/arch/arm64/perf.rst`, both examples.
    assert_eq!(numbers(&machine, "stall_slot/threshold=2,threshold_compare=2/"), [(8, 0x3f, 2 << 5 | 2 << 3)]);
    let walk = "dtlb_walk/threshold=10,threshold_compare=3,threshold_count/";
    assert_eq!(numbers(&machine, walk), [(8, 0x34, 10 << 5 | 3 << 3 | 1 << 2)]);
    assert_eq!(numbers(&machine, "cycles/threshold=255/"), [(0, 0, 255 << 5)]);
    let message = refusal(&machine, "stall_slot/threshold=256/");
    assert!(message.contains("at most 255 (caps/threshold_max)"), "{message}");
    let message = refusal(&machine, "stall_slot/threshold=4096/");
    assert!(message.contains("12 bits"), "{message}");
    let message = refusal(&machine, "stall_slot/threshold_compare=2/");
    assert!(message.contains("has no effect without threshold="), "{message}");
    let spe =
        &resolve(&machine, "arm_spe_0/jitter,min_latency=0xfff,event_filter=2,inv_event_filter=0x8000000000000000/")[0];
    assert_eq!([spe.config, spe.config1, spe.config2, spe.config3], [1 << 16, 2, 0xfff, 1 << 63]);
}

#[test]
fn tracepoints_have_the_numbers_of_tracefs() {
    let machine = machine("alder-lake");
    assert_eq!(numbers(&machine, "sched:sched_switch"), [(2, 316, 0)]);
    assert_eq!(numbers(&machine, "syscalls:sys_enter_read"), [(2, 716, 0)]);
    let message = refusal(&machine, "sched:sched_swich");
    assert!(message.contains("did you mean sched_switch"), "{message}");
    let message = refusal(&machine, "shed:sched_switch");
    assert!(message.contains("did you mean sched"), "{message}");
    let message = refusal(&self::machine("zen"), "sched:sched_switch");
    assert!(message.contains("mount -t tracefs"), "{message}");
}

#[test]
fn probes_have_their_locations() {
    let machine = machine("alder-lake");
    let probe = &resolve(&machine, "uprobe/path=/bin/true,offset=0x1130,retprobe,ref_ctr_offset=0x20/")[0];
    assert_eq!((probe.kind, probe.config, probe.config2), (7, 0x20_0000_0001, 0x1130));
    for (text, offset) in [("kprobe/func=vfs_read/", 0), ("kprobe/func=vfs_read,offset=0x10/", 0x10)] {
        assert_eq!(resolve(&machine, text)[0].config2, offset);
    }
    assert_eq!(resolve(&machine, "kprobe/addr=0xffffffff81000000/")[0].config2, 0xffff_ffff_8100_0000);
    for (event, message) in [
        ("uprobe/offset=1/", "the file is missing"),
        ("uprobe/path=/bin/true/", "offset= is missing"),
        ("uprobe/func=main,offset=1/", "has no meaning for uprobe"),
        ("kprobe/retprobe/", "the location is missing"),
        ("kprobe/func=vfs_read,addr=1/", "cannot be combined"),
        ("7:0", "requires a location"),
    ] {
        let why = refusal(&machine, event);
        assert!(why.contains(message), "{why}");
    }
}

#[test]
fn a_value_that_is_too_large_is_refused_with_the_fields_width() {
    let message = refusal(&machine("skylake-server"), "cpu/event=0x100/");
    assert!(message.contains("event=0x100 is too large: the field has 8 bits, at most 0xff"), "{message}");
    let message = refusal(&machine("zen"), "cpu/event=0x1000/");
    assert!(message.contains("12 bits, at most 0xfff"), "{message}");
    let message = refusal(&machine("skylake-server"), "cpu/event/");
    assert!(message.contains("event needs a value: it has 8 bits"), "{message}");
    let message = refusal(&machine("skylake-server"), "cpu/event=high/");
    assert!(message.contains("is not a number"), "{message}");
}

/// The memory controllers of a server, for example.
#[test]
fn an_event_of_several_pmus_outside_the_cores_requires_the_pmu() {
    let files = Files::new("machines");
    for number in 0..3 {
        let pmu = format!("sys/bus/event_source/devices/uncore_imc_{number}");
        files.write(format!("{pmu}/type"), &(20 + number).to_string());
        files.write(format!("{pmu}/events/all_reads"), "event=0x4");
        files.write(format!("{pmu}/format/event"), "config:0-7");
        let machine = Machine::at(&files.0);
        if number == 0 {
            assert_eq!(numbers(&machine, "all-reads"), [(20, 4, 0)], "the only one");
        } else {
            let message = refusal(&machine, "all-reads");
            assert!(message.contains(&format!("{} PMUs list it", number + 1)), "{message}");
            assert!(message.contains("as in uncore_imc_0/all_reads/ or uncore_imc_1/all_reads/"), "{message}");
            assert_eq!(numbers(&machine, "uncore_imc_1/all_reads/"), [(21, 4, 0)]);
        }
    }
}

#[test]
fn an_unknown_name_gets_suggestions_from_the_machine() {
    let machine = machine("skylake-server");
    for (wrong, near) in [
        ("cylces", "did you mean cycles"),
        ("mem_load", "did you mean mem-loads"),
        ("L1-dcache-load-mises", "did you mean L1-dcache-load-misses"),
        ("cas_count_rd", "cas_count_read"),
        ("cpu/evnt=1/", "did you mean event"),
        ("cpu/mem-laods/", "did you mean mem-loads"),
        ("cpuu/event=1/", "did you mean cpu"),
        ("cpu_core/cycles/", "available: breakpoint, cpu"),
        ("cpu/period=1000/", "does not apply to counting"),
        ("cpu/page-faults/", "neither an event nor a field"),
        ("nothing-like-it-anywhere", "available are cycles, instructions"),
    ] {
        let error = wrong.parse::<Event>().and_then(|event| event.resolve(&machine)).expect_err(wrong);
        let message = error.to_string();
        assert!(message.starts_with("event \"") && message.contains(near), "{message}");
        assert!(error.is_invalid_event() && error.is_unknown_name() != wrong.contains('/'), "{message}");
    }
}
