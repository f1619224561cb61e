//! The report's findings: what works and what does not, each obstacle with its remedy.

use super::data::Support;
use super::number::{counted, grouped};
use super::pmus::CorePmu;
use super::trial::{Time, Trial};
use crate::clock;
use crate::error::{errno_text, exhausted};
use crate::event::Hardware;
use crate::machine::DEVICES;

/// One statement of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The subject.
    pub subject: &'static str,
    /// Whether something works.
    pub status: Status,
    /// The statement.
    pub text: String,
    /// How to allow what does not work.
    pub remedy: Option<String>,
}

/// The status of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It works.
    Good,
    /// It prevents something; there is a remedy.
    Bad,
    /// Information, or an obstacle that most programs never meet.
    Note,
}

fn good(subject: &'static str, text: impl Into<String>) -> Finding {
    Finding { subject, status: Status::Good, text: text.into(), remedy: None }
}

fn note(subject: &'static str, text: impl Into<String>) -> Finding {
    Finding { subject, status: Status::Note, text: text.into(), remedy: None }
}

/// An obstacle that most programs never meet.
fn minor(subject: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { status: Status::Note, ..bad(subject, text, remedy) }
}

fn bad(subject: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { subject, status: Status::Bad, text: text.into(), remedy: Some(remedy.into()) }
}

impl Support {
    /// The report's statements.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        if !self.target {
            let remedy = "build for Linux on x86-64, arm64 or riscv64";
            return vec![bad("target", "perfmark-rdpmc does not support this build's target", remedy)];
        }
        let mut findings = vec![self.user_mode_finding()];
        if self.user_mode() {
            findings.push(self.kernel_part_finding());
            findings.extend(self.probes());
        }
        // Without file descriptors no file can be read, so a missing file means nothing.
        if self.trial.as_ref().and_then(|trial| trial.user_mode.err()).is_some_and(is_out_of_descriptors) {
            return findings;
        }
        findings.extend(self.core_pmu_findings());
        if let Some(trial) = &self.trial {
            findings.extend(self.user_reads(trial));
            findings.extend(self.loop_check(trial));
            findings.extend(costs(trial));
            findings.extend(self.switch_cost(trial));
            findings.extend(self.sampling(trial));
        } else if let Some(blocking) = self.setting_against_user_reads() {
            findings.push(bad("user reads", format!("not allowed: {}", blocking.setting), blocking.remedy));
        }
        findings.extend(self.open_user_reads());
        findings.extend(self.sampling_limits());
        findings.push(self.memory());
        match self.nmi_watchdog {
            Some(true) if !self.core_pmus.is_empty() => findings.push(bad(
                "NMI watchdog",
                "on; on most machines it uses one counter of each core, and opening an event does not report that",
                "as root: sysctl kernel.nmi_watchdog=0",
            )),
            Some(on) => findings.push(note("NMI watchdog", if on { "on" } else { "off" })),
            None => {}
        }
        findings.push(match &self.virtual_machine {
            Some(machine) => {
                let name = machine.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
                note("machine", format!("virtual{name}, detected by {}", machine.by))
            }
            None => note("machine", "no virtual machine detected"),
        });
        match self.confinement.seccomp {
            Some(true) if self.user_mode() => {
                findings.push(note("seccomp", "a filter is installed, and allows perf_event_open"));
            }
            Some(false) => findings.push(note("seccomp", "no filter")),
            // Reported with the refusal, or not known.
            Some(true) | None => {}
        }
        if let Some(container) = &self.confinement.container {
            findings.push(note("container", format!("{}, detected by {}", container.name, container.by)));
        }
        if !self.other_pmus.is_empty() {
            findings.push(note("other PMUs", self.other_pmus.join(", ")));
        }
        findings
    }

    /// How to grant one program a capability.
    fn grant(&self, capability: &str) -> String {
        match &self.confinement.container {
            Some(container) => {
                let name = capability.trim_start_matches("CAP_");
                if container.name == "Kubernetes" {
                    format!("capabilities: add: [{name}] in the container's securityContext")
                } else {
                    format!("--cap-add {name} for the container")
                }
            }
            None if self.rights.user_namespace => format!("{capability} outside this user namespace"),
            None if self.rights.no_new_privs => {
                format!("start the program with {capability} (no_new_privs is set, so setcap has no effect)")
            }
            // It sets AT_SECURE.
            None => format!("setcap {}=ep PROGRAM, which then ignores perfmark's variables", capability.to_lowercase()),
        }
    }

    fn user_mode_finding(&self) -> Finding {
        let subject = "user mode";
        if self.user_mode() {
            return good(subject, format!("can be counted: {}", self.why_allowed(2)));
        }
        let level = self.rights.level();
        let sysctl = format!("as root{}: sysctl kernel.perf_event_paranoid=2", self.on_its_host());
        let filtered = self.confinement.seccomp == Some(true);
        let errno = self.trial.as_ref().and_then(|trial| trial.user_mode.err());
        let limit = errno.and_then(|errno| Some((errno, exhausted(errno)?.split_once("; ")?)));
        if let Some((errno, (why, remedy))) = limit {
            let text =
                format!("perf_event_open failed with {}: {why}, so files cannot be read either", errno_text(errno));
            return bad(subject, text, remedy);
        }
        match errno {
            Some(libc::ENOSYS) if self.rights.paranoid.is_none() && !filtered => bad(
                subject,
                "perf_event_open failed with ENOSYS: this kernel, or the sandbox that emulates it, has no perf events",
                "run on a Linux kernel that has them (CONFIG_PERF_EVENTS)",
            ),
            Some(errno @ (libc::ENOSYS | libc::EPERM)) => {
                let by = if filtered { "a seccomp filter is installed" } else { "no seccomp filter is visible" };
                bad(
                    subject,
                    format!("perf_event_open failed with {}: {by}; {level}", errno_text(errno)),
                    self.open_the_filter(),
                )
            }
            None | Some(libc::EACCES) if self.rights.paranoid.is_some_and(|level| level > 2) => {
                let (grant, namespace) = (self.grant("CAP_SYS_ADMIN"), self.rights.namespace());
                bad(
                    subject,
                    format!(
                        "{level}: this kernel (as Debian's and Ubuntu's) then requires CAP_SYS_ADMIN for every \
                         event{namespace}"
                    ),
                    format!("{sysctl}; or {grant}"),
                )
            }
            None => bad(subject, level, "mount /proc, or run on a kernel that has perf events"),
            Some(errno) => bad(
                subject,
                format!(
                    "perf_event_open failed with {} although {level}: possibly a security module",
                    errno_text(errno)
                ),
                "look for the refusal in the kernel's audit log",
            ),
        }
    }

    fn kernel_part_finding(&self) -> Finding {
        let subject = "kernel mode";
        if self.kernel_part() {
            return good(subject, format!("can be counted: {}", self.why_allowed(1)));
        }
        let remedy = format!(
            "as root{}: sysctl kernel.perf_event_paranoid=1; or {}",
            self.on_its_host(),
            self.grant("CAP_PERFMON")
        );
        let (level, namespace) = (self.rights.level(), self.rights.namespace());
        minor(subject, format!("cannot be counted: {level}, which requires CAP_PERFMON for it{namespace}"), remedy)
    }

    fn why_allowed(&self, level: i64) -> String {
        let rights = &self.rights;
        let why = if rights.paranoid.is_none_or(|is| is <= level) {
            ""
        } else if rights.is_admin() {
            ", and the process has CAP_SYS_ADMIN"
        } else if level == 2 && rights.high_level_opens {
            ", which this kernel treats as 2"
        } else if rights.perfmon() {
            ", and the process has CAP_PERFMON"
        } else {
            ""
        };
        format!("{}{why}", rights.level())
    }

    fn on_its_host(&self) -> &'static str {
        if self.confinement.container.is_some() { ", on the container's host" } else { "" }
    }

    fn open_the_filter(&self) -> String {
        let container = self.confinement.container.as_ref().map(|container| container.name.as_str());
        match container {
            Some("Docker") => "docker run --security-opt seccomp=unconfined, or =PROFILE that allows perf_event_open; \
                               Docker 23's own profile allows it with --cap-add PERFMON"
                .into(),
            Some("Podman") => "podman run --security-opt seccomp=unconfined, or =PROFILE that allows perf_event_open; \
                               profiles since the end of 2025 allow it with --cap-add PERFMON"
                .into(),
            Some("Kubernetes") => {
                "in the container's securityContext, seccompProfile of type Unconfined, or Localhost with \
                 a profile that allows perf_event_open; or capabilities: add: [PERFMON]"
                    .into()
            }
            _ => {
                "allow perf_event_open where the filter is set: docker or podman run --security-opt seccomp=unconfined \
                 (or --cap-add PERFMON), systemd SystemCallFilter=perf_event_open"
                    .into()
            }
        }
    }

    fn probes(&self) -> [Finding; 2] {
        let probes = if self.rights.uprobes() {
            good("probes", "kprobes and uprobes can be counted (CAP_SYS_ADMIN)")
        } else if self.rights.kprobes() {
            let text = "kprobes can be counted (CAP_PERFMON), uprobes only on linux 5.8 and later without the fix of \
                        July 2025";
            minor("probes", text, self.grant("CAP_SYS_ADMIN"))
        } else {
            minor(
                "probes",
                "kprobes and uprobes require CAP_SYS_ADMIN (kprobes only CAP_PERFMON since linux 5.8)",
                self.grant("CAP_SYS_ADMIN"),
            )
        };
        let tracepoints = if self.tracepoints {
            good("tracepoints", "their numbers can be read")
        } else {
            let remedy = "as root: mount -t tracefs tracefs /sys/kernel/tracing, and run as root";
            minor("tracepoints", "their numbers cannot be read in /sys/kernel/tracing/events", remedy)
        };
        [probes, tracepoints]
    }

    fn core_pmu_findings(&self) -> Vec<Finding> {
        if let Some(why) = &self.pmus_unreadable {
            return vec![bad("PMU", format!("unknown: {why}"), "mount /sys, and allow this process to read it")];
        }
        if self.core_pmus.is_empty() {
            let remedy = if self.virtual_machine.is_some() {
                "give the virtual machine a PMU (QEMU: -cpu host,pmu=on; VMware: vpmc.enable; cloud: an instance type \
                 that has one, often the largest or a metal one), or run on hardware; `perfmark run --emulate` counts \
                 instructions without a PMU"
            } else {
                "enable the PMU's driver in the kernel (arm64: the device tree or ACPI must list the PMU), or use \
                 another machine"
            };
            return vec![bad("PMU", "none: no hardware event can be counted", remedy)];
        }
        let describe = |pmu: &CorePmu| {
            let cpus = pmu.cpus.as_ref().map(|cpus| format!(" (CPUs {cpus})")).unwrap_or_default();
            let what = match &pmu.counters {
                Ok(counters) => {
                    let names: Vec<_> = counters.fixed.iter().map(|event: &Hardware| event.name()).collect();
                    let fixed = if names.is_empty() {
                        "no fixed counters".into()
                    } else {
                        format!("and a fixed counter for {}", names.join(", one for "))
                    };
                    format!("{} for any event, {fixed}", counted(counters.generic as u64, "counter"))
                }
                Err(why) => format!("its counters are unknown: {why}"),
            };
            let thresholds = pmu.threshold_max.map(|max| format!("; thresholds up to {max}")).unwrap_or_default();
            let text = format!("{}{cpus}: {what}{thresholds}", pmu.name);
            if pmu.counters.is_ok() { good("PMU", text) } else { note("PMU", text) }
        };
        self.core_pmus.iter().map(describe).collect()
    }

    fn user_reads(&self, trial: &Trial) -> Option<Finding> {
        let subject = "user reads";
        match (&trial.user_reads, &trial.instructions) {
            (Ok(()), _) => Some(good(subject, "a hardware counter can be read without a system call")),
            // If nothing can be counted, another finding says so. But a setting that would prevent user reads is
            // reported now.
            (Err(_), Err(_)) => {
                let blocking = self.setting_against_user_reads()?;
                Some(bad(subject, format!("not allowed: {}", blocking.setting), blocking.remedy))
            }
            (Err(why), Ok(_)) => Some(match self.setting_against_user_reads() {
                Some(blocking) => {
                    bad(subject, format!("not allowed, so read(2) is used: {}", blocking.setting), blocking.remedy)
                }
                None => bad(
                    subject,
                    format!("not possible, so read(2) is used: {why}"),
                    "end other programs that use the PMU; see locked memory below; use linux 5.18 or later (arm64), \
                     6.6 or later (riscv64)",
                ),
            }),
        }
    }

    /// x86: a core PMU whose counters every process may read.
    fn open_user_reads(&self) -> Option<Finding> {
        let pmu = self.core_pmus.iter().find(|pmu| pmu.rdpmc == Some(2))?;
        let file = format!("/{DEVICES}/{}/rdpmc", pmu.name);
        Some(minor(
            "user reads",
            format!("{file} is 2: every process may read every counter, also those of other processes' events"),
            format!(
                "as root (in a container: on its host): echo 1 >{file}, which is enough for this process's own events"
            ),
        ))
    }

    fn sampling_limits(&self) -> Option<Finding> {
        let rate = self.max_sample_rate.and_then(|rate| u64::try_from(rate).ok())?;
        let rate = format!("at most {} samples a second (kernel.perf_event_max_sample_rate)", grouped(rate));
        let stack = self
            .max_stack
            .map(|entries| format!(", and call chains of at most {entries} entries (kernel.perf_event_max_stack)"));
        Some(note("sample limits", format!("{rate}{}", stack.unwrap_or_default())))
    }

    fn loop_check(&self, trial: &Trial) -> Option<Finding> {
        let subject = "accuracy";
        let remedy = if self.virtual_machine.is_some() {
            "do not trust hardware events on this machine; use another instance type, or hardware"
        } else {
            "do not trust hardware events here; look for other programs that use the PMU (perf, a watchdog)"
        };
        Some(match &trial.instructions {
            Err(_) if self.core_pmus.is_empty() || !self.user_mode() => return None,
            Err(why) => {
                bad(subject, format!("not tested, as instructions cannot be counted: {}", why.reason()), remedy)
            }
            Ok(check) => {
                let executed = grouped(check.executed);
                let Some(counted) = check.counted.map(grouped) else {
                    let text = format!(
                        "a loop of {executed} instructions could not be counted: other events used the counters"
                    );
                    return Some(bad(subject, text, "end the programs that use the PMU, and try again"));
                };
                let scaled = if check.exact { "" } else { " (scaled: other events used the counters for part of it)" };
                let text = format!("counted {counted} instructions in a loop of {executed}{scaled}");
                if check.passes() { good(subject, text) } else { bad(subject, text, remedy) }
            }
        })
    }

    fn sampling(&self, trial: &Trial) -> Option<Finding> {
        let subject = "sampling";
        match &trial.sampling {
            Ok(event) => {
                let rings = match self.locked_memory.rings(1) {
                    Some(rings) => format!("; locked memory is enough for {} of one page", counted(rings, "ring")),
                    None if self.locked_memory.is_unlimited() => "; there is no limit on rings".into(),
                    None => String::new(),
                };
                Some(good(subject, format!("works, as tested with {event}{rings}")))
            }
            // Another finding says so.
            Err(_) if !self.user_mode() => None,
            Err(why) => {
                let remedy = if why.errno() == Some(libc::EPERM) {
                    self.more_locked_memory()
                } else {
                    "use another machine, or count instead of sampling".into()
                };
                Some(bad(subject, format!("not possible: {}", why.reason()), remedy))
            }
        }
    }

    fn switch_cost(&self, trial: &Trial) -> Option<Finding> {
        let subject = "switch cost";
        match &trial.switch_cost {
            Ok(cost) => {
                let cost = cost.as_nanos();
                let text = format!("leaving a CPU and returning takes {cost} ns longer while off_cpu is recorded");
                Some(note(subject, text))
            }
            // Another finding says so.
            Err(_) if !self.user_mode() => None,
            Err(why) => Some(note(
                subject,
                format!("how much longer a thread takes to leave a CPU and return was not measured: {why}"),
            )),
        }
    }

    fn more_locked_memory(&self) -> String {
        format!("as root{}: sysctl kernel.perf_event_mlock_kb=4096; or ulimit -l 8192", self.on_its_host())
    }

    fn memory(&self) -> Finding {
        let subject = "locked memory";
        let memory = &self.locked_memory;
        if memory.exempt {
            let why = if self.rights.ipc_lock() { "CAP_IPC_LOCK" } else { "kernel.perf_event_paranoid below 0" };
            return good(subject, format!("no limit for counter pages ({why})"));
        }
        let unknown = || "unknown".to_owned();
        let together = memory.perf_event_mlock_kb.map_or_else(unknown, |kib| format!("{kib} KiB"));
        let alone = match memory.rlimit_memlock {
            Some(u64::MAX) => "unlimited".into(),
            limit => limit.map_or_else(unknown, |bytes| format!("{} KiB", bytes / 1024)),
        };
        let limits = format!(
            "{together} per CPU and user (kernel.perf_event_mlock_kb), plus {alone} per process (RLIMIT_MEMLOCK)"
        );
        match memory.counters() {
            // Each counter needs a page, so 64 are enough only for a few threads with a few counters.
            Some(counters @ 0..64) => bad(
                subject,
                format!("{} can be read in user space: {limits}", counted(counters, "counter")),
                self.more_locked_memory(),
            ),
            Some(counters) => {
                note(subject, format!("{} can be read in user space: {limits}", counted(counters, "counter")))
            }
            None => note(subject, limits),
        }
    }

    /// A summary in a few words.
    pub(super) fn summary(&self) -> &'static str {
        let Some(trial) = self.trial.as_ref().filter(|_| self.target) else {
            let is_described = "as described by its files; nothing was tested";
            return if self.target { is_described } else { "nothing can be counted" };
        };
        match (&trial.instructions, &trial.user_reads) {
            (Ok(check), _) if !check.passes() => "hardware events can be opened, but their counts are wrong",
            (Ok(_), Ok(())) => "hardware counters can be read without a system call",
            (Ok(_), Err(_)) => "hardware counters can be read by read(2)",
            _ if self.user_mode() => "software events can be counted, but no hardware events",
            _ => "nothing can be counted",
        }
    }
}

fn is_out_of_descriptors(errno: i32) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE)
}

fn costs(trial: &Trial) -> Vec<Finding> {
    let format = |time: Time| format!("{:.1} ns, {:.1} ticks", time.nanoseconds, time.ticks);
    let user = trial.cost.user.map(|time| format!("{} without a system call; ", format(time))).unwrap_or_default();
    let mut findings = Vec::new();
    if let Some(read) = trial.cost.read {
        findings.push(note("read cost", format!("{user}{} by read(2)", format(read))));
    }
    if !clock::is_trusted() {
        findings.push(bad(
            "ticks",
            "the kernel does not trust the tick counter, which may differ between CPUs",
            "pin threads to a CPU if time is measured in ticks, or see the kernel's log for the reason",
        ));
    }
    findings
}
