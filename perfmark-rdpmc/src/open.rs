//! Asks the kernel for a counter, and puts its refusals into words.

use crate::attr::{Attr, Request};
use crate::error::{Error, errno_text, used_up};
use crate::event::{CountedBy, Encoding, Event, Kind};
use crate::machine::{DEVICES, Machine, PARANOID};
use crate::rights::Rights;
use crate::sys::{
    self, Descriptor, FLAG_EXCLUDE_HV, FLAG_EXCLUDE_KERNEL, PerfEventAttr, TYPE_BREAKPOINT, TYPE_TRACEPOINT,
};

/// arm64: `config1` bit 1 asks for user access, bit 0 for 64 bits (linux `Documentation/arch/arm64/perf.rst`).
const ARM64_USER: u64 = 0b10;
const ARM64_USER_64_BITS: u64 = 0b11;

/// The kernel's own, not known to libc (`include/linux/errno.h`): from `arch_uprobe_analyze_insn` it gets out.
const ENOTSUPP: i32 = 524;

/// An event that one PMU counts.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) fd: Descriptor,
    pub(crate) encoding: Encoding,
}

/// Asks the kernel for an event, and gives errno where it refuses.
pub(crate) type Ask<'a> = &'a mut dyn FnMut(&PerfEventAttr) -> Result<Descriptor, i32>;

/// Opens the event as a member of a group, which is on one core PMU: on `pmu`, if one of the other members is aimed at that.
pub(crate) fn open_member(attr: &Attr, machine: &Machine, pmu: Option<&str>, ask: Ask<'_>) -> Result<Opened, Error> {
    let mut requests = requests(attr, machine)?;
    let request = match requests.pop() {
        Some(one) if requests.is_empty() => one,
        _ => {
            return Err(Error::refused(
                attr.to_string(),
                "this machine has several kinds of core, each with a PMU of its own, and a group is on one of them; aim the event, as in \
                 cpu_core/cycles/",
            ));
        }
    };
    match (pmu, request.encoding.core_pmu()) {
        (Some(others), Some(own)) if others != own => Err(Error::refused(
            attr.to_string(),
            format!(
                "it is on the PMU {own} and the group's events before it are on {others}: a group is on the PMU of one kind of core, and linux \
                 refuses to mix them (EINVAL); open a group for each"
            ),
        )),
        _ => open_one(attr, request, machine, ask),
    }
}

/// Opens the event on every PMU that counts it on `machine`, by means of `ask`; all of them or none.
pub(crate) fn open_each(attr: &Attr, machine: &Machine, ask: Ask<'_>) -> Result<Vec<Opened>, Error> {
    requests(attr, machine)?.into_iter().map(|request| open_one(attr, request, machine, ask)).collect()
}

fn requests(attr: &Attr, machine: &Machine) -> Result<Vec<Request>, Error> {
    match attr.encode(machine) {
        // A wrong name is wrong everywhere.
        Err(error) if error.is_unknown_name() => Err(error),
        _ if !sys::SUPPORTED => Err(Error::unsupported(attr.to_string())),
        requests => requests,
    }
}

fn open_one(attr: &Attr, request: Request, machine: &Machine, ask: Ask<'_>) -> Result<Opened, Error> {
    let mut raw = request.attr();
    let own = raw.config1;
    let mut refusal = None;
    for &access in user_access_requests(attr, &request.encoding) {
        raw.config1 = own | access;
        match ask(&raw) {
            Ok(fd) => return Ok(Opened { fd, encoding: request.encoding }),
            // The last request is the plainest: its answer is about the event, not about the way of reading.
            Err(errno) => refusal = Some(errno),
        }
        if !matches!(refusal, Some(libc::EOPNOTSUPP | libc::EINVAL)) {
            break;
        }
    }
    let errno = refusal.unwrap_or(libc::EINVAL);
    let refused = Refused { attr, raw: &raw, encoding: &request.encoding, machine };
    Err(Error::os(errno, "perf_event_open", attr.to_string(), &refused.explain(errno, ask)))
}

/// What to add to `config1`, to be tried in turn.
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

/// What was asked for, and refused.
struct Refused<'a> {
    attr: &'a Attr,
    raw: &'a PerfEventAttr,
    encoding: &'a Encoding,
    machine: &'a Machine,
}

const FILTER: &str = "a seccomp filter or a security module refuses it (containers do); allow perf_event_open there";

impl Refused<'_> {
    /// The likely cause on this machine, and the remedy.
    fn explain(&self, errno: i32, ask: Ask<'_>) -> String {
        if let Some(why) = used_up(errno) {
            return why.into();
        }
        let is_core = self.encoding.counted_by != CountedBy::Kernel;
        let pmus = || self.machine.names(DEVICES).and_then(|_| self.machine.core_pmus());
        let why = match errno {
            libc::ENOENT if is_core => match pmus() {
                Ok(pmus) if pmus.is_empty() => {
                    "no PMU here (a virtual machine without one, usually); run on hardware, or give the machine a virtual PMU"
                }
                Ok(_) => "this processor's PMU does not have the event; choose another",
                Err(_) => {
                    "this processor's PMU does not have the event, or there is no PMU: sysfs, which would tell, cannot be read"
                }
            },
            libc::ENOENT if self.encoding.text.is_some() => "there is no such file, or no such function in the kernel",
            libc::EOPNOTSUPP if is_core => "this processor's PMU cannot count the event so; choose another",
            libc::ENOENT | libc::EOPNOTSUPP => {
                "this kernel does not have the event, or cannot count it so; choose another"
            }
            libc::EACCES | libc::EPERM => return self.explain_rights(errno, ask),
            libc::ENOSYS => "the kernel has no perf events, or a seccomp filter hides them (containers do)",
            libc::EINVAL => explain_malformed(self.attr.event(), self.encoding),
            libc::ENODEV => "the PMU that counts it is gone",
            libc::EBUSY => "another event holds the PMU exclusively",
            libc::ENOSPC => "all of the processor's breakpoints are in use (x86 has four a thread); close one",
            libc::E2BIG => self.explain_too_big(),
            ENOTSUPP => {
                "uprobes cannot step over the instruction there (on x86 one with a lock prefix, for one); probe another"
            }
            _ => "see perf_event_open(2)",
        };
        why.into()
    }

    /// A kernel refuses fields behind the end of its own structure that are not zero (`perf_copy_attr`), so that the last that is set is one
    /// of these; and places of probes that are longer than it takes (`perf_uprobe_init`, `perf_kprobe_init`).
    fn explain_too_big(&self) -> &'static str {
        if self.raw.config3 != 0 {
            "this kernel is too old for config3, which is set (linux 6.3 has it)"
        } else if self.raw.sig_data != 0 {
            "this kernel is too old for sig_data, which is set (linux 5.13 has it)"
        } else if self.encoding.text.is_some() {
            "the path or the function's name is longer than the kernel takes"
        } else {
            "the request has a field that this kernel is too old for"
        }
    }

    /// Who may count what (`Documentation/admin-guide/perf-security.rst`). The kernel's own checks say EACCES, but for tracepoints and the
    /// kernel's addresses.
    fn explain_rights(&self, errno: i32, ask: Ask<'_>) -> String {
        let (attr, encoding) = (self.attr, self.encoding);
        let is_tracepoint = encoding.kind == TYPE_TRACEPOINT;
        let is_kernels_address = encoding.kind == TYPE_BREAKPOINT && self.raw.config1 >> 63 != 0;
        let mut rights = Rights::of(self.machine);
        if rights.may_do_all() || (errno == libc::EPERM && !is_tracepoint && !is_kernels_address) {
            return FILTER.into();
        }
        if rights.paranoid.is_none()
            && let Err(file) = self.machine.read(PARANOID)
        {
            let cause = errno_text(file.errno);
            return format!("kernel.perf_event_paranoid, which may forbid it, cannot be read to tell more: {cause}");
        }
        // Above level 2 the kernels differ: whether this one lets an event for user mode pass, that counts nothing, tells.
        if rights.refuses_all() {
            rights.seen(ask(&PerfEventAttr::dummy(FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV)).is_ok());
        }
        let (level, namespace) = (rights.level(), rights.namespace());
        match encoding.pmu.as_deref() {
            Some("uprobe") => {
                return format!(
                    "uprobes want CAP_SYS_ADMIN at every level of kernel.perf_event_paranoid; run as root{namespace}"
                );
            }
            _ if rights.refuses_all() => {
                return format!(
                    "{level}, at which this kernel (Debian's, Ubuntu's) wants CAP_SYS_ADMIN for everything; `sysctl \
                     kernel.perf_event_paranoid=2` as root allows counting user mode{namespace}"
                );
            }
            Some("kprobe") if !rights.perfmon() => {
                return format!(
                    "kprobes want CAP_PERFMON (CAP_SYS_ADMIN before linux 5.8) at every level of kernel.perf_event_paranoid; run as root{namespace}"
                );
            }
            _ => {}
        }
        if rights.paranoid.is_none() {
            "the kernel or a container forbids it, and hides kernel.perf_event_paranoid".into()
        } else if attr.counts_kernel() && !rights.kernel_part() {
            format!("{level}: counting the kernel's part wants CAP_PERFMON, or level 1{namespace}")
        } else if is_tracepoint && attr.counts_kernel() && !rights.perfmon() {
            format!("{level}: this tracepoint wants CAP_PERFMON, or level -1{namespace}")
        } else if is_kernels_address {
            format!("a breakpoint on the kernel's own addresses wants CAP_SYS_ADMIN{namespace}")
        } else {
            format!("{level} and would allow it: {FILTER}")
        }
    }
}

fn explain_malformed(event: &Event, encoding: &Encoding) -> &'static str {
    match event.kind() {
        Kind::Breakpoint(_) => {
            "the kernel does not take this address, length and access together, or the address is the kernel's own"
        }
        _ if encoding.text.is_some() => {
            "the kernel takes no probe there: no instruction begins at that offset of the file, or it is no program's file"
        }
        _ if encoding.is_topdown() => "the parts of slots are counted only in a group that the event slots leads",
        _ if encoding.counted_by == CountedBy::Kernel && encoding.pmu.is_some() => {
            "the PMU takes the event to be malformed, or cannot count for one thread, or cannot leave out a mode (then count all: :ukh behind the \
             name, Attr::kernel(true)), or only takes samples"
        }
        _ => "the kernel takes the event to be malformed, or cannot count it for one thread",
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, perfmark_unsupported))))]
mod tests;
