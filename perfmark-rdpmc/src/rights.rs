//! What the kernel's settings and a process's capabilities allow.

use crate::machine::Machine;

/// `CAP_*` (`include/uapi/linux/capability.h`, linux 6.12).
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

/// What decides about the events that a process may open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each as the kernel tells it")]
pub struct Rights {
    /// `kernel.perf_event_paranoid`. `None` where the kernel has no perf events, or hides them.
    pub paranoid: Option<i64>,
    /// Whether `CAP_PERFMON` (linux 5.8) is in effect.
    pub cap_perfmon: bool,
    /// Whether `CAP_SYS_ADMIN` is in effect.
    pub cap_sys_admin: bool,
    /// Whether `CAP_IPC_LOCK` is in effect.
    pub cap_ipc_lock: bool,
    /// Whether the process lives in a user namespace of its own, where the kernel's perf events take no notice of its capabilities.
    pub user_namespace: bool,
    /// Whether the kernel was seen to open events for this process though the level is above 2. Mainline takes such levels for 2; Debian's
    /// kernel (3) and Ubuntu's (4) refuse everything there without `CAP_SYS_ADMIN`.
    pub high_level_opens: bool,
    /// Whether programs that it starts gain no capabilities (`no_new_privs`), `setcap` notwithstanding.
    pub no_new_privs: bool,
}

/// The value of a line `name:  value`, as in `/proc/self/status`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

impl Rights {
    pub(crate) fn of(machine: &Machine) -> Self {
        let status = machine.text("proc/self/status").unwrap_or_default();
        let capabilities = field(&status, "CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
        let has = |capability: u32| capabilities >> capability & 1 == 1;
        // The first namespace maps all of the 2^32 - 1 users to themselves.
        let users = machine.text("proc/self/uid_map");
        let first = |map: &String| map.split_whitespace().eq(["0", "0", "4294967295"]);
        Self {
            paranoid: machine.paranoid(),
            cap_perfmon: has(CAP_PERFMON),
            cap_sys_admin: has(CAP_SYS_ADMIN),
            cap_ipc_lock: has(CAP_IPC_LOCK),
            user_namespace: users.is_some_and(|map| !first(&map)),
            high_level_opens: false,
            no_new_privs: field(&status, "NoNewPrivs") == Some("1"),
        }
    }

    /// Takes note of whether an event for user mode opens, which tells one kernel's high levels from another's.
    pub(crate) fn seen(&mut self, opens: bool) {
        self.high_level_opens = opens && self.paranoid.is_some_and(|level| level > 2) && !self.may_do_all();
    }

    /// Whether the level refuses everything to this process, as far as was seen.
    #[must_use]
    pub fn refuses_all(&self) -> bool {
        self.paranoid.is_some_and(|level| level > 2) && !self.may_do_all() && !self.high_level_opens
    }

    /// Whether these settings allow counting user mode.
    #[must_use]
    pub fn user_mode(&self) -> bool {
        self.paranoid.is_some() && !self.refuses_all()
    }

    /// Whether these settings allow counting the kernel's part.
    #[must_use]
    pub fn kernel_part(&self) -> bool {
        self.user_mode() && (self.paranoid.is_some_and(|level| level <= 1) || self.perfmon())
    }

    /// Whether these settings allow kprobes (`perf_kprobe_event_init` in `kernel/events/core.c`): `CAP_PERFMON`, before linux 5.8
    /// `CAP_SYS_ADMIN`.
    #[must_use]
    pub fn kprobes(&self) -> bool {
        self.user_mode() && self.perfmon()
    }

    /// Whether these settings allow uprobes (`perf_uprobe_event_init`): `CAP_SYS_ADMIN`, though from linux 5.8 until a mend of July 2025
    /// `CAP_PERFMON` was enough.
    #[must_use]
    pub fn uprobes(&self) -> bool {
        self.user_mode() && self.may_do_all()
    }

    /// Whether it has `CAP_SYS_ADMIN`, which no level stops.
    pub(crate) fn may_do_all(&self) -> bool {
        self.cap_sys_admin && !self.user_namespace
    }

    /// As the kernel's `perfmon_capable`.
    pub(crate) fn perfmon(&self) -> bool {
        (self.cap_perfmon || self.cap_sys_admin) && !self.user_namespace
    }

    /// The level in words.
    pub(crate) fn level(&self) -> String {
        match self.paranoid {
            Some(level) => format!("kernel.perf_event_paranoid is {level}"),
            None => "there is no kernel.perf_event_paranoid".into(),
        }
    }

    /// Why the capabilities that it has are of no use, where that is so.
    pub(crate) fn namespace(&self) -> &'static str {
        if self.user_namespace && (self.cap_sys_admin || self.cap_perfmon) {
            "; the capabilities that this process has are its user namespace's, which perf events take no notice of: grant them outside of it"
        } else {
            ""
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_what_the_kernel_makes_of_it() {
        let at = |level| Rights { paranoid: Some(level), ..Rights::default() };
        assert!(at(1).kernel_part() && !at(2).kernel_part() && at(2).user_mode() && !at(3).user_mode());
        let perfmon = |level| Rights { cap_perfmon: true, ..at(level) };
        assert!(perfmon(2).kernel_part() && perfmon(2).kprobes() && !perfmon(2).uprobes() && !perfmon(3).user_mode());
        let admin = Rights { cap_sys_admin: true, ..at(4) };
        assert!(admin.kernel_part() && admin.uprobes());
        let rootless = Rights { user_namespace: true, ..admin };
        assert!(!rootless.user_mode(), "its capabilities are not the machine's");
        assert!(rootless.namespace().contains("user namespace") && at(4).namespace().is_empty());
        assert!(!Rights::default().user_mode(), "no perf events");
        let mut mainline = perfmon(3);
        mainline.seen(true);
        assert!(mainline.user_mode() && mainline.kernel_part() && mainline.kprobes() && !mainline.uprobes());
    }
}
