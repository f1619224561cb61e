//! Asks the kernel for a counter, and puts its refusals into words.

use crate::attr::Attr;
use crate::error::Error;
use crate::machine::Machine;
use crate::sys::{self, Descriptor};

/// arm64: `config1` bit 1 asks for user access, bit 0 for 64 bits (linux `Documentation/arch/arm64/perf.rst`).
const ARM64_USER: u64 = 0b10;
const ARM64_USER_64_BITS: u64 = 0b11;

pub(crate) fn open(attr: &Attr) -> Result<Descriptor, Error> {
    let tried = || attr.to_string();
    if !sys::SUPPORTED {
        return Err(Error::unsupported(tried()));
    }
    if attr.event().is_kernel_only() && !attr.counts_kernel() {
        let why = "it happens in the kernel only, so that counting user mode would give 0 for ever; count the kernel's part too";
        return Err(Error::refused(tried(), why));
    }
    let mut raw = attr.encode();
    let mut refusal = None;
    for &config1 in user_access_requests(attr) {
        raw.config1 = config1;
        match sys::open(&raw) {
            Ok(fd) => return Ok(fd),
            // The last request is the plainest: its answer is about the event, not about the way of reading.
            Err(errno) => refusal = Some(errno),
        }
        if !matches!(refusal, Some(libc::EOPNOTSUPP | libc::EINVAL)) {
            break;
        }
    }
    let errno = refusal.unwrap_or(libc::EINVAL);
    Err(Error::os(errno, "perf_event_open", tried(), &explain(errno, attr)))
}

/// The values of `config1` to try in turn.
fn user_access_requests(attr: &Attr) -> &'static [u64] {
    if !cfg!(target_arch = "aarch64") || !attr.event().is_hardware() {
        &[0]
    } else if attr.asks_wide() {
        &[ARM64_USER_64_BITS, ARM64_USER, 0]
    } else {
        &[ARM64_USER, 0]
    }
}

/// The likely cause on this machine, and the remedy.
fn explain(errno: i32, attr: &Attr) -> String {
    match errno {
        libc::ENOENT if attr.event().is_hardware() && Machine::here().core_pmus().is_empty() => {
            "no PMU here (a virtual machine without one, usually); run on hardware, or give the machine a virtual PMU"
                .into()
        }
        libc::ENOENT | libc::EOPNOTSUPP => "this processor's PMU does not have the event; choose another".into(),
        libc::EACCES | libc::EPERM => match Machine::here().paranoid() {
            Some(level) if level >= 3 => format!(
                "kernel.perf_event_paranoid is {level}, which wants CAP_SYS_ADMIN; `sysctl kernel.perf_event_paranoid=2` as root \
                 allows counting user mode"
            ),
            Some(level @ 2) if attr.counts_kernel() => {
                format!(
                    "kernel.perf_event_paranoid is {level}: counting the kernel's part wants CAP_PERFMON, or level 1"
                )
            }
            Some(level) => format!(
                "kernel.perf_event_paranoid is {level} and would allow it: a seccomp filter refuses it (containers do); allow \
                 perf_event_open there"
            ),
            None => "the kernel or a container forbids it, and hides kernel.perf_event_paranoid".into(),
        },
        libc::ENOSYS => "the kernel has no perf events, or a seccomp filter hides them (containers do)".into(),
        libc::EMFILE => "this process has no descriptor left; raise RLIMIT_NOFILE (`ulimit -n`)".into(),
        libc::ENFILE => "the system has no descriptor left; raise fs.file-max".into(),
        libc::EINVAL => "the kernel takes the event to be malformed, or cannot count it for one thread".into(),
        libc::ENODEV => "the PMU that counts it is gone".into(),
        libc::EBUSY => "another event holds the PMU exclusively".into(),
        libc::ENOMEM => "the kernel has no memory left".into(),
        _ => "see perf_event_open(2)".into(),
    }
}
