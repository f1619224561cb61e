//! The report as plain data.

use super::confinement::Confinement;
use super::pmus::CorePmu;
use super::trial::Trial;
use super::virtual_machine::VirtualMachine;
use crate::event;
use crate::locked_memory::LockedMemory;
use crate::machine::{BlockingSetting, DEVICES, Machine};
use crate::rights::Rights;
use crate::sys;

/// What a machine allows a process to count. Plain data. Its `Display` is a report for people, in which every obstacle
/// comes with its remedy.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Support {
    /// Whether this build's target supports counters.
    pub target: bool,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The settings and capabilities that determine what the process may count.
    pub rights: Rights,
    /// The limits on mapped counter pages.
    pub locked_memory: LockedMemory,
    /// A seccomp filter or a container around the process.
    pub confinement: Confinement,
    /// `kernel.perf_user_access` (arm64, riscv64): 0 if user space may not read.
    pub perf_user_access: Option<i64>,
    /// `kernel.perf_event_max_sample_rate`: the most samples a second of an event with a frequency. The kernel lowers
    /// it if samples take too long.
    pub max_sample_rate: Option<i64>,
    /// `kernel.perf_event_max_stack`: the most entries of a sample's call chain.
    pub max_stack: Option<i64>,
    /// Why the list of PMUs could not be read, if it could not; for example, because sysfs is not mounted.
    pub pmus_unreadable: Option<String>,
    /// The PMUs of the cores: one, or one for each kind of core, or none.
    pub core_pmus: Vec<CorePmu>,
    /// The names of the other PMUs.
    pub other_pmus: Vec<String>,
    /// Whether the NMI watchdog is on, which uses one counter of each core on most machines.
    pub nmi_watchdog: Option<bool>,
    /// The virtual machine, if one was detected.
    pub virtual_machine: Option<VirtualMachine>,
    /// Whether this process can read tracepoint numbers in tracefs.
    pub tracepoints: bool,
    /// The results of test calls. `None` for a machine that is only described by files.
    pub trial: Option<Trial>,
}

impl Support {
    /// The report from a machine's files alone, without test calls.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let core = machine.core_pmus().unwrap_or_default();
        let mut other_pmus = machine.pmus().unwrap_or_default();
        other_pmus.retain(|pmu| !core.contains(pmu));
        let rights = Rights::of(machine);
        Self {
            target: sys::SUPPORTED,
            kernel: machine.text("proc/sys/kernel/osrelease"),
            locked_memory: LockedMemory::of(machine, &rights),
            rights,
            confinement: Confinement::of(machine),
            perf_user_access: machine.perf_user_access(),
            max_sample_rate: machine.number("proc/sys/kernel/perf_event_max_sample_rate"),
            max_stack: machine.number("proc/sys/kernel/perf_event_max_stack"),
            pmus_unreadable: match machine.names(DEVICES) {
                Err(file) => Some(file.explain("PMUs").reason().to_owned()),
                // A kernel that has perf events lists its own ones.
                Ok(all) => all.is_empty().then(|| format!("/{DEVICES} is missing or empty")),
            },
            core_pmus: core.into_iter().map(|name| CorePmu::of(machine, name)).collect(),
            other_pmus,
            nmi_watchdog: machine.number("proc/sys/kernel/nmi_watchdog").map(|on| on != 0),
            virtual_machine: VirtualMachine::of(machine),
            tracepoints: event::tracepoints_are_readable(machine),
            trial: None,
        }
    }

    /// Whether the process may count user mode: according to a test call, or otherwise to its settings.
    #[must_use]
    pub fn user_mode(&self) -> bool {
        self.trial.as_ref().map_or_else(|| self.rights.user_mode(), |trial| trial.user_mode.is_ok())
    }

    /// Whether the process may count kernel mode: according to a test call, or otherwise to its settings.
    #[must_use]
    pub fn kernel_part(&self) -> bool {
        self.trial.as_ref().map_or_else(|| self.rights.kernel_part(), |trial| trial.kernel_part.is_ok())
    }

    /// The setting that prevents user space from reading counters, if there is one.
    pub(crate) fn setting_against_user_reads(&self) -> Option<BlockingSetting> {
        BlockingSetting::among(self.perf_user_access, self.core_pmus.iter().map(|pmu| (pmu.name.as_str(), pmu.rdpmc)))
    }
}
