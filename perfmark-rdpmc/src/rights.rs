//! What the kernel's settings and the process's capabilities allow.

use crate::machine::Machine;

/// `CAP_*` (`include/uapi/linux/capability.h`, linux 6.12).
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

/// The settings and capabilities that determine which events a process may open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each as the kernel reports it")]
pub struct Rights {
    /// `kernel.perf_event_paranoid`; `None` if the kernel has no perf events, or hides them.
    pub paranoid: Option<i64>,
    /// Whether `CAP_PERFMON` (linux 5.8) is in effect.
    pub cap_perfmon: bool,
    /// Whether `CAP_SYS_ADMIN` is in effect.
    pub cap_sys_admin: bool,
    /// Whether `CAP_IPC_LOCK` is in effect.
    pub cap_ipc_lock: bool,
    /// Whether the process is in a user namespace of its own. The kernel's perf events ignore the capabilities of such
    /// a namespace.
    pub user_namespace: bool,
    /// Whether the kernel opens events for this process although the level is above 2. The mainline kernel treats these
    /// levels as 2. Debian's kernel (3) and Ubuntu's (4) refuse every event at them without `CAP_SYS_ADMIN`.
    pub high_level_opens: bool,
    /// Whether programs that it starts cannot gain capabilities (`no_new_privs`), even by `setcap`.
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
        // The initial user namespace maps all of the 2^32 - 1 users to themselves.
        let users = machine.text("proc/self/uid_map");
        let is_initial = |map: &String| map.split_whitespace().eq(["0", "0", "4294967295"]);
        Self {
            paranoid: machine.paranoid(),
            cap_perfmon: has(CAP_PERFMON),
            cap_sys_admin: has(CAP_SYS_ADMIN),
            cap_ipc_lock: has(CAP_IPC_LOCK),
            user_namespace: users.is_some_and(|map| !is_initial(&map)),
            high_level_opens: false,
            no_new_privs: field(&status, "NoNewPrivs") == Some("1"),
        }
    }

    /// Records whether an event for user mode opens, which shows how this kernel treats high levels.
    pub(crate) fn note_user_mode_opens(&mut self, opens: bool) {
        self.high_level_opens = opens && self.paranoid.is_some_and(|level| level > 2) && !self.is_admin();
    }

    /// Whether the level refuses every event to this process, as far as is known.
    #[must_use]
    pub fn refuses_all(&self) -> bool {
        self.paranoid.is_some_and(|level| level > 2) && !self.is_admin() && !self.high_level_opens
    }

    /// Whether these settings allow counting user mode.
    #[must_use]
    pub fn user_mode(&self) -> bool {
        self.paranoid.is_some() && !self.refuses_all()
    }

    /// Whether these settings allow counting kernel mode.
    #[must_use]
    pub fn kernel_part(&self) -> bool {
        self.user_mode() && (self.paranoid.is_some_and(|level| level <= 1) || self.perfmon())
    }

    /// Whether these settings allow kprobes (`perf_kprobe_event_init` in `kernel/events/core.c`): requires
    /// `CAP_PERFMON`, or `CAP_SYS_ADMIN` before linux 5.8.
    #[must_use]
    pub fn kprobes(&self) -> bool {
        self.user_mode() && self.perfmon()
    }

    /// Whether these settings allow uprobes (`perf_uprobe_event_init`): requires `CAP_SYS_ADMIN`. From linux 5.8 until
    /// a fix of July 2025, `CAP_PERFMON` was enough.
    #[must_use]
    pub fn uprobes(&self) -> bool {
        self.user_mode() && self.is_admin()
    }

    /// Whether it has `CAP_SYS_ADMIN`, which is sufficient at every level.
    pub(crate) fn is_admin(&self) -> bool {
        self.cap_sys_admin && !self.user_namespace
    }

    /// The kernel's `perfmon_capable`.
    pub(crate) fn perfmon(&self) -> bool {
        (self.cap_perfmon || self.cap_sys_admin) && !self.user_namespace
    }

    /// Whether no limit on locked memory applies to it (`capable(CAP_IPC_LOCK)` in `perf_mmap`).
    pub(crate) fn ipc_lock(&self) -> bool {
        self.cap_ipc_lock && !self.user_namespace
    }

    /// Describes the level.
    pub(crate) fn level(&self) -> String {
        match self.paranoid {
            Some(level) => format!("kernel.perf_event_paranoid is {level}"),
            None => "there is no kernel.perf_event_paranoid".into(),
        }
    }

    /// Why its capabilities are ineffective, if they are.
    pub(crate) fn namespace(&self) -> &'static str {
        if self.user_namespace && (self.cap_sys_admin || self.cap_perfmon) {
            "; the capabilities of this process belong to its user namespace, and perf events ignore those: grant them \
             outside of it"
        } else {
            ""
        }
    }
}
