//! Opens events, and explains the kernel's errors.

mod big_little;
mod sampling;

use crate::attr::{Attr, Request};
use crate::error::{Error, errno_text, exhausted};
use crate::event::{CountedBy, Encoding, Kind, Modifier};
use crate::machine::{DEVICES, Machine, ONLINE_CPUS, PARANOID};
use crate::rights::{Rights, field};
use crate::sys::{
    self, Descriptor, FLAG_EXCLUDE_GUEST, FLAG_EXCLUDE_HOST, FLAG_EXCLUDE_HV, FLAG_EXCLUDE_IDLE, FLAG_EXCLUDE_KERNEL,
    FLAG_EXCLUDE_USER, PerfEventAttr, TYPE_BREAKPOINT, TYPE_TRACEPOINT,
};
use crate::target::{Target, Whose};

/// arm64: `config1` bit 1 requests user access, bit 0 requests 64 bits (linux `Documentation/arch/arm64/perf.rst`).
const ARM64_USER: u64 = 0b10;
const ARM64_USER_64_BITS: u64 = 0b11;

/// Internal to the kernel and unknown to libc (`include/linux/errno.h`). It reaches user space from
/// `arch_uprobe_analyze_insn`.
const ENOTSUPP: i32 = 524;

/// An event that one PMU counts.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) fd: Descriptor,
    pub(crate) encoding: Encoding,
}

/// Opens an event for a target; returns errno if the kernel refuses it.
pub(crate) type OpenEvent<'a> = &'a mut dyn FnMut(&PerfEventAttr, &Target) -> Result<Descriptor, i32>;

/// Opens the event as a member of a group. A group uses one core PMU: `pmu`, if another member already uses that one.
pub(crate) fn open_member(
    attr: &Attr,
    target: &Target,
    machine: &Machine,
    pmu: Option<&str>,
    open_event: OpenEvent<'_>,
) -> Result<Opened, Error> {
    let mut requests = requests(attr, target, machine)?;
    let request = match requests.pop() {
        Some(one) if requests.is_empty() => one,
        _ => {
            return Err(Error::refused(
                attr.to_string(),
                "this machine has several kinds of core, each with its own PMU, and a group uses only one of them; \
                 name the PMU, as in cpu_core/cycles/",
            ));
        }
    };
    match (pmu, request.encoding.core_pmu()) {
        (Some(others), Some(own)) if others != own => Err(Error::refused(
            attr.to_string(),
            format!(
                "it is on the PMU {own} and the group's earlier events are on {others}: linux does not allow events \
                 of several core PMUs in one group (EINVAL); open a group for each PMU"
            ),
        )),
        _ => open_one(attr, request, target, machine, open_event),
    }
}

/// Opens the event on every PMU of `machine` that counts it for the target, with `open_event`. If one fails, none stays
/// open.
pub(crate) fn open_each(
    attr: &Attr,
    target: &Target,
    machine: &Machine,
    open_event: OpenEvent<'_>,
) -> Result<Vec<Opened>, Error> {
    let requests = requests(attr, target, machine)?;
    requests.into_iter().map(|request| open_one(attr, request, target, machine, open_event)).collect()
}

/// At least one request.
fn requests(attr: &Attr, target: &Target, machine: &Machine) -> Result<Vec<Request>, Error> {
    let mut requests = match attr.encode(machine) {
        // An invalid event is an error on every platform.
        Err(error) if error.is_invalid_event() => return Err(error),
        _ if !sys::SUPPORTED => return Err(Error::unsupported(attr.to_string())),
        requests => requests?,
    };
    if let Some(cpu) = target.cpu.filter(|_| requests.len() > 1) {
        let covers = |pmu: &String| machine.cpus(pmu).iter().any(|cpus| cpus.contains(&cpu));
        requests.retain(|request| request.encoding.pmu.as_ref().is_none_or(covers));
        if requests.is_empty() {
            return Err(Error::refused(attr.to_string(), format!("no PMU of this machine counts it on CPU {cpu}")));
        }
    }
    if requests.is_empty() {
        return Err(Error::refused(attr.to_string(), "no PMU of this machine counts it"));
    }
    Ok(requests)
}

/// An event that counts nothing and requires no permission.
fn user_mode_dummy() -> PerfEventAttr {
    PerfEventAttr::dummy(FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV)
}

const EXCLUDE_MODES: u64 = FLAG_EXCLUDE_USER
    | FLAG_EXCLUDE_KERNEL
    | FLAG_EXCLUDE_HV
    | FLAG_EXCLUDE_IDLE
    | FLAG_EXCLUDE_HOST
    | FLAG_EXCLUDE_GUEST;

fn open_one(
    attr: &Attr,
    request: Request,
    target: &Target,
    machine: &Machine,
    open_event: OpenEvent<'_>,
) -> Result<Opened, Error> {
    let encoding = &request.encoding;
    let mut raw = request.attr();
    let error_of = |raw: &PerfEventAttr| open_event(raw, target).err();
    if raw.kind == sys::TYPE_HW_CACHE
        && let Some(why) = big_little::reason(&raw, encoding, machine, error_of)
    {
        return Err(Error::refused(attr.to_string(), why));
    }
    let errno = match open_with_access(attr, encoding, &mut raw, target, open_event) {
        Ok(fd) => return Ok(Opened { fd, encoding: request.encoding }),
        Err(errno) => errno,
    };
    let names_machine =
        attr.has(FLAG_EXCLUDE_HOST | FLAG_EXCLUDE_GUEST) || attr.event().modifiers().contains(Modifier::Guest);
    let other = match errno {
        libc::ENOENT | libc::EINVAL => big_little::listed(&request.attr(), encoding, machine),
        // Apple's PMUs (`m1_pmu_set_event_filter` in `drivers/perf/apple_m1_cpu_pmu.c`, linux 6.14).
        libc::EOPNOTSUPP if encoding.counted_by == CountedBy::Core && !names_machine => {
            Some(PerfEventAttr { flags: raw.flags | FLAG_EXCLUDE_GUEST, ..request.attr() })
        }
        _ => None,
    };
    if let Some(mut other) = other
        && let Ok(fd) = open_with_access(attr, encoding, &mut other, target, open_event)
    {
        return Ok(Opened { fd, encoding: request.encoding });
    }
    let refused = Refused { attr, raw: &raw, encoding, target, machine };
    Err(Error::os(errno, "perf_event_open", attr.to_string(), &refused.explain(errno, open_event)))
}

/// Tries each way of reading. The error, and `raw`, are those of the last request, which asks for the least: it
/// concerns the event, not the way of reading.
fn open_with_access(
    attr: &Attr,
    encoding: &Encoding,
    raw: &mut PerfEventAttr,
    target: &Target,
    open_event: OpenEvent<'_>,
) -> Result<Descriptor, i32> {
    let config1 = raw.config1;
    let mut refusal = libc::EINVAL;
    for &access in user_access_requests(attr, encoding) {
        raw.config1 = config1 | access;
        match open_event(raw, target) {
            Ok(fd) => return Ok(fd),
            Err(errno) => refusal = errno,
        }
        if !matches!(refusal, libc::EOPNOTSUPP | libc::EINVAL) {
            break;
        }
    }
    Err(refusal)
}

/// Bits to add to `config1`, in the order in which to try them.
fn user_access_requests(attr: &Attr, encoding: &Encoding) -> &'static [u64] {
    if !cfg!(target_arch = "aarch64") || encoding.counted_by != CountedBy::Core {
        &[0]
    } else {
        match (attr.asks_user_reads(), attr.asks_wide()) {
            (true, true) => &[ARM64_USER_64_BITS, ARM64_USER, 0],
            (true, false) => &[ARM64_USER, 0],
            (false, true) => &[ARM64_USER_64_BITS & !ARM64_USER, 0],
            (false, false) => &[0],
        }
    }
}

/// A request that the kernel refused.
struct Refused<'a> {
    attr: &'a Attr,
    raw: &'a PerfEventAttr,
    encoding: &'a Encoding,
    target: &'a Target,
    machine: &'a Machine,
}

/// Why the kernel rejects the values of a breakpoint.
pub(crate) const MALFORMED_BREAKPOINT: &str =
    "the kernel does not accept this address, length and access together, or the address is a kernel address";

/// Why a breakpoint on a kernel address is refused.
pub(crate) const KERNEL_ADDRESS: &str = "a breakpoint on a kernel address requires CAP_SYS_ADMIN";

const FILTER: &str =
    "a seccomp filter or a security module refuses it (common in containers); allow perf_event_open there";

impl Refused<'_> {
    /// The likely cause on this machine, and the remedy.
    fn explain(&self, errno: i32, open_event: OpenEvent<'_>) -> String {
        if let Some(why) = exhausted(errno) {
            return why.into();
        }
        if let Some(why) = self.explain_target(errno, open_event) {
            return why;
        }
        let mut error_of = |raw: &PerfEventAttr| open_event(raw, self.target).err();
        if matches!(errno, libc::EINVAL | libc::ENOENT)
            && let Some(why) = big_little::reason(self.raw, self.encoding, self.machine, &mut error_of)
        {
            return why.into();
        }
        if let Some(why) = sampling::reason(self.raw, errno, self.machine, error_of) {
            return why;
        }
        let is_core = self.encoding.counted_by != CountedBy::Kernel;
        // Without sysfs the list is empty. A kernel that has perf events lists its own ones.
        let is_listed = || self.machine.names(DEVICES).is_ok_and(|all| !all.is_empty());
        let pmus = || self.machine.core_pmus().ok().filter(|_| is_listed());
        let why = match errno {
            libc::ENOENT if is_core => match pmus() {
                Some(pmus) if pmus.is_empty() => {
                    "this machine has no PMU (usually a virtual machine without one); run on hardware, or give it a \
                     virtual PMU"
                }
                Some(_) => "this processor's PMU does not have the event; choose another",
                None => {
                    "this processor's PMU does not have the event, or there is no PMU: sysfs cannot be read to find out"
                }
            },
            libc::ENOENT if self.encoding.text.is_some() => "there is no such file, or the kernel has no such function",
            libc::EOPNOTSUPP if is_core => "this processor's PMU cannot count the event in this way; choose another",
            libc::ENOENT | libc::EOPNOTSUPP => {
                "this kernel does not have the event, or cannot count it in this way; choose another"
            }
            libc::EACCES | libc::EPERM => return self.explain_rights(errno, open_event),
            libc::ENOSYS => {
                "the kernel has no perf events, or a seccomp filter (common in containers) or an emulator hides them"
            }
            libc::EINVAL => return self.explain_malformed(open_event),
            libc::ENODEV => {
                "this CPU lacks a feature that the event requires, or the PMU that counts it no longer exists"
            }
            libc::EINTR => {
                "ftrace traces the same uprobe, and linux does not mix both; disable its event in tracefs \
                 (uprobe_events)"
            }
            libc::EFAULT => {
                "the request contains a wrong address; leave out Field::Config1, or name the probe's function"
            }
            libc::EBUSY => "another event uses the PMU exclusively",
            libc::ENOSPC => "all of the processor's breakpoints are in use (x86 has four for each thread); close one",
            libc::E2BIG => return self.explain_too_big(),
            ENOTSUPP => {
                "uprobes do not support the instruction there (on x86, for example, one with a lock prefix); probe \
                 another"
            }
            _ => "see perf_event_open(2)",
        };
        why.into()
    }

    /// The cause, if the kernel refuses every event of the target.
    fn explain_target(&self, errno: i32, open_event: OpenEvent<'_>) -> Option<String> {
        let Target { whose, cpu } = self.target;
        let is_this_thread = self.target.is_caller() && cpu.is_none();
        if is_this_thread || open_event(&user_mode_dummy(), self.target).err() != Some(errno) {
            return None;
        }
        let online = self.machine.online_cpus();
        let is_online = |cpu| online.is_empty() || online.iter().any(|online| online.contains(&cpu));
        match (errno, whose) {
            (libc::EINVAL | libc::ENODEV, _) if cpu.is_some_and(|cpu| !is_online(cpu)) => {
                let (cpu, online) = (cpu.unwrap_or_default(), self.machine.text(ONLINE_CPUS).unwrap_or_default());
                Some(format!("there is no CPU {cpu}, or it is offline; online are {online}"))
            }
            (libc::ESRCH, Whose::Thread(tid)) => Some(format!("there is no thread {tid}; it may have ended")),
            (libc::EBADF, Whose::Cgroup(path, _)) => {
                Some(format!("{} is not the directory of a cgroup", path.display()))
            }
            (libc::ENOENT, Whose::Cgroup(path, _)) => Some(format!(
                "{} does not have the controller perf_event; with cgroups of version 1, use that controller's \
                 hierarchy; with version 2, enable any controller for it (`echo +pids >cgroup.subtree_control` in its \
                 parent)",
                path.display()
            )),
            (libc::EINVAL, Whose::Cgroup(..)) => Some("this kernel counts no cgroups (CONFIG_CGROUP_PERF)".into()),
            (libc::EACCES | libc::EPERM, _) if open_event(&user_mode_dummy(), &Target::this_thread()).is_ok() => {
                Some(self.explain_rights_on_target())
            }
            _ => None,
        }
    }

    /// Events of the calling thread open, and events of the target do not.
    fn explain_rights_on_target(&self) -> String {
        let rights = Rights::of(self.machine);
        let (level, namespace) = (rights.level(), rights.namespace());
        let what = match &self.target.whose {
            // `perfmon_capable` is sufficient for every target.
            _ if rights.perfmon() => return FILTER.into(),
            Whose::Thread(tid) => {
                let user = |process: &str| {
                    let status = self.machine.text(format!("proc/{process}/status")).unwrap_or_default();
                    field(&status, "Uid").and_then(|ids| ids.split_whitespace().next()?.parse::<u32>().ok())
                };
                let whose = match (user(&tid.to_string()), user("self")) {
                    (Some(its), Some(own)) if its != own => format!("belongs to user {its}, and this process to {own}"),
                    _ => "may not be inspected by this process (as for ptrace(2): it cannot be dumped)".into(),
                };
                return format!(
                    "thread {tid} {whose}; counting it requires CAP_PERFMON (CAP_SYS_PTRACE before linux 5.8) at \
                     every level of kernel.perf_event_paranoid{namespace}"
                );
            }
            Whose::Everyone => "an entire CPU",
            Whose::Cgroup(..) => "a cgroup",
            Whose::Caller => return FILTER.into(),
        };
        if rights.paranoid.is_some_and(|level| level <= 0) {
            return format!("{level}, which allows it: {FILTER}");
        }
        format!("{level}: counting {what} requires CAP_PERFMON, or level 0{namespace}")
    }

    /// Older kernels reject nonzero fields beyond the end of their own structure (`perf_copy_attr`), so the last
    /// nonzero field is the likely cause. A probe's location can also be longer than the kernel accepts
    /// (`perf_uprobe_init`, `perf_kprobe_init`).
    fn explain_too_big(&self) -> String {
        let known = sys::attr_size().map(|size| format!("; its struct perf_event_attr has {size} bytes"));
        let known = known.unwrap_or_default();
        let old = |field: &str, release: &str| {
            format!("{field} is set, and this kernel is too old for it (it requires linux {release}){known}")
        };
        if self.raw.config3 != 0 {
            old("config3", "6.3")
        } else if self.raw.sig_data != 0 {
            old("sig_data", "5.13")
        } else if self.encoding.text.is_some() {
            "the path or the function's name is longer than the kernel accepts".into()
        } else {
            format!("the request sets a field that this kernel is too old for{known}")
        }
    }

    /// Explains the permissions (`Documentation/admin-guide/perf-security.rst`). The kernel's own checks return EACCES,
    /// except for tracepoints and kernel addresses.
    fn explain_rights(&self, errno: i32, open_event: OpenEvent<'_>) -> String {
        let (attr, encoding) = (self.attr, self.encoding);
        let is_tracepoint = encoding.kind == TYPE_TRACEPOINT;
        let is_kernel_address = encoding.kind == TYPE_BREAKPOINT && self.raw.config1 >> 63 != 0;
        let mut rights = Rights::of(self.machine);
        if rights.is_admin() || (errno == libc::EPERM && !is_tracepoint && !is_kernel_address) {
            return FILTER.into();
        }
        if rights.paranoid.is_none()
            && let Err(file) = self.machine.read(PARANOID)
        {
            let cause = errno_text(file.errno);
            return format!("kernel.perf_event_paranoid may forbid it, but cannot be read: {cause}");
        }
        // Above level 2 kernels differ. Opening a user-mode event that counts nothing shows what this kernel does.
        if rights.refuses_all() {
            rights.note_user_mode_opens(open_event(&user_mode_dummy(), &Target::this_thread()).is_ok());
        }
        let (level, namespace) = (rights.level(), rights.namespace());
        match encoding.pmu.as_deref() {
            Some("uprobe") => {
                return format!(
                    "uprobes require CAP_SYS_ADMIN at every level of kernel.perf_event_paranoid; run as root{namespace}"
                );
            }
            _ if rights.refuses_all() => {
                return format!(
                    "{level}, and this kernel (as Debian's and Ubuntu's) then requires CAP_SYS_ADMIN for every event; \
                     `sysctl kernel.perf_event_paranoid=2` as root allows counting user mode{namespace}"
                );
            }
            Some("kprobe") if !rights.perfmon() => {
                return format!(
                    "kprobes require CAP_PERFMON (CAP_SYS_ADMIN before linux 5.8) at every level of \
                     kernel.perf_event_paranoid; run as root{namespace}"
                );
            }
            _ => {}
        }
        if rights.paranoid.is_none() {
            "the kernel or a container forbids it, and hides kernel.perf_event_paranoid".into()
        } else if attr.counts_kernel() && !rights.kernel_part() {
            format!("{level}: counting kernel mode requires CAP_PERFMON, or level 1{namespace}")
        } else if is_tracepoint && attr.counts_kernel() && !rights.perfmon() {
            format!("{level}: this tracepoint requires CAP_PERFMON, or level -1{namespace}")
        } else if is_kernel_address {
            format!("{KERNEL_ADDRESS}{namespace}")
        } else {
            format!("{level}, which allows it: {FILTER}")
        }
    }

    fn explain_malformed(&self, open_event: OpenEvent<'_>) -> String {
        let encoding = self.encoding;
        if encoding.counted_by == CountedBy::Core || encoding.pmu.is_some() {
            const REMEDY: &str = "count all modes (:ukh after the name, Attr::kernel(true))";
            let of_all_modes = PerfEventAttr { flags: self.raw.flags & !EXCLUDE_MODES, ..self.raw.clone() };
            let pmu = encoding.pmu.as_ref().map_or("this processor's PMU".into(), |pmu| format!("the PMU {pmu}"));
            match open_event(&of_all_modes, self.target) {
                _ if of_all_modes.flags == self.raw.flags => {}
                Ok(_) => return format!("{pmu} cannot exclude a mode; {REMEDY}"),
                Err(libc::EACCES) if encoding.pmu.is_none() && cfg!(target_arch = "riscv64") => {
                    return format!("{pmu} rejects the event as malformed, or cannot exclude a mode; then {REMEDY}");
                }
                Err(_) => {}
            }
        }
        if let Some(pmu) = &encoding.pmu
            && !self.target.is_whole_cpu()
            && let Some(cpus) = self.machine.cpumask(pmu)
        {
            return format!(
                "the PMU {pmu} lists the CPUs on which to open its events (cpumask: {cpus}); most such PMUs count for \
                 entire CPUs or sockets, never for one thread; open it on one of them (Target::cpu)"
            );
        }
        let why = match self.attr.event().kind() {
            Kind::Breakpoint(_) => MALFORMED_BREAKPOINT,
            _ if encoding.text.is_some() => {
                "the kernel cannot place a probe there: no instruction starts at that offset, or the file is not a \
                 program"
            }
            _ if encoding.is_topdown() => "topdown events are counted only in a group whose leader is the event slots",
            _ if encoding.counted_by == CountedBy::Kernel && encoding.pmu.is_some() => {
                "the PMU rejects the event as malformed, or cannot count for one thread, or cannot exclude a mode \
                 (then count all modes: :ukh after the name, Attr::kernel(true)), or only takes samples"
            }
            _ => "the kernel rejects the event as malformed, or cannot count it for this target",
        };
        why.into()
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, perfmark_unsupported))))]
mod tests;
