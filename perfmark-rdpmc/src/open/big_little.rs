//! Generic events on one of several Arm PMUs. Linux opens them since 6.6 (`PERF_PMU_CAP_EXTENDED_HW_TYPE` in
//! `drivers/perf/arm_pmu.c`). Versions from 5.13 to 6.5 answer ENOENT. Older ones answer EINVAL for a hardware event,
//! and count a cache event on any of the PMUs.

use crate::event::{Encoding, Event, Hardware};
use crate::machine::Machine;
use crate::sys::{PerfEventAttr, TYPE_HARDWARE, TYPE_HW_CACHE, pmu_of_config};

/// Generic events, and their names in the PMUs' lists (`armv8_pmuv3_perf_map` in `drivers/perf/arm_pmuv3.c`).
const LISTED: [(Hardware, &str); 9] = [
    (Hardware::Cycles, "cpu_cycles"),
    (Hardware::Instructions, "inst_retired"),
    (Hardware::CacheReferences, "l1d_cache"),
    (Hardware::CacheMisses, "l1d_cache_refill"),
    (Hardware::Branches, "pc_write_retired"),
    (Hardware::BranchMisses, "br_mis_pred"),
    (Hardware::BusCycles, "bus_cycles"),
    (Hardware::StalledCyclesFrontend, "stall_frontend"),
    (Hardware::StalledCyclesBackend, "stall_backend"),
];

/// The request for the same event, as the PMU lists it.
pub(super) fn listed(raw: &PerfEventAttr, encoding: &Encoding, machine: &Machine) -> Option<PerfEventAttr> {
    if raw.kind != TYPE_HARDWARE || !names_pmu(raw) {
        return None;
    }
    let is_same = |(event, _): &&(Hardware, &str)| *event as u64 == raw.config & u64::from(u32::MAX);
    let listed = find(LISTED.iter().find(is_same)?.1, encoding, machine)?;
    // On x86, a generic event may have that name.
    (listed.kind != raw.kind).then(|| PerfEventAttr { kind: listed.kind, config: listed.config, ..raw.clone() })
}

/// Why the kernel refuses a generic event, or would count it on another PMU, if it is too old. `error_of` is its answer
/// to another request.
pub(super) fn reason(
    raw: &PerfEventAttr,
    encoding: &Encoding,
    machine: &Machine,
    mut error_of: impl FnMut(&PerfEventAttr) -> Option<i32>,
) -> Option<&'static str> {
    let is_generic = matches!(raw.kind, TYPE_HARDWARE | TYPE_HW_CACHE) && names_pmu(raw);
    if !is_generic || find("inst_retired", encoding, machine).is_none() {
        return None;
    }
    // Each of the PMUs counts cycles.
    let cycles = PerfEventAttr::in_user_mode(Hardware::Cycles as u64, pmu_of_config(raw.config), 0);
    matches!(error_of(&cycles), Some(libc::EINVAL | libc::ENOENT)).then_some(
        "linux before 6.6 opens no generic event on each of several Arm PMUs; name one that they list, such as \
         cpu_cycles, inst_retired or l1d_cache_refill",
    )
}

fn names_pmu(raw: &PerfEventAttr) -> bool {
    pmu_of_config(raw.config) != 0
}

fn find(name: &str, encoding: &Encoding, machine: &Machine) -> Option<Encoding> {
    let event: Event = format!("{}/{name}/", encoding.pmu.as_ref()?).parse().ok()?;
    event.resolve(machine).ok()?.pop()
}
