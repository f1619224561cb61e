//! Requests that would count nothing, or that the kernel refuses without an explanation. They are refused here with the
//! reason, before the kernel is asked.

use crate::event::{CountedBy, Encoding};
use crate::machine::Machine;
use crate::sys::{
    COUNT_SW_BPF_OUTPUT, COUNT_SW_CPU_CLOCK, COUNT_SW_DUMMY, COUNT_SW_TASK_CLOCK, FLAG_EXCLUDE_GUEST,
    FLAG_EXCLUDE_HOST, FLAG_EXCLUDE_HV, FLAG_EXCLUDE_IDLE, FLAG_EXCLUDE_KERNEL, FLAG_EXCLUDE_USER, FLAG_INHERIT,
    PRECISE_IP_SHIFT, TYPE_BREAKPOINT, TYPE_SOFTWARE, TYPE_TRACEPOINT,
};

const MODES: u64 = FLAG_EXCLUDE_USER | FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV;
const MACHINES: u64 = FLAG_EXCLUDE_HOST | FLAG_EXCLUDE_GUEST;

/// PMUs that cannot distinguish modes, and so refuse to exclude one (`PERF_PMU_CAP_NO_EXCLUDE`).
const WITHOUT_MODES: &[&str] = &["msr"];

/// The request's settings, apart from the event.
pub(super) struct Requested {
    /// Bits of `struct perf_event_attr`.
    pub(super) flags: u64,
    pub(super) user_reads: bool,
    pub(super) samples: bool,
    /// Whether its records are read. Events without a count have records as well.
    pub(super) has_ring: bool,
}

/// Why the event is not opened on the PMU of `encoding`; `None` if it is.
pub(super) fn reason(requested: &Requested, encoding: &Encoding, machine: &Machine) -> Option<String> {
    let all = |flags| requested.flags & flags == flags;
    if all(MODES) || all(MACHINES) {
        return Some("every mode is excluded, so it would always be 0; count at least one mode".into());
    }
    if all(FLAG_EXCLUDE_HOST) && is_software_event(encoding) {
        return Some(
            "linux ignores the exclusion of the host for its own events, so it would count the host; leave it out \
             (:G after the name, Attr::exclude_host)"
                .into(),
        );
    }
    if all(FLAG_EXCLUDE_USER | FLAG_EXCLUDE_KERNEL)
        && let Some(what) = why_no_hypervisor_mode(encoding, machine)
    {
        return Some(format!(
            "user mode and kernel mode are excluded, and {what}, so it would always be 0; count one of the two \
             (:u or :k after the name)"
        ));
    }
    if requested.flags & FLAG_EXCLUDE_USER != 0 && is_clock(encoding) && !requested.samples {
        return Some(
            "linux excludes no mode from the counts of its clocks: it would count the thread's total time, user mode \
             included"
                .into(),
        );
    }
    if encoding.kernel_only && all(FLAG_EXCLUDE_KERNEL) {
        let what = if encoding.kind == TYPE_TRACEPOINT { "tracepoints are reached" } else { "it happens" };
        return Some(format!(
            "{what} in kernel mode only, so in user mode it would always be 0; count kernel mode too (:uk after the \
             name, Attr::kernel(true))"
        ));
    }
    let is_placeholder = matches!(encoding.config, COUNT_SW_DUMMY | COUNT_SW_BPF_OUTPUT);
    if encoding.kind == TYPE_SOFTWARE && is_placeholder && !requested.has_ring {
        return Some("it is a placeholder that counts nothing".into());
    }
    if let Some(pmu) = &encoding.pmu
        && WITHOUT_MODES.contains(&pmu.as_str())
        && requested.flags & (MODES | MACHINES | FLAG_EXCLUDE_IDLE) != 0
    {
        return Some(format!(
            "the PMU {pmu} cannot distinguish user mode from kernel mode, and linux refuses to exclude one (EINVAL); \
             count both (:ukh after the name, Attr::kernel(true))"
        ));
    }
    if requested.flags & FLAG_INHERIT != 0 && requested.user_reads && encoding.counted_by == CountedBy::Core {
        return Some(
            "it requests both inheritance and user-space reads, and linux does not map the page of an event that \
             inherits (EINVAL), as the page describes only one thread; set Attr::inherit(false) or \
             Attr::user_reads(false)"
                .into(),
        );
    }
    if cfg!(target_arch = "x86_64")
        && encoding.counted_by != CountedBy::Kernel
        && requested.flags >> PRECISE_IP_SHIFT & 0b11 != 0
        && !requested.samples
    {
        return Some(
            "precise_ip concerns sampling, and x86 refuses it without a sample period (EINVAL); set a period, or leave \
             out precise_ip"
                .into(),
        );
    }
    None
}

fn is_clock(encoding: &Encoding) -> bool {
    encoding.kind == TYPE_SOFTWARE && matches!(encoding.config, COUNT_SW_TASK_CLOCK | COUNT_SW_CPU_CLOCK)
}

/// Whether it excludes user mode and kernel mode only (`perf_exclude_event` in kernel/events/core.c), or no mode.
fn is_software_event(encoding: &Encoding) -> bool {
    matches!(encoding.kind, TYPE_SOFTWARE | TYPE_TRACEPOINT | TYPE_BREAKPOINT)
        || encoding.text.is_some()
        || matches!(encoding.pmu.as_deref(), Some("kprobe" | "uprobe"))
}

/// Why the event never happens outside user mode and kernel mode, if that is so.
fn why_no_hypervisor_mode(encoding: &Encoding, machine: &Machine) -> Option<&'static str> {
    // Clocks do not call `perf_exclude_event`.
    if is_software_event(encoding) && !is_clock(encoding) {
        return Some("the kernel's own events are always counted in one of the two");
    }
    if encoding.counted_by == CountedBy::Kernel {
        return None;
    }
    // `x86_pmu_hw_config` in arch/x86/events/core.c has one bit for user mode and one for kernel mode. arm64 and
    // riscv64 have another level.
    if cfg!(target_arch = "x86_64") {
        return Some("x86 counters cannot distinguish a hypervisor from the kernel");
    }
    // `armv8pmu_set_event_filter` in drivers/perf/arm_pmuv3.c.
    (cfg!(target_arch = "aarch64") && !machine.has_a_separate_hypervisor()).then_some(
        "this kernel is its own hypervisor (VHE) or runs in a virtual machine, where linux counts no hypervisor apart \
         from the kernel",
    )
}
