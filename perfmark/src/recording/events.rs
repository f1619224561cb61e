//! The events that marks request, and how each is read in this process.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use perfmark_rdpmc::support::LoopCheck;
use perfmark_rdpmc::{Event, Hardware, Modifier};

use crate::compact::index_or_push;
use crate::platform::per_process::PerProcess;
use crate::settings::EventSpec;

/// An event's index in the process's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId(usize);

impl EventId {
    /// The index, if it is below `end`.
    pub(crate) fn below(self, end: u8) -> Option<u8> {
        u8::try_from(self.0).ok().filter(|index| *index < end)
    }

    /// The index as a number.
    pub(crate) fn number(self) -> u64 {
        self.0 as u64
    }

    pub(crate) fn numbered(number: u64) -> Self {
        Self(usize::try_from(number).unwrap_or(usize::MAX))
    }

    /// The event's entry among [all](Events::all). `None` if it was requested later.
    pub(crate) fn entry(self, all: &[Entry]) -> Option<&Entry> {
        all.get(self.0)
    }
}

/// An event, and how this process's threads read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) spec: EventSpec,
    /// The numbers of threads that read it in user space, by read(2), and not at all.
    pub(crate) user: u64,
    pub(crate) syscall: u64,
    pub(crate) refused: u64,
    /// The number of threads that no longer read it, because the program closed their descriptor.
    pub(crate) lost: Arc<AtomicU64>,
    /// The emulator that counts it, if threads read its count instead of a counter.
    pub(crate) emulator: Option<String>,
    /// The first reason for reading it by read(2).
    pub(crate) why_syscall: Option<String>,
    /// The first reason for not reading it.
    pub(crate) why_refused: Option<String>,
    /// Whether it is recorded for a mark none of whose events is available: `time`, or `instructions` in an emulator.
    pub(crate) is_fallback: bool,
    /// What the counter reported for a loop of known length, for events that this can check: instructions.
    pub(crate) truth: Option<LoopCheck>,
    /// Whether a user read is cheaper than read(2) here, once tried.
    pub(crate) user_is_cheaper: Option<bool>,
}

impl Entry {
    /// Counts the threads that lost it among those that do not read it. The first reason is given for all.
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
const LOST: &str = "the program closed perfmark's descriptor, whose number another file may now have; calls that need \
     it are unmeasured; close descriptors before the first marked call, or only those that the program opened";

/// Whether a loop with a known number of user-mode instructions can check a counter of the event.
pub(crate) fn is_known_of_a_loop(event: &Event) -> bool {
    let is_of_user = event.modifiers().is_empty() || event.modifiers().contains(Modifier::User);
    is_of_user && event.kind() == Event::from(Hardware::Instructions).kind()
}

/// The message for a counter that fails the check against a loop of known length. A counter that did not run during the
/// loop is not judged.
pub(crate) fn unreliable(event: &EventSpec, truth: LoopCheck) -> Option<String> {
    let counted = truth.counted.filter(|_| !truth.passes())?;
    Some(format!(
        "{event}: unreliable on this machine: it counted {counted} instructions in a loop of {}",
        truth.executed
    ))
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    entries: Mutex<Vec<Entry>>,
    /// The index of `suspended`, after it was requested.
    suspended: OnceLock<EventId>,
}

static EVENTS: PerProcess<Events> = PerProcess::new();

/// The process's table.
pub(crate) fn events() -> io::Result<&'static Events> {
    EVENTS.get()
}

impl Events {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event's index, assigned at the first request.
    pub(crate) fn id(&self, spec: &EventSpec) -> EventId {
        let new = || Entry { spec: spec.clone(), ..Entry::default() };
        let id = EventId(index_or_push(&mut self.lock(), |entry| entry.spec == *spec, new));
        if *spec == EventSpec::Suspended {
            _ = self.suspended.set(id);
        }
        id
    }

    /// The index of `suspended`, if a mark requests it. Takes no lock.
    pub(crate) fn suspended(&self) -> Option<EventId> {
        self.suspended.get().copied()
    }

    /// Reads or changes an event's entry.
    pub(crate) fn with<R>(&self, id: EventId, change: impl FnOnce(&mut Entry) -> R) -> R {
        change(&mut self.lock()[id.0])
    }

    /// All entries, in the order of their indices.
    pub(crate) fn all(&self) -> Vec<Entry> {
        let entries = self.lock().clone();
        entries.into_iter().map(Entry::with_lost).collect()
    }
}
