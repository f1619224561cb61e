//! Asks the kernel for a counter, and puts its refusals into words.

use crate::attr::{Attr, Request};
use crate::error::Error;
use crate::event::{CountedBy, Encoding, Event, Kind};
use crate::machine::Machine;
use crate::sys::{self, Descriptor, PerfEventAttr, TYPE_BREAKPOINT, TYPE_RAW, TYPE_TRACEPOINT};

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

/// Opens the event where one PMU counts it, by means of `ask`.
pub(crate) fn open_one_kind(
    attr: &Attr,
    ask: &mut dyn FnMut(&PerfEventAttr) -> Result<Descriptor, i32>,
) -> Result<Opened, Error> {
    let mut opened = open_each(attr, &Machine::here(), ask)?;
    match opened.pop() {
        Some(one) if opened.is_empty() => Ok(one),
        _ => Err(Error::refused(
            attr.to_string(),
            "this machine has several kinds of core, each with a PMU of its own, and a group is on one of them; aim the event, as in \
             cpu_core/cycles/",
        )),
    }
}

/// Opens the event on every PMU that counts it on `machine`, by means of `ask`; all of them or none.
pub(crate) fn open_each(
    attr: &Attr,
    machine: &Machine,
    ask: &mut dyn FnMut(&PerfEventAttr) -> Result<Descriptor, i32>,
) -> Result<Vec<Opened>, Error> {
    let requests = match attr.encode(machine) {
        // A wrong name is wrong everywhere.
        Err(error) if error.is_unknown_name() => return Err(error),
        _ if !sys::SUPPORTED => return Err(Error::unsupported(attr.to_string())),
        requests => requests?,
    };
    requests.into_iter().map(|request| open_one(attr, request, machine, ask)).collect()
}

fn open_one(
    attr: &Attr,
    request: Request,
    machine: &Machine,
    ask: &mut dyn FnMut(&PerfEventAttr) -> Result<Descriptor, i32>,
) -> Result<Opened, Error> {
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
    Err(Error::os(errno, "perf_event_open", attr.to_string(), &explain(errno, attr, &request.encoding, machine)))
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

/// The likely cause on this machine, and the remedy.
fn explain(errno: i32, attr: &Attr, encoding: &Encoding, machine: &Machine) -> String {
    let is_core = encoding.counted_by != CountedBy::Kernel;
    match errno {
        libc::ENOENT if is_core && machine.core_pmus().is_empty() => {
            "no PMU here (a virtual machine without one, usually); run on hardware, or give the machine a virtual PMU"
                .into()
        }
        libc::ENOENT if encoding.text.is_some() => "there is no such file, or no such function in the kernel".into(),
        libc::ENOENT | libc::EOPNOTSUPP if is_core => {
            "this processor's PMU does not have the event; choose another".into()
        }
        libc::ENOENT | libc::EOPNOTSUPP => {
            "this kernel does not have the event, or cannot count it so; choose another".into()
        }
        // What the kernel's own checks do not say (EACCES is theirs, but for tracepoints and probes), or not to someone who may do all.
        libc::EPERM | libc::EACCES
            if machine.may_do_all() || (errno == libc::EPERM && is_core_or_software(encoding)) =>
        {
            "a seccomp filter or a security module refuses it (containers do); allow perf_event_open there".into()
        }
        libc::EACCES | libc::EPERM => explain_rights(attr, encoding, machine),
        libc::ENOSYS => "the kernel has no perf events, or a seccomp filter hides them (containers do)".into(),
        libc::EMFILE => "this process has no descriptor left; raise RLIMIT_NOFILE (`ulimit -n`)".into(),
        libc::ENFILE => "the system has no descriptor left; raise fs.file-max".into(),
        libc::EINVAL => explain_malformed(attr.event(), encoding).into(),
        libc::ENODEV => "the PMU that counts it is gone".into(),
        libc::EBUSY => "another event holds the PMU exclusively".into(),
        libc::ENOSPC => "all of the processor's breakpoints are in use (x86 has four a thread); close one".into(),
        libc::E2BIG => "it uses a field that this kernel is too old for (config3 needs linux 6.3)".into(),
        ENOTSUPP => {
            "uprobes cannot step over the instruction there (on x86 one with a lock prefix, for one); probe another"
                .into()
        }
        libc::ENOMEM => "the kernel has no memory left".into(),
        _ => "see perf_event_open(2)".into(),
    }
}

fn is_core_or_software(encoding: &Encoding) -> bool {
    encoding.kind <= TYPE_RAW && encoding.kind != TYPE_TRACEPOINT
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

/// Who may count what, by `kernel.perf_event_paranoid` and capabilities (`Documentation/admin-guide/perf-security.rst`).
fn explain_rights(attr: &Attr, encoding: &Encoding, machine: &Machine) -> String {
    // Checked before anything else, and at every level (`perf_uprobe_event_init`, `perf_kprobe_event_init` in `kernel/events/core.c`).
    let level = machine.paranoid();
    match (encoding.pmu.as_deref(), level) {
        (_, Some(level @ 3..)) => {
            return format!(
                "kernel.perf_event_paranoid is {level}, which wants CAP_SYS_ADMIN; `sysctl kernel.perf_event_paranoid=2` as root allows counting \
                 user mode"
            );
        }
        (Some("uprobe"), _) => {
            return "uprobes want CAP_SYS_ADMIN at every level of kernel.perf_event_paranoid; run as root".into();
        }
        (Some("kprobe"), _) => {
            return "kprobes want CAP_PERFMON (CAP_SYS_ADMIN before linux 5.8) at every level of kernel.perf_event_paranoid; run as root".into();
        }
        _ => {}
    }
    match level {
        Some(level @ 2..) if attr.counts_kernel() => {
            format!("kernel.perf_event_paranoid is {level}: counting the kernel's part wants CAP_PERFMON, or level 1")
        }
        Some(level @ 0..) if encoding.kind == TYPE_TRACEPOINT && attr.counts_kernel() => {
            format!("kernel.perf_event_paranoid is {level}: this tracepoint wants CAP_PERFMON, or level -1")
        }
        Some(_) if encoding.kind == TYPE_BREAKPOINT => {
            "a breakpoint on the kernel's own addresses wants CAP_SYS_ADMIN".into()
        }
        Some(level) => format!(
            "kernel.perf_event_paranoid is {level} and would allow it: a seccomp filter refuses it (containers do); allow perf_event_open there"
        ),
        None => "the kernel or a container forbids it, and hides kernel.perf_event_paranoid".into(),
    }
}
