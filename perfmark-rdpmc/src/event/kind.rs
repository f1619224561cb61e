//! The kind of an event: a generic one, or one that the processor, the kernel or a PMU defines.

use std::fmt;

use super::breakpoint::Breakpoint;
use super::cache::CacheEvent;
use super::generic::{Hardware, Software};
use super::term::{Term, raw_digits};

/// The kind of an event, without its modifiers. Events are created from their text and from the types of generic
/// events, never from a `Kind`. This ensures that each event can be written as text.
///
/// ```compile_fail
/// // Its text would parse as the generic event.
/// let event: perfmark_rdpmc::Event = perfmark_rdpmc::Kind::Named("cycles".into()).into();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// One of the kernel's generic hardware events.
    Hardware(Hardware),
    /// One of the kernel's software events.
    Software(Software),
    /// One of the kernel's generic cache events.
    Cache(CacheEvent),
    /// An event number from the processor's manual: on x86 unit mask and event select (`r01c2`), on arm64 the event.
    Raw(u64),
    /// Type and config of `struct perf_event_attr`.
    Numbered {
        /// The kernel's number for the kind of event, or a PMU's `type` in sysfs.
        kind: u32,
        /// The event's number within its kind.
        config: u64,
    },
    /// A tracepoint.
    Tracepoint {
        /// The kernel subsystem that defines it.
        system: String,
        /// Its name in that subsystem.
        name: String,
    },
    /// Accesses to an address.
    Breakpoint(Breakpoint),
    /// An event of a named PMU.
    Pmu {
        /// The PMU's name in sysfs; or the common prefix of several core PMUs (`cpu` for `cpu_core` and `cpu_atom`); or
        /// an event that core PMUs have (`stall_slot/threshold=2/`).
        pmu: String,
        /// The terms between the slashes.
        terms: Vec<Term>,
    },
    /// An event name that the machine's PMUs may list.
    Named(String),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hardware(event) => f.write_str(event.name()),
            Self::Software(event) => f.write_str(event.name()),
            Self::Cache(event) => write!(f, "{event}"),
            Self::Raw(config) => {
                let plain = format!("r{config:x}");
                // A word without a digit is a name.
                if raw_digits(&plain).is_some() { f.write_str(&plain) } else { write!(f, "r{config:#x}") }
            }
            Self::Numbered { kind, config } => write!(f, "{kind}:{config:#x}"),
            Self::Tracepoint { system, name } => write!(f, "{system}:{name}"),
            Self::Breakpoint(breakpoint) => write!(f, "{breakpoint}"),
            Self::Pmu { pmu, terms } => {
                write!(f, "{pmu}/")?;
                for (index, term) in terms.iter().enumerate() {
                    write!(f, "{}{term}", if index == 0 { "" } else { "," })?;
                }
                f.write_str("/")
            }
            Self::Named(name) => f.write_str(name),
        }
    }
}
