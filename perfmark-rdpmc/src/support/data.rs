//! The answers as plain data.

use super::limits::{Confinement, LockedMemory};
use super::pmus::CorePmu;
use super::trial::Trial;
use super::virtual_machine::VirtualMachine;
use crate::event;
use crate::machine::{DEVICES, Forbids, Machine};
use crate::rights::Rights;
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
    /// Why the PMUs are not known, where their list cannot be read.
    pub pmus_unreadable: Option<String>,
    /// The PMUs of the cores: one, or one for each kind of core, or none.
    pub core_pmus: Vec<CorePmu>,
    /// The names of the other PMUs.
    pub other_pmus: Vec<String>,
    /// Whether the NMI watchdog is on, which takes a counter of each core on most machines.
    pub nmi_watchdog: Option<bool>,
    /// The signs of a virtual machine.
    pub virtual_machine: Option<VirtualMachine>,
    /// Whether this process can read the numbers of tracepoints, which lie in tracefs.
    pub tracepoints: bool,
    /// What was tried. `None` for a machine that is only described.
    pub trial: Option<Trial>,
}

impl Support {
    /// What a machine's files say. Nothing is tried.
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
            pmus_unreadable: machine.names(DEVICES).err().map(|file| file.explain("PMUs").reason().to_owned()),
            core_pmus: core.into_iter().map(|name| CorePmu::of(machine, name)).collect(),
            other_pmus,
            nmi_watchdog: machine.number("proc/sys/kernel/nmi_watchdog").map(|on| on != 0),
            virtual_machine: VirtualMachine::of(machine),
            tracepoints: event::tracepoints_are_readable(machine),
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

    /// The setting that keeps user space from reading counters, if there is one.
    pub(crate) fn forbids_user_reads(&self) -> Option<Forbids> {
        Forbids::among(self.perf_user_access, self.core_pmus.iter().map(|pmu| (pmu.name.as_str(), pmu.rdpmc)))
    }
}
