//! Tracepoints: their numbers, which tracefs lists.

use super::encoding::Encoding;
use super::nearest::{did_you_mean, nearest};
use crate::error::Error;
use crate::machine::Machine;
use crate::sys::TYPE_TRACEPOINT;

/// Where tracefs is mounted (the second up to linux 4.0, and as an alias).
const MOUNTS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

pub(super) fn encode(
    machine: &Machine,
    tried: &dyn Fn() -> String,
    system: &str,
    name: &str,
) -> Result<Encoding, Error> {
    let mut refusal = None;
    for mount in MOUNTS {
        let path = format!("{mount}/events/{system}/{name}/id");
        match std::fs::read_to_string(machine.path(&path)) {
            Ok(text) => {
                let id = text
                    .trim()
                    .parse()
                    .map_err(|_| Error::refused(tried(), format!("/{path} holds no number: {text:?}")))?;
                let mut encoding = Encoding::new(TYPE_TRACEPOINT, id);
                encoding.kernel_only = !is_met_in_user_mode(machine, mount, system, name);
                return Ok(encoding);
            }
            // The answer of a mount that is there says more.
            Err(error) if refusal.is_none() || machine.path(format!("{mount}/events")).exists() => {
                refusal = Some((error, path));
            }
            Err(_) => {}
        }
    }
    Err(explain(machine, tried, refusal, system, name))
}

/// Whether it counts where user mode only is counted. What counts is the mode in the registers that a tracepoint is handed: the user's for
/// system calls (`perf_syscall_enter` in `kernel/trace/trace_syscalls.c`, linux 6.12) and for uprobes made in tracefs, the kernel's for all
/// others.
fn is_met_in_user_mode(machine: &Machine, mount: &str, system: &str, name: &str) -> bool {
    let uprobes = || machine.text(format!("{mount}/uprobe_events")).unwrap_or_default();
    let own = format!(":{system}/{name} ");
    system == "syscalls" || uprobes().lines().any(|line| line.contains(&own))
}

fn explain(
    machine: &Machine,
    tried: &dyn Fn() -> String,
    refusal: Option<(std::io::Error, String)>,
    system: &str,
    name: &str,
) -> Error {
    let (errno, path) = refusal
        .map_or((libc::ENOENT, String::new()), |(error, path)| (error.raw_os_error().unwrap_or(libc::EIO), path));
    if errno != libc::ENOENT {
        let why = format!(
            "/{path} holds the tracepoint's number, and tracefs lets root alone look there; run as root (CAP_DAC_READ_SEARCH), or let root \
             `mount -o remount,mode=755` it"
        );
        return Error::os(errno, "open", tried(), &why);
    }
    let Some(events) = MOUNTS.iter().map(|mount| format!("{mount}/events")).find(|path| machine.path(path).exists())
    else {
        let why = "tracefs, which holds the tracepoint's number, is not mounted; `mount -t tracefs none /sys/kernel/tracing` as root";
        return Error::refused(tried(), why);
    };
    let names = machine.names(format!("{events}/{system}"));
    if names.is_empty() {
        let systems = machine.names(&events);
        let near = nearest(system, systems.iter().map(String::as_str));
        return Error::name(tried(), format!("tracefs has no system {system}{}", did_you_mean(&near)));
    }
    let near = nearest(name, names.iter().map(String::as_str));
    Error::name(tried(), format!("the system {system} has no tracepoint {name}{}", did_you_mean(&near)))
}
