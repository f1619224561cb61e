//! What would open and count nothing, or what the kernel refuses without saying why: told before it is asked.

use crate::event::{CountedBy, Encoding};
use crate::machine::Machine;
use crate::sys::{
    COUNT_SW_BPF_OUTPUT, COUNT_SW_CPU_CLOCK, COUNT_SW_DUMMY, COUNT_SW_TASK_CLOCK, FLAG_EXCLUDE_GUEST,
    FLAG_EXCLUDE_HOST, FLAG_EXCLUDE_HV, FLAG_EXCLUDE_IDLE, FLAG_EXCLUDE_KERNEL, FLAG_EXCLUDE_USER, FLAG_INHERIT,
    PRECISE_IP_SHIFT, TYPE_BREAKPOINT, TYPE_SOFTWARE, TYPE_TRACEPOINT,
};

const MODES: u64 = FLAG_EXCLUDE_USER | FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV;
const MACHINES: u64 = FLAG_EXCLUDE_HOST | FLAG_EXCLUDE_GUEST;

/// PMUs that cannot tell modes apart, and so refuse to leave one out (`PERF_PMU_CAP_NO_EXCLUDE`).
const WITHOUT_MODES: &[&str] = &["msr"];

/// What the caller asks for, beside the event.
pub(super) struct Asked {
    /// Bits of `struct perf_event_attr`.
    pub(super) flags: u64,
    pub(super) user_reads: bool,
    pub(super) samples: bool,
}

/// Why the event is not opened on the PMU of `encoding`. `None` if it is.
pub(super) fn reason(asked: &Asked, encoding: &Encoding, machine: &Machine) -> Option<String> {
    let all = |flags| asked.flags & flags == flags;
    if all(MODES) || all(MACHINES) {
        return Some("everything is left out, so that it would give 0 for ever; count one mode at least".into());
    }
    if all(FLAG_EXCLUDE_USER | FLAG_EXCLUDE_KERNEL)
        && let Some(what) = knows_no_hypervisor(encoding)
    {
        return Some(format!(
            "user mode and the kernel are left out, and {what}, so that it would give 0 for ever; count one of the two (:u or :k behind the \
             name)"
        ));
    }
    if asked.flags & FLAG_EXCLUDE_USER != 0
        && encoding.kind == TYPE_SOFTWARE
        && matches!(encoding.config, COUNT_SW_TASK_CLOCK | COUNT_SW_CPU_CLOCK)
    {
        return Some(
            "linux leaves nothing out of its clocks: it would be the thread's whole time, user mode included".into(),
        );
    }
    if encoding.kernel_only && all(FLAG_EXCLUDE_KERNEL) {
        let what = if encoding.kind == TYPE_TRACEPOINT { "tracepoints are met" } else { "it happens" };
        return Some(format!(
            "{what} in the kernel only, so that counting user mode would give 0 for ever; count the kernel's part too (:uk behind the name, \
             Attr::kernel(true))"
        ));
    }
    if encoding.kind == TYPE_SOFTWARE && matches!(encoding.config, COUNT_SW_DUMMY | COUNT_SW_BPF_OUTPUT) {
        return Some("it stands in for an event and counts nothing, for ever".into());
    }
    if let Some(pmu) = &encoding.pmu {
        if machine.counts_whole_cpus(pmu) {
            return Some(format!(
                "the PMU {pmu} counts for whole CPUs or sockets (it has a cpumask), never for one thread; linux refuses it for one (EINVAL)"
            ));
        }
        if WITHOUT_MODES.contains(&pmu.as_str()) && asked.flags & (MODES | MACHINES | FLAG_EXCLUDE_IDLE) != 0 {
            return Some(format!(
                "the PMU {pmu} cannot tell user mode from the kernel's, and linux refuses to leave one out (EINVAL); count both (:ukh behind the \
                 name, Attr::kernel(true))"
            ));
        }
    }
    if asked.flags & FLAG_INHERIT != 0 && asked.user_reads && encoding.counted_by == CountedBy::Core {
        return Some(
            "it is to inherit and to be read in user space, and linux maps no page of an event that inherits (EINVAL): the page tells of one \
             thread alone; choose by Attr::inherit(false) or Attr::user_reads(false)"
                .into(),
        );
    }
    if cfg!(target_arch = "x86_64") && asked.flags >> PRECISE_IP_SHIFT & 0b11 != 0 && !asked.samples {
        return Some("precise_ip is about samples, and x86 refuses it without a sample period (EINVAL); set one, or leave it out".into());
    }
    None
}

/// Why the event has no part that is neither user mode's nor the kernel's, if so.
fn knows_no_hypervisor(encoding: &Encoding) -> Option<&'static str> {
    // `perf_exclude_event` in kernel/events/core.c; clocks never ask it.
    let is_event_of_kernel = match encoding.kind {
        TYPE_SOFTWARE => !matches!(encoding.config, COUNT_SW_CPU_CLOCK | COUNT_SW_TASK_CLOCK),
        TYPE_TRACEPOINT | TYPE_BREAKPOINT => true,
        _ => encoding.text.is_some() || matches!(encoding.pmu.as_deref(), Some("kprobe" | "uprobe")),
    };
    if is_event_of_kernel {
        return Some("what the kernel counts itself is of one or the other");
    }
    // `x86_pmu_hw_config` in arch/x86/events/core.c has a bit for user mode and one for the kernel. arm64 and riscv64 know another level.
    let is_x86 = cfg!(target_arch = "x86_64") && encoding.counted_by != CountedBy::Kernel;
    is_x86.then_some("x86's counters cannot tell a hypervisor from the kernel")
}
