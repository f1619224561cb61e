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
        Self {
            perf_event_mlock_kb: machine
                .number("proc/sys/kernel/perf_event_mlock_kb")
                .and_then(|n| u64::try_from(n).ok()),
            cpus: machine.text("sys/devices/system/cpu/online").as_deref().and_then(count_in_list),
            rlimit_memlock: soft.and_then(|soft| if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }),
            page_bytes: None,
            exempt: rights.cap_ipc_lock && !rights.user_namespace || rights.paranoid.is_some_and(|level| level < 0),
        }
    }

    /// Those of this process.
    pub(crate) fn here() -> Self {
        let machine = Machine::here();
        Self { page_bytes: Some(sys::page_size()), ..Self::of(&machine, &Rights::of(&machine)) }
    }

    /// The number of counters that a user can map, if one process maps them all (`perf_mmap`, `kernel/events/core.c`).
    /// `None` if there is no limit, or if it is unknown.
    #[must_use]
    pub fn counters(&self) -> Option<u64> {
        if self.exempt || self.rlimit_memlock == Some(u64::MAX) {
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

/// The number of CPUs in a list such as `0-3,8`.
fn count_in_list(list: &str) -> Option<u64> {
    let mut length = 0u64;
    for range in list.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u64, u64) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        length = length.checked_add(to.checked_sub(from)?.checked_add(1)?)?;
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cpus_are_counted() {
        for (list, length) in [("0", Some(1)), ("0-3", Some(4)), ("0-3,8,10-11", Some(7)), ("", None), ("3-0", None)] {
            assert_eq!(count_in_list(list), length, "{list:?}");
        }
    }

    #[test]
    fn the_limit_is_the_sum_of_both_limits() {
        let mut limits = LockedMemory {
            perf_event_mlock_kb: Some(516),
            cpus: Some(2),
            rlimit_memlock: Some(8192),
            page_bytes: Some(4096),
            exempt: false,
        };
        assert_eq!(limits.counters(), Some(2 * 129 + 2));
        assert_eq!((limits.rings(1), limits.rings(16)), (Some(130), Some(15)));
        limits.rlimit_memlock = Some(u64::MAX);
        assert_eq!(limits.counters(), None);
        assert_eq!(limits.rings(1), None);
        limits = LockedMemory { exempt: true, rlimit_memlock: Some(0), ..limits };
        assert_eq!(limits.counters(), None);
    }
}
