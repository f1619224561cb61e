//! What kind of event it is: a generic one, or one that the processor, the kernel or a PMU numbers or names.

use std::fmt;

use super::breakpoint::Breakpoint;
use super::cache::CacheEvent;
use super::generic::{Hardware, Software};
use super::term::Term;

/// What kind of event it is, without its modifiers. Events are made of their texts and of the generic ones' types, never of a kind, so that
/// each can be written.
///
/// ```compile_fail
/// // Its text would read as the generic event.
/// let event: perfmark_rdpmc::Event = perfmark_rdpmc::Kind::Named("cycles".into()).into();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// One of the kernel's generic hardware events.
    Hardware(Hardware),
    /// Something that the kernel counts.
    Software(Software),
    /// One of the kernel's generic cache events.
    Cache(CacheEvent),
    /// A number from the processor's manual: on x86 unit mask and event select (`r01c2`), on arm64 the event.
    Raw(u64),
    /// Type and config of `struct perf_event_attr`.
    Numbered {
        /// The kernel's number for the kind of event, or a PMU's `type` in sysfs.
        kind: u32,
        /// The event's number among its kind.
        config: u64,
    },
    /// A tracepoint.
    Tracepoint {
        /// The part of the kernel that has it.
        system: String,
        /// Its name there.
        name: String,
    },
    /// Accesses of an address.
    Breakpoint(Breakpoint),
    /// An event of a named PMU.
    Pmu {
        /// The PMU's name in sysfs, or the start of the names of several core PMUs (`cpu` for `cpu_core` and `cpu_atom`), or an event that
        /// core PMUs have (`stall_slot/threshold=2/`).
        pmu: String,
        /// The terms between the slashes.
        terms: Vec<Term>,
    },
    /// An event that the machine's PMUs may list.
    Named(String),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hardware(event) => f.write_str(event.name()),
            Self::Software(event) => f.write_str(event.name()),
            Self::Cache(event) => write!(f, "{event}"),
            Self::Raw(config) => write!(f, "r{config:x}"),
            Self::Numbered { kind, config } => write!(f, "{kind}:{config:#x}"),
            Self::Tracepoint { system, name } => write!(f, "{system}:{name}"),
            Self::Breakpoint(breakpoint) => write!(f, "{breakpoint}"),
            Self::Pmu { pmu, terms } => {
                write!(f, "{pmu}/")?;
                for (at, term) in terms.iter().enumerate() {
                    write!(f, "{}{term}", if at == 0 { "" } else { "," })?;
                }
                f.write_str("/")
            }
            Self::Named(name) => f.write_str(name),
        }
    }
}
