//! The events that marks asked for, and what became of each in this process.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perfmark_rdpmc::support::LoopCheck;
use perfmark_rdpmc::{Error, Event, Hardware, Machine, Modifier};

use crate::per_process::PerProcess;

/// An event's place in the process's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId(usize);

impl EventId {
    /// The place, if it is below that.
    pub(crate) fn below(self, end: u8) -> Option<u8> {
        u8::try_from(self.0).ok().filter(|place| *place < end)
    }

    /// As a number, and back.
    pub(crate) fn number(self) -> u64 {
        self.0 as u64
    }

    pub(crate) fn numbered(number: u64) -> Self {
        Self(usize::try_from(number).unwrap_or(usize::MAX))
    }
}

/// What is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Ticks.
    Time,
    Counter(Event),
    /// A name that is no event's.
    Unknown(&'static str),
}

impl What {
    pub(crate) fn parse(name: &'static str) -> Self {
        match name {
            "time" => Self::Time,
            _ => name.parse().map_or(Self::Unknown(name), Self::Counter),
        }
    }

    /// The same of a name that may be wrong: one that nothing here has is told. What is refused for other reasons is for the report to tell.
    pub(crate) fn known(name: &str) -> Result<Self, Error> {
        if name == "time" {
            return Ok(Self::Time);
        }
        let event: Event = name.parse()?;
        match event.resolve(&Machine::here()) {
            Err(error) if error.is_unknown_name() => Err(error),
            _ => Ok(Self::Counter(event)),
        }
    }
}

/// An event and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) what: What,
    /// Threads that read it in user space, by read(2), and not at all.
    pub(crate) user: u64,
    pub(crate) syscall: u64,
    pub(crate) refused: u64,
    /// Threads whose descriptor of it was given up, as the program closed it.
    pub(crate) lost: Arc<AtomicU64>,
    /// The first reason told for reading it by read(2).
    pub(crate) why_syscall: Option<String>,
    /// The first reason told for not reading it.
    pub(crate) why_refused: Option<String>,
    /// Whether it is recorded for a mark that could have none of its events (`time` alone).
    pub(crate) stands_in: bool,
    /// What it said of a loop of known length, where that can be told: of instructions.
    pub(crate) truth: Option<LoopCheck>,
    /// Whether a user read is cheaper than read(2) here, once tried.
    pub(crate) user_is_cheaper: Option<bool>,
}

impl Entry {
    /// With the threads that lost it among those that do not read it. The first reason stands for all.
    fn with_lost(mut self) -> Self {
        let lost = self.lost.load(Relaxed);
        if lost > 0 {
            self.refused += lost;
            self.why_refused.get_or_insert_with(|| LOST.into());
        }
        self
    }
}

/// Why a thread does not read an event any more.
const LOST: &str = "the program closed perfmark's descriptor, whose number may be another file's; calls that need it \
     are unmeasured; close descriptors before the first marked call, or only those that the program opened";

/// Whether it can be told if a counter of the event lies: by a loop of so many instructions in user mode.
pub(crate) fn is_known_of_a_loop(event: &Event) -> bool {
    let is_of_user = event.modifiers().is_empty() || event.modifiers().contains(Modifier::User);
    is_of_user && event.kind() == Event::from(Hardware::Instructions).kind()
}

/// What is wrong with a counter that a loop of known length showed to lie. One that did not count the loop told nothing.
pub(crate) fn unreliable(name: &str, truth: LoopCheck) -> Option<String> {
    let counted = truth.counted.filter(|_| !truth.passes())?;
    Some(format!(
        "{name}: unreliable on this machine: of a loop of {} instructions it counted {counted}",
        truth.executed
    ))
}

#[derive(Debug, Default)]
pub(crate) struct Events(Mutex<Vec<Entry>>);

static EVENTS: PerProcess<Events> = PerProcess::new();

/// The process's table.
pub(crate) fn events() -> io::Result<&'static Events> {
    EVENTS.get()
}

impl Events {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event's place, given at the first asking.
    pub(crate) fn id(&self, what: &What) -> EventId {
        let mut entries = self.lock();
        let known = entries.iter().position(|entry| entry.what == *what);
        EventId(known.unwrap_or_else(|| {
            entries.push(Entry {
                what: what.clone(),
                user: 0,
                syscall: 0,
                refused: 0,
                lost: Arc::default(),
                why_syscall: None,
                why_refused: None,
                stands_in: false,
                truth: None,
                user_is_cheaper: None,
            });
            entries.len() - 1
        }))
    }

    /// Looks at or changes an event's entry.
    pub(crate) fn with<R>(&self, id: EventId, change: impl FnOnce(&mut Entry) -> R) -> R {
        change(&mut self.lock()[id.0])
    }

    /// All of them, in the order of their places.
    pub(crate) fn all(&self) -> Vec<(EventId, Entry)> {
        let entries = self.lock().clone();
        entries.into_iter().enumerate().map(|(id, entry)| (EventId(id), entry.with_lost())).collect()
    }
}
