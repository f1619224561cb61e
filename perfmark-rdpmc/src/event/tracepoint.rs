//! Tracepoints: their numbers, which tracefs lists.

use super::encoding::Encoding;
use super::failure::Failure;
use super::nearest::{did_you_mean, nearest};
use crate::error::Error;
use crate::machine::{Machine, Unreadable};
use crate::sys::TYPE_TRACEPOINT;

/// Where tracefs is mounted (the second up to linux 4.0, and as an alias).
const MOUNTS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// Whether this process can read the numbers of tracepoints: that of one which every kernel with tracepoints has.
pub(crate) fn are_readable(machine: &Machine) -> bool {
    MOUNTS.iter().any(|mount| machine.text(format!("{mount}/events/sched/sched_switch/id")).is_some())
}

pub(super) fn encode(
    machine: &Machine,
    tried: &dyn Fn() -> String,
    system: &str,
    name: &str,
) -> Result<Encoding, Error> {
    let explain = |file: Unreadable| match file.errno {
        libc::EACCES => {
            let why = format!(
                "{file} holds the tracepoint's number, and tracefs lets root alone look there; run as root (CAP_DAC_READ_SEARCH), or let root \
                 `mount -o remount,gid=GROUP,mode=750` it for a group of yours"
            );
            Error::os(file.errno, "open", tried(), &why)
        }
        _ => file.explain(tried()),
    };
    let mut mounted = None;
    for mount in MOUNTS {
        let path = format!("{mount}/events/{system}/{name}/id");
        let is_mounted = machine.path(format!("{mount}/events")).exists();
        let text = match machine.read(&path) {
            // debugfs is root's alone, whether or not tracefs is in it.
            Err(file) if file.errno == libc::EACCES && mount != MOUNTS[0] && !is_mounted => None,
            text => text.map_err(explain)?,
        };
        let Some(text) = text else {
            mounted = mounted.or(is_mounted.then_some(mount));
            continue;
        };
        let id = text.parse().map_err(|_| Error::refused(tried(), format!("/{path} holds no number: {text:?}")))?;
        let mut encoding = Encoding::new(TYPE_TRACEPOINT, id);
        encoding.kernel_only = !is_met_in_user_mode(machine, mount, system, name).map_err(explain)?;
        return Ok(encoding);
    }
    let Some(mount) = mounted else {
        let why = "tracefs, which holds the tracepoint's number, is not mounted; `mount -t tracefs none /sys/kernel/tracing` as root";
        return Err(Error::refused(tried(), why));
    };
    Err(unknown(machine, &format!("{mount}/events"), system, name).map_err(explain)?.explain(tried()))
}

/// Whether it counts where user mode only is counted. What counts is the mode in the registers that a tracepoint is handed: the user's for
/// system calls (`perf_syscall_enter` in `kernel/trace/trace_syscalls.c`, linux 6.12) and for uprobes made in tracefs, the kernel's for all
/// others.
fn is_met_in_user_mode(machine: &Machine, mount: &str, system: &str, name: &str) -> Result<bool, Unreadable> {
    if system == "syscalls" {
        return Ok(true);
    }
    let uprobes = match machine.read(format!("{mount}/uprobe_events")) {
        // Root's alone, as are the uprobes in it, even where the tracepoints' numbers are for all (linux before 5.16).
        Err(file) if file.errno == libc::EACCES => None,
        uprobes => uprobes?,
    };
    let uprobes = uprobes.unwrap_or_default();
    let own = format!(":{system}/{name} ");
    Ok(uprobes.lines().any(|line| line.contains(&own)))
}

fn unknown(machine: &Machine, events: &str, system: &str, name: &str) -> Result<Failure, Unreadable> {
    let names = machine.names(format!("{events}/{system}"))?;
    if names.is_empty() {
        let systems = machine.names(events)?;
        let near = nearest(system, systems.iter().map(String::as_str));
        return Ok(format!("tracefs has no system {system}{}", did_you_mean(&near)).into());
    }
    let near = nearest(name, names.iter().map(String::as_str));
    Ok(format!("the system {system} has no tracepoint {name}{}", did_you_mean(&near)).into())
}
