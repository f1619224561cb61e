//! The limits on a process's mapped pages.

use crate::machine::Machine;
use crate::rights::Rights;
use crate::sys;

/// The limits on mapped counter pages. Each counter that is read in user space needs one page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockedMemory {
    /// `kernel.perf_event_mlock_kb`: the KiB that all processes of a user may map together, for each CPU.
    pub perf_event_mlock_kb: Option<u64>,
    /// The number of CPUs online.
    pub cpus: Option<u64>,
    /// `RLIMIT_MEMLOCK` in bytes, `u64::MAX` for unlimited: what a process may map in addition.
    pub rlimit_memlock: Option<u64>,
    /// The size of a page in bytes. `None` for a machine that is only described by files.
    pub page_bytes: Option<u64>,
    /// Whether neither limit applies: `CAP_IPC_LOCK`, or `kernel.perf_event_paranoid` below 0.
    pub exempt: bool,
}

impl LockedMemory {
    pub(crate) fn of(machine: &Machine, rights: &Rights) -> Self {
        let limits = machine.text("proc/self/limits").unwrap_or_default();
        let locked = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
        let soft = locked.and_then(|line| line.split_whitespace().next());
        let cpus = machine.online_cpus().into_iter().map(|range| range.count() as u64).sum();
        Self {
            perf_event_mlock_kb: machine
                .number("proc/sys/kernel/perf_event_mlock_kb")
                .and_then(|n| u64::try_from(n).ok()),
            cpus: Some(cpus).filter(|&cpus| cpus > 0),
            rlimit_memlock: soft.and_then(|soft| if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }),
            page_bytes: None,
            exempt: rights.ipc_lock() || rights.paranoid.is_some_and(|level| level < 0),
        }
    }

    /// Those of this process.
    pub(crate) fn here() -> Self {
        let machine = Machine::here();
        Self { page_bytes: Some(sys::page_size()), ..Self::of(&machine, &Rights::of(&machine)) }
    }

    /// Whether there is no limit.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.exempt || self.rlimit_memlock == Some(u64::MAX)
    }

    /// The number of counters that a user can map, if one process maps them all (`perf_mmap`, `kernel/events/core.c`).
    /// `None` if there is no limit, or if it is unknown.
    #[must_use]
    pub fn counters(&self) -> Option<u64> {
        if self.is_unlimited() {
            return None;
        }
        let page = self.page_bytes.filter(|&bytes| bytes > 0)?;
        let together = (self.perf_event_mlock_kb?.saturating_mul(1024) / page).saturating_mul(self.cpus?);
        Some(together.saturating_add(self.rlimit_memlock? / page))
    }

    /// The number of [rings](crate::sample) with that many pages of data that a user can map, if one process maps them
    /// all. Each takes one page more. `None` if there is no limit, or if it is unknown.
    #[must_use]
    pub fn rings(&self, pages: u64) -> Option<u64> {
        Some(self.counters()? / pages.saturating_add(1))
    }
}
