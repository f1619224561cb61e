//! Tracepoints, whose numbers tracefs lists.

use super::encoding::Encoding;
use super::failure::Failure;
use super::nearest::{did_you_mean, nearest};
use crate::machine::{Machine, Unreadable};
use crate::sys::TYPE_TRACEPOINT;

/// Where tracefs is mounted. The second is used up to linux 4.0, and later as an alias.
const MOUNTS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// Whether this process can read tracepoint numbers. Tests one that every kernel with tracepoints has.
pub(crate) fn are_readable(machine: &Machine) -> bool {
    MOUNTS.iter().any(|mount| machine.text(format!("{mount}/events/sched/sched_switch/id")).is_some())
}

pub(super) fn encode(machine: &Machine, system: &str, name: &str) -> Result<Encoding, Failure> {
    let mut mounted = None;
    for mount in MOUNTS {
        let path = format!("{mount}/events/{system}/{name}/id");
        let is_mounted = machine.path(format!("{mount}/events")).exists();
        let text = match machine.read(&path) {
            // Only root can access debugfs, whether or not tracefs is mounted in it.
            Err(file) if file.errno == libc::EACCES && mount != MOUNTS[0] && !is_mounted => None,
            text => text.map_err(Failure::InTracefs)?,
        };
        let Some(text) = text else {
            mounted = mounted.or(is_mounted.then_some(mount));
            continue;
        };
        let id = text.parse();
        let id = id.map_err(|_| Failure::Refused(format!("/{path} does not contain a number: {text:?}")))?;
        let mut encoding = Encoding::new(TYPE_TRACEPOINT, id);
        encoding.kernel_only = !counts_in_user_mode(machine, mount, system, name).map_err(Failure::InTracefs)?;
        return Ok(encoding);
    }
    let Some(mount) = mounted else {
        let why = "tracefs, which contains the tracepoint's number, is not mounted; as root: mount -t tracefs none \
                   /sys/kernel/tracing";
        return Err(Failure::Refused(why.into()));
    };
    Err(unknown(machine, &format!("{mount}/events"), system, name).map_err(Failure::InTracefs)?)
}

/// Whether the tracepoint with that number never counts if only user mode is counted. False if tracefs does not tell.
pub(super) fn is_kernel_only(machine: &Machine, number: u64) -> bool {
    let has_systems = |mount: &str| machine.names(&format!("{mount}/events")).is_ok_and(|systems| !systems.is_empty());
    let Some(mount) = MOUNTS.into_iter().find(|mount| has_systems(mount)) else { return false };
    let counts_in_user_mode = || -> Result<bool, Unreadable> {
        let calls = machine.names(&format!("{mount}/events/syscalls"))?;
        let calls = calls.into_iter().map(|name| format!("syscalls/{name}"));
        for tracepoint in calls.chain(uprobes(machine, mount)?) {
            let id = machine.read(format!("{mount}/events/{tracepoint}/id"))?;
            if id.is_some_and(|id| id == number.to_string()) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    counts_in_user_mode().is_ok_and(|counts| !counts)
}

/// Whether it counts if only user mode is counted. This depends on the mode in the registers that the tracepoint
/// receives. It is user mode for system calls (`perf_syscall_enter` in `kernel/trace/trace_syscalls.c`, linux 6.12) and
/// for uprobes created in tracefs, and kernel mode for all others.
fn counts_in_user_mode(machine: &Machine, mount: &str, system: &str, name: &str) -> Result<bool, Unreadable> {
    Ok(system == "syscalls" || uprobes(machine, mount)?.contains(&format!("{system}/{name}")))
}

/// The uprobes that were created in tracefs: `system/name`.
fn uprobes(machine: &Machine, mount: &str) -> Result<Vec<String>, Unreadable> {
    let uprobes = match machine.read(format!("{mount}/uprobe_events")) {
        // Only root can read it, and only root can use the uprobes in it, even where everyone can read tracepoint
        // numbers (linux before 5.16).
        Err(file) if file.errno == libc::EACCES => None,
        uprobes => uprobes?,
    };
    // `p:probe_true/main /bin/true:0x1130`
    let name = |line: &str| Some(line.split_once(':')?.1.split(' ').next()?.to_owned());
    Ok(uprobes.unwrap_or_default().lines().filter_map(name).collect())
}

fn unknown(machine: &Machine, events: &str, system: &str, name: &str) -> Result<Failure, Unreadable> {
    let names = machine.names(&format!("{events}/{system}"))?;
    if names.is_empty() {
        let systems = machine.names(events)?;
        let near = nearest(system, systems.iter().map(String::as_str));
        return Ok(format!("tracefs has no system {system}{}", did_you_mean(&near)).into());
    }
    let near = nearest(name, names.iter().map(String::as_str));
    Ok(format!("the system {system} has no tracepoint {name}{}", did_you_mean(&near)).into())
}
