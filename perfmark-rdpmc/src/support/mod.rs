//! What this machine and this process allow: what the kernel's files say, what it answers when asked, and what to do about each no.

mod rights;
mod pmus;
mod virtual_machine;
mod trial;
mod findings;
mod display;

pub use findings::{Finding, Mark};
pub use pmus::{CorePmu, Counters};
pub use rights::{Confinement, Container, LockedMemory, Rights};
pub use trial::{Cost, Time, Trial, Truth};
pub use virtual_machine::VirtualMachine;

use crate::machine::{DEVICES, Machine};
use crate::sys;

/// What of performance counters a machine and a process on it allow. Plain data; its `Display` is a report for a person, in which
/// every no comes with its remedy.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Support {
    /// Whether this build's target has counters at all.
    pub target: bool,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// What the process may count.
    pub rights: Rights,
    /// How many pages of counters it may map.
    pub locked_memory: LockedMemory,
    /// What stands between the process and the kernel.
    pub confinement: Confinement,
    /// `kernel.perf_user_access` (arm64, riscv64): 0 where user space may not read.
    pub perf_user_access: Option<i64>,
    /// The PMUs of the cores: one, or one for each kind of core, or none.
    pub core_pmus: Vec<CorePmu>,
    /// The names of the other PMUs.
    pub other_pmus: Vec<String>,
    /// Whether the NMI watchdog is on, which takes a counter of each core on most machines.
    pub nmi_watchdog: Option<bool>,
    /// The signs of a virtual machine.
    pub virtual_machine: Option<VirtualMachine>,
    /// Whether a user who is not root can read the numbers of tracepoints.
    pub tracepoints: bool,
    /// What was tried. `None` for a machine that is only described.
    pub trial: Option<Trial>,
}

/// Finds out what can be counted here by the calling thread, how, and what is in the way.
///
/// It reads procfs and sysfs, opens a few events one after another, and executes two million instructions. Nothing stays open.
/// It takes some milliseconds.
///
/// ```
/// let support = perfmark_rdpmc::support();
/// println!("{support}");
/// for finding in support.findings() {
///     if let Some(remedy) = finding.remedy {
///         println!("to get {}: {remedy}", finding.subject);
///     }
/// }
/// ```
#[must_use]
pub fn support() -> Support {
    let machine = Machine::here();
    let mut support = Support::of(&machine);
    if support.target {
        let several = support.core_pmus.len() > 1;
        for pmu in &mut support.core_pmus {
            pmu.count(several);
        }
        support.trial = Some(Trial::here());
        support.locked_memory.page_bytes = Some(sys::page_size());
    }
    support
}

impl Support {
    /// What a machine's files say. Nothing is tried.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let core = machine.core_pmus();
        let mut other_pmus = machine.names(DEVICES);
        other_pmus.retain(|pmu| !core.contains(pmu));
        let rights = Rights::of(machine);
        Self {
            target: sys::SUPPORTED,
            kernel: machine.text("proc/sys/kernel/osrelease"),
            locked_memory: LockedMemory::of(machine, &rights),
            rights,
            confinement: Confinement::of(machine),
            perf_user_access: machine.number("proc/sys/kernel/perf_user_access"),
            core_pmus: core.into_iter().map(|name| CorePmu::of(machine, name)).collect(),
            other_pmus,
            nmi_watchdog: machine.number("proc/sys/kernel/nmi_watchdog").map(|on| on != 0),
            virtual_machine: VirtualMachine::of(machine),
            tracepoints: machine.text("sys/kernel/tracing/events/sched/sched_switch/id").is_some(),
            trial: None,
        }
    }

    /// Whether the process may count user mode: as the kernel answered, or else by its settings.
    #[must_use]
    pub fn user_mode(&self) -> bool {
        self.trial.as_ref().map_or_else(|| self.rights.user_mode(), |trial| trial.user_mode.is_ok())
    }

    /// Whether the process may count the kernel's part: as the kernel answered, or else by its settings.
    #[must_use]
    pub fn kernel_part(&self) -> bool {
        self.trial.as_ref().map_or_else(|| self.rights.kernel_part(), |trial| trial.kernel_part.is_ok())
    }

    /// Why user space may not read counters, if a setting says so, and the remedy.
    pub(crate) fn user_reads_forbidden(&self) -> Option<(String, String)> {
        if self.perf_user_access == Some(0) {
            return Some((
                "kernel.perf_user_access is 0".into(),
                "as root (in a container: on its host): sysctl kernel.perf_user_access=1".into(),
            ));
        }
        let pmu = self.core_pmus.iter().find(|pmu| pmu.rdpmc == Some(0))?;
        let file = format!("/{DEVICES}/{}/rdpmc", pmu.name);
        Some((format!("{file} is 0"), format!("as root (in a container: on its host): echo 1 >{file}")))
    }
}
