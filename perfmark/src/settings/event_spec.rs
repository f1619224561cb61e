//! The events that marks request.

use std::cell::Cell;
use std::fmt::{self, Display, Formatter};

use perfmark_rdpmc::{Error, Event, Machine, OffCpu, OffCpuTime};

/// An event to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventSpec {
    /// Ticks.
    Time,
    /// Time that the thread was not on a CPU.
    OffCpu(OffCpuKind),
    /// Ticks between the polls of an async call.
    Suspended,
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
        Self::own(name).unwrap_or_else(|| name.parse().map_or(Self::Unknown(name), Self::Counter))
    }

    /// The event of this name, if perfmark defines it and not the kernel.
    pub(crate) fn own(name: &str) -> Option<Self> {
        match name {
            "time" => return Some(Self::Time),
            "suspended" => return Some(Self::Suspended),
            _ => {}
        }
        // perf's events have hyphens.
        OffCpuKind::ALL.into_iter().find(|kind| kind.name() == name.replace('-', "_")).map(Self::OffCpu)
    }

    /// Parses a name from a user. A name that is unknown on this machine is an error. An event that is refused for
    /// another reason is not: the report explains it.
    pub(crate) fn known(name: &str) -> Result<Self, EventError> {
        if let Some(own) = Self::own(name) {
            return Ok(own);
        }
        let wrong = |error| EventError { name: name.into(), error };
        let event: Event = name.parse().map_err(wrong)?;
        match event.resolve(&Machine::here()) {
            Err(error) if error.is_unknown_name() => Err(wrong(error)),
            _ => Ok(Self::Counter(event)),
        }
    }
}

/// Why a text is not an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventError {
    name: String,
    error: Error,
}

impl EventError {
    /// Whether the text is a name, but of no event of this machine.
    pub(crate) fn is_unknown_name(&self) -> bool {
        self.error.similar_names().is_some()
    }

    /// `; did you mean …?`, or nothing.
    pub(crate) fn suggestion(&self) -> String {
        did_you_mean(self.error.similar_names().unwrap_or_default())
    }
}

impl Display for EventError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, error } = self;
        match error.similar_names() {
            Some([]) => write!(f, "unknown event `{name}`: {}", error.reason()),
            Some(similar) => write!(f, "unknown event `{name}`{}", did_you_mean(similar)),
            None => write!(f, "`{name}`: {}", error.reason()),
        }
    }
}

/// `; did you mean …?`, or nothing if there are no names.
pub(crate) fn did_you_mean<S: Display>(names: &[S]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(", ")) }
}
