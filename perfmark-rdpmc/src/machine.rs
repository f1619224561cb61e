//! What this machine says of its counters in procfs and sysfs; asked only when something is refused.

use std::fs;
use std::path::Path;

const DEVICES: &str = "/sys/bus/event_source/devices";

fn number(path: impl AsRef<Path>) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// `kernel.perf_event_paranoid`.
pub(crate) fn paranoid() -> Option<i64> {
    number("/proc/sys/kernel/perf_event_paranoid")
}

/// Whether some core's PMU is there at all. One that covers some CPUs only names them in `cpus`; x86 calls its only one `cpu`.
pub(crate) fn has_core_pmu() -> bool {
    let Ok(devices) = fs::read_dir(DEVICES) else { return false };
    devices.flatten().any(|device| device.file_name() == "cpu" || device.path().join("cpus").exists())
}

/// Why the kernel gives no index for a hardware event, if a setting says so.
pub(crate) fn user_reads_forbidden() -> Option<String> {
    if number("/proc/sys/kernel/perf_user_access") == Some(0) {
        return Some("kernel.perf_user_access is 0; `sysctl kernel.perf_user_access=1` allows user-space reads".into());
    }
    ["cpu", "cpu_core", "cpu_atom"]
        .iter()
        .map(|pmu| format!("{DEVICES}/{pmu}/rdpmc"))
        .find_map(|file| (number(&file) == Some(0)).then(|| format!("{file} is 0; writing 1 allows user-space reads")))
}
