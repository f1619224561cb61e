//! The events that can be counted, in perf's grammar.
//!
//! An event is parsed independently of the machine, so that a program's settings mean the same everywhere. It is then
//! resolved on one machine, whose sysfs and tracefs contain the numbers for the kernel.

mod term;
mod modifier;
mod generic;
mod cache;
mod breakpoint;
mod kind;
mod nearest;
mod failure;
mod parse;
mod format;
mod pmu;
mod encoding;
mod terms;
mod probe;
mod tracepoint;
mod resolve;
mod list;
#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::{fmt, iter};

pub use breakpoint::{Access, Breakpoint};
pub use cache::{Cache, CacheEvent, CacheOp, CacheResult};
pub(crate) use encoding::CountedBy;
pub use encoding::Encoding;
pub use generic::{Hardware, Software};
pub use kind::Kind;
pub use list::{ListedEvent, ListedField, ListedPmu};
pub use modifier::{Modifier, Modifiers};
pub use nearest::{difference, nearest};
pub use term::{Term, Value};
pub(crate) use tracepoint::are_readable as tracepoints_are_readable;

use crate::error::Error;
use crate::machine::Machine;
use crate::sys::{COUNT_SW_CPU_CLOCK, COUNT_SW_TASK_CLOCK, TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_SOFTWARE};

/// An event that the processor or the kernel counts, in perf's notation.
///
/// | text | counts |
/// |---|---|
/// | `cycles`, `branch-misses`, `page-faults` | the kernel's generic events ([`Hardware`], [`Software`]) |
/// | `L1-dcache-load-misses`, `dTLB-stores` | its generic cache events ([`CacheEvent`]) |
/// | `r01c2` | the processor's event with that hexadecimal number, which has a digit: `r0xef` |
/// | `cpu/event=0xc2,umask=1,inv/` | an event of a PMU, by the fields of its format (`/sys/bus/event_source/devices`) |
/// | `cpu/mem-loads,ldlat=30/`, `topdown-retiring` | an event that a PMU lists; the PMU and more fields are optional |
/// | `sched:sched_switch` | a tracepoint; only root may look up its number |
/// | `mem:0x1000/8:w` | writes to 8 bytes at that address ([`Breakpoint`]) |
/// | `uprobe/path=/bin/true,offset=0x1130/` | executions of the instruction at that offset in the file |
/// | `kprobe/func=vfs_read/` | calls of that kernel function |
/// | `1:2` | type and config of `struct perf_event_attr` |
///
/// Modifiers ([`Modifier`]) may follow, as in `cycles:uk` and `cpu/event=0xc2/u`. Without modifiers only user mode is
/// counted, while perf counts all modes: a name then means the same whatever the user's permissions. In generic names
/// an underscore may replace a hyphen, so that a name can be a Rust identifier: `branch_misses`. A field that is given
/// with a listed event replaces the value from the list; perf combines their bits. If several PMUs outside the cores
/// list an event, its PMU must be given.
///
/// ```
/// use perfmark_rdpmc::{Event, Hardware};
///
/// let event: Event = "branch_misses".parse()?;
/// assert_eq!(event, Hardware::BranchMisses.into());
/// assert_eq!(event.to_string(), "branch-misses");
///
/// let stalls: Event = "cpu/event=0xa2,umask=1,cmask=4/u".parse()?;
/// assert_eq!(stalls.to_string(), "cpu/event=0xa2,umask=0x1,cmask=0x4/u");
/// # Ok::<(), perfmark_rdpmc::Error>(())
/// ```
///
/// Parsing the text of an event gives the same event.
///
/// # Errors
///
/// Parsing fails with what is wrong with the text. A well-formed name that depends on the machine (`topdown-retiring`)
/// is looked up by [`resolve`](Self::resolve), which opening calls as well. Its error suggests similar names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    kind: Kind,
    modifiers: Modifiers,
}

impl Event {
    /// The processor's event with that number, as in its manual.
    #[must_use]
    pub fn raw(config: u64) -> Self {
        Self::plain(Kind::Raw(config))
    }

    /// An event without modifiers. Not public: the text of a kind with arbitrary names could parse as another event.
    fn plain(kind: Kind) -> Self {
        Self { kind, modifiers: Modifiers::default() }
    }

    /// The event with that type and config of `struct perf_event_attr`.
    pub(crate) fn numbered(kind: u32, config: u64) -> Self {
        Self::plain(Kind::Numbered { kind, config })
    }

    /// The kind of event.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Its modifiers.
    #[must_use]
    pub fn modifiers(&self) -> Modifiers {
        self.modifiers
    }

    /// The same event with one more modifier.
    #[must_use]
    pub fn with(mut self, modifier: Modifier) -> Self {
        self.modifiers = self.modifiers.with(modifier);
        self
    }

    /// The name that the text sets by `name=`.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        let Kind::Pmu { terms, .. } = &self.kind else { return None };
        match terms.iter().find(|term| term.name == "name")?.value()? {
            Value::Text(label) => Some(label),
            Value::Number(_) => None,
        }
    }

    /// Whether a hardware counter counts it, as far as the text shows: whether a thread may read it without a system
    /// call.
    #[must_use]
    pub fn is_hardware(&self) -> bool {
        match &self.kind {
            Kind::Hardware(_) | Kind::Cache(_) | Kind::Raw(_) | Kind::Named(_) => true,
            Kind::Software(_) | Kind::Tracepoint { .. } | Kind::Breakpoint(_) => false,
            Kind::Numbered { kind, .. } => encoding::may_be_hardware(*kind),
            Kind::Pmu { pmu, .. } => !pmu::SOFTWARE_PMUS.contains(&pmu.as_str()),
        }
    }

    /// Whether its values are nanoseconds.
    #[must_use]
    pub fn is_time(&self) -> bool {
        matches!(self.generic(), Some((TYPE_SOFTWARE, COUNT_SW_CPU_CLOCK | COUNT_SW_TASK_CLOCK)))
    }

    /// The kernel's type and number of the generic event that it is, however it is written: `1:0` and
    /// `software/config=0/` are `cpu-clock`.
    pub(crate) fn generic(&self) -> Option<(u32, u64)> {
        /// A generic hardware event's number. The other half of its config is the type of a PMU.
        const NUMBER: u64 = 0xffff_ffff;
        match &self.kind {
            Kind::Numbered { kind: kind @ (TYPE_HARDWARE | TYPE_HW_CACHE), config } => Some((*kind, config & NUMBER)),
            Kind::Numbered { kind: TYPE_SOFTWARE, config } => Some((TYPE_SOFTWARE, *config)),
            Kind::Pmu { pmu, terms } if pmu == "software" => {
                match terms.iter().find(|term| term.name == "config").map(Term::value) {
                    None => Some((TYPE_SOFTWARE, 0)),
                    Some(Some(Value::Number(config))) => Some((TYPE_SOFTWARE, *config)),
                    Some(_) => None,
                }
            }
            Kind::Pmu { pmu, terms } => {
                let names = terms.iter().filter(|term| term.value.is_none()).map(Term::name);
                generic_number(&iter::once(pmu.as_str()).chain(names).find_map(parse::generic)?)
            }
            kind => generic_number(kind),
        }
    }

    /// Its encodings on `machine`, at least one. If the machine has several kinds of core and the event does not name
    /// one of their PMUs, there is one for each.
    ///
    /// Each of several encodings counts on its own kind of core. Open all of them and add their counts.
    ///
    /// ```
    /// use perfmark_rdpmc::{Event, Machine};
    ///
    /// let wrong: Event = "page-fualts".parse()?;
    /// let error = wrong.resolve(&Machine::here()).expect_err("no machine has it");
    /// assert!(error.is_unknown_name() && error.to_string().contains("did you mean page-faults?"));
    /// # Ok::<(), perfmark_rdpmc::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the machine has no such PMU, event, field or tracepoint (with suggestions), if a value does not fit its field
    /// (with the field's width), or if sysfs or tracefs cannot be read.
    pub fn resolve(&self, machine: &Machine) -> Result<Vec<Encoding>, Error> {
        resolve::resolve(&self.kind, machine)
            .map_err(|failure| failure.explain(format!("event {:?}", self.to_string())))
    }

    /// Writes the event with other modifiers.
    pub(crate) fn write(&self, modifiers: Modifiers, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        let between = if matches!(self.kind, Kind::Pmu { .. }) { "" } else { ":" };
        if modifiers.is_empty() { Ok(()) } else { write!(f, "{between}{modifiers}") }
    }
}

/// The kernel's type and number of an event of a generic name.
fn generic_number(kind: &Kind) -> Option<(u32, u64)> {
    match kind {
        Kind::Hardware(event) => Some((TYPE_HARDWARE, *event as u64)),
        Kind::Software(event) => Some((TYPE_SOFTWARE, *event as u64)),
        Kind::Cache(event) => Some((TYPE_HW_CACHE, event.config())),
        _ => None,
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(self.modifiers, f)
    }
}

impl FromStr for Event {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match parse::event(text) {
            Ok((kind, modifiers)) => Ok(Self { kind, modifiers }),
            Err(why) => Err(Error::invalid(format!("event {text:?}"), why)),
        }
    }
}

impl From<Hardware> for Event {
    fn from(event: Hardware) -> Self {
        Self::plain(Kind::Hardware(event))
    }
}

impl From<Software> for Event {
    fn from(event: Software) -> Self {
        Self::plain(Kind::Software(event))
    }
}

impl From<CacheEvent> for Event {
    fn from(event: CacheEvent) -> Self {
        Self::plain(Kind::Cache(event))
    }
}

impl From<Breakpoint> for Event {
    fn from(breakpoint: Breakpoint) -> Self {
        Self::plain(Kind::Breakpoint(breakpoint))
    }
}
