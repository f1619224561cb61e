//! The events that marks request.

use std::fmt::{self, Display, Formatter};

use perfmark_rdpmc::{Error, Event, Machine};

/// An event to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventSpec {
    /// Ticks.
    Time,
    Counter(Event),
    /// A name that no event has.
    Unknown(&'static str),
}

impl EventSpec {
    pub(crate) fn parse(name: &'static str) -> Self {
        match name {
            "time" => Self::Time,
            _ => name.parse().map_or(Self::Unknown(name), Self::Counter),
        }
    }

    /// Parses a name from a user. A name that is unknown on this machine is an error. An event that is refused for
    /// another reason is not: the report explains it.
    pub(crate) fn known(name: &str) -> Result<Self, EventError> {
        if name == "time" {
            return Ok(Self::Time);
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
