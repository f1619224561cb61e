//! Reads any contents of the files that describe a machine's PMUs and tracepoints.
//!
//! The input is split at zero bytes into an event and the contents of the files below, which are written to memory.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use perfmark_rdpmc::{Event, Machine};

const FILES: [&str; 11] = [
    "sys/bus/event_source/devices/cpu/format/event",
    "sys/bus/event_source/devices/cpu/format/umask",
    "sys/bus/event_source/devices/cpu/format/threshold",
    "sys/bus/event_source/devices/cpu/events/listed",
    "sys/bus/event_source/devices/cpu/events/listed.scale",
    "sys/bus/event_source/devices/cpu/events/listed.unit",
    "sys/bus/event_source/devices/cpu/caps/threshold_max",
    "sys/bus/event_source/devices/cpu/type",
    "sys/bus/event_source/devices/other/type",
    "sys/bus/event_source/devices/other/cpus",
    "sys/kernel/tracing/events/system/point/id",
];

const EVENTS: [&str; 9] = [
    "cycles",
    "r1a8",
    "listed",
    "cpu/listed,event=1/",
    "cpu/event=0xc2,umask=0xff,threshold=3/",
    "cpu/umask/",
    "other/config=1/",
    "system:point:k",
    "4:0x400",
];

static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let root = folder.join(format!("perfmark-fuzz-{}", std::process::id()));
    for file in FILES {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("each file is in a folder")).expect("a folder in memory");
        fs::write(path, "").expect("a file in memory");
    }
    root
});

fuzz_target!(|data: &[u8]| {
    let mut parts = data.split(|&byte| byte == 0);
    let event = parts.next().and_then(|event| std::str::from_utf8(event).ok()).unwrap_or_default();
    for file in FILES {
        // Files for which the input has no part are removed.
        let path = ROOT.join(file);
        match parts.next() {
            Some(content) => fs::write(path, content).expect("a file in memory"),
            None => _ = fs::remove_file(path),
        }
    }
    let machine = Machine::at(&*ROOT);
    for event in EVENTS.into_iter().chain([event]).filter_map(|event| event.parse::<Event>().ok()) {
        match event.resolve(&machine) {
            Ok(encodings) => {
                assert!(!encodings.is_empty());
                assert!(encodings.iter().all(|encoding| encoding.scale.is_none_or(f64::is_finite)));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    for pmu in machine.list_pmus().unwrap_or_default() {
        let events = pmu.events.iter().map(|event| format!("{}/{}/", pmu.name, event.name));
        events.filter_map(|event| event.parse::<Event>().ok()).for_each(|event| _ = event.resolve(&machine));
    }
});
