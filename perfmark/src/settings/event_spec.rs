//! The events that marks request.

use std::cell::Cell;
use std::fmt::{self, Display, Formatter};

use perfmark_rdpmc::{Error, Event, Machine, OffCpu, OffCpuTime};

use crate::snapshot::Unit;

/// An event to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum EventSpec {
    /// Ticks.
    #[default]
    Time,
    /// Ticks in which the thread was on a CPU.
    OnCpu,
    /// Time that the thread was not on a CPU.
    OffCpu(OffCpuKind),
    /// Ticks between the polls of an async call.
    Suspended,
    /// What the thread allocated.
    Allocated(Allocated),
    Counter(Event),
    /// A name that no event has.
    Unknown(&'static str),
}

/// The time that a thread was not on a CPU, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffCpuKind {
    /// All of it.
    All,
    /// The thread waited, for example for a lock, for input, or for a time.
    Blocked,
    /// The thread could run, and the kernel ran another one.
    Preempted,
}

/// What is counted of a thread's allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocated {
    Blocks,
    Bytes,
}

impl OffCpuKind {
    const ALL: [Self; 3] = [Self::All, Self::Blocked, Self::Preempted];

    /// The event's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "off_cpu",
            Self::Blocked => "blocked",
            Self::Preempted => "preempted",
        }
    }

    /// The time of this kind, as of the thread's last [`OffCpu::catch_up`].
    pub(crate) fn cell(self, switches: &OffCpu) -> &Cell<u64> {
        let [all, blocked, preempted] = switches.times();
        match self {
            Self::All => all,
            Self::Blocked => blocked,
            Self::Preempted => preempted,
        }
    }

    /// The time of this kind, in nanoseconds.
    pub(crate) fn of(self, time: OffCpuTime) -> u64 {
        match self {
            Self::All => time.total(),
            Self::Blocked => time.blocked,
            Self::Preempted => time.preempted,
        }
    }
}

impl EventSpec {
    pub(crate) fn parse(name: &'static str) -> Self {
        Self::valid(name).unwrap_or(Self::Unknown(name))
    }

    /// The event of this name, on any machine.
    pub(super) fn valid(name: &str) -> Option<Self> {
        Self::own(name).or_else(|| name.parse().ok().map(Self::Counter))
    }

    /// The event of this name, if perfmark defines it and not the kernel.
    pub(crate) fn own(name: &str) -> Option<Self> {
        match name {
            "time" => return Some(Self::Time),
            "on_cpu" | "on-cpu" => return Some(Self::OnCpu),
            "suspended" => return Some(Self::Suspended),
            "allocations" => return Some(Self::Allocated(Allocated::Blocks)),
            "allocated_bytes" | "allocated-bytes" => return Some(Self::Allocated(Allocated::Bytes)),
            _ => {}
        }
        // perf's events have hyphens.
        OffCpuKind::ALL.into_iter().find(|kind| kind.name() == name.replace('-', "_")).map(Self::OffCpu)
    }

    /// Whether the event's values are ticks.
    pub(crate) fn is_in_ticks(&self) -> bool {
        match self {
            Self::Time | Self::OnCpu | Self::Suspended => true,
            Self::OffCpu(_) | Self::Allocated(_) | Self::Counter(_) | Self::Unknown(_) => false,
        }
    }

    /// The unit of the event's values, once ticks are converted.
    pub(crate) fn unit(&self) -> Unit {
        match self {
            Self::Time | Self::OnCpu | Self::OffCpu(_) | Self::Suspended => Unit::Ns,
            Self::Counter(event) if event.is_time() => Unit::Ns,
            Self::Allocated(_) | Self::Counter(_) | Self::Unknown(_) => Unit::Count,
        }
    }

    /// The names of perfmark's own events.
    const OWN: [&str; 8] =
        ["time", "on_cpu", "off_cpu", "blocked", "preempted", "suspended", "allocations", "allocated_bytes"];

    /// Parses a name from a user. A name that is unknown on this machine is an error. An event that is refused for
    /// another reason is not: the report explains it.
    pub(crate) fn known(name: &str) -> Result<Self, EventError> {
        if let Some(own) = Self::own(name) {
            return Ok(own);
        }
        let wrong = |error: Error| {
            let of_kernel = error.similar_names().unwrap_or_default();
            let own = perfmark_rdpmc::nearest(name, Self::OWN);
            let similar = own.into_iter().chain(of_kernel.iter().map(String::as_str)).map(str::to_owned).collect();
            EventError { name: name.into(), error, similar }
        };
        let event: Event = name.parse().map_err(wrong)?;
        match event.resolve(&Machine::here()) {
            Err(error) if error.is_invalid_event() => Err(wrong(error)),
            _ => Ok(Self::Counter(event)),
        }
    }
}

/// Writes the event's name.
impl Display for EventSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time => f.write_str("time"),
            Self::OnCpu => f.write_str("on_cpu"),
            Self::OffCpu(kind) => f.write_str(kind.name()),
            Self::Suspended => f.write_str("suspended"),
            Self::Allocated(Allocated::Blocks) => f.write_str("allocations"),
            Self::Allocated(Allocated::Bytes) => f.write_str("allocated_bytes"),
            Self::Counter(event) => event.fmt(f),
            Self::Unknown(name) => f.write_str(name),
        }
    }
}

/// Why a text is not an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventError {
    name: String,
    error: Error,
    /// The most similar names, perfmark's own first.
    similar: Vec<String>,
}

impl EventError {
    /// Whether the text is a name, but of no event of this machine.
    pub(crate) fn is_unknown_name(&self) -> bool {
        self.error.is_unknown_name()
    }

    /// `; did you mean …?`, or nothing.
    pub(crate) fn suggestion(&self) -> String {
        did_you_mean(&self.similar)
    }
}

impl Display for EventError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, error, similar } = self;
        let own = EventSpec::OWN.join(", ");
        match (self.is_unknown_name(), similar.is_empty()) {
            (true, true) => write!(f, "unknown event `{name}`: perfmark defines {own}; {}", error.reason()),
            (true, false) => write!(f, "unknown event `{name}`{}", did_you_mean(similar)),
            (false, _) => write!(f, "`{name}`: {}", error.reason()),
        }
    }
}

/// `; did you mean …?`, or nothing if there are no names.
pub(crate) fn did_you_mean<S: Display>(names: &[S]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(", ")) }
}

#[cfg(all(test, target_os = "linux", not(perfmark_unsupported)))]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_of_perfmarks_own_events_are_recognized() {
        for (wrong, own) in [("offcpu", "off_cpu"), ("oncpu", "on_cpu"), ("tiem", "time"), ("blokced", "blocked")] {
            let why = EventSpec::known(wrong).expect_err(wrong).to_string();
            assert!(why.ends_with(&format!("; did you mean `{own}`?")), "{why}");
        }
        let why = EventSpec::known("nothing_like_it").expect_err("unknown").to_string();
        assert!(EventSpec::OWN.iter().all(|own| why.contains(own) && EventSpec::own(own).is_some()), "{why}");
    }
}
