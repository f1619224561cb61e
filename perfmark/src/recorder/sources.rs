//! A thread's counters: each distinct event once, opened by the first mark that asks for it, shared by all.

use std::cell::Cell;

use perfmark_rdpmc::support::Truth;
use perfmark_rdpmc::{Attr, Counter, Event, Hardware};

use crate::config::{ReadMode, config};
use crate::events::{EventId, Events, What};

/// An event of this thread.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) event: EventId,
    /// None where it cannot be had.
    pub(super) source: Option<Source>,
    /// The sum of what calls cost that ended, but for what they had inside: it grows by a call's cost from where it was at its beginning.
    pub(super) inside: Cell<u64>,
    /// The sum of what probes cost, on a thread whose marks have several sets of events.
    pub(super) cost: Cell<u64>,
}

/// A thread's slots. Each stays where it is.
#[allow(clippy::vec_box, reason = "pointers to them are kept")]
pub(super) type Slots = Vec<Box<Slot>>;

/// Where an event's values come from.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a counter is as near as can be, and ticks are one slot of a thread's")]
pub(super) enum Source {
    Ticks,
    Counter {
        counter: Counter,
        /// Whether user space reads it.
        is_user: bool,
    },
}

impl Slot {
    /// None for ticks.
    pub(super) fn counter(&self) -> Option<&Counter> {
        match &self.source {
            Some(Source::Counter { counter, .. }) => Some(counter),
            Some(Source::Ticks) | None => None,
        }
    }

    /// Whether read(2) alone tells.
    pub(super) fn is_kernels(&self) -> bool {
        matches!(self.source, Some(Source::Counter { is_user: false, .. }))
    }
}

/// The slots for `wanted`, as far as the events can be had on this thread, opened where they are new; `time` alone if none can.
pub(super) fn slots_for(wanted: &[What], slots: &mut Slots, events: &Events) -> Vec<usize> {
    let mut had = Vec::new();
    for what in wanted {
        // One event under two names is one event.
        if let Some(slot) = slot_for(what, slots, events)
            && !had.contains(&slot)
        {
            had.push(slot);
        }
    }
    if had.is_empty() {
        had.extend(slot_for(&What::Time, slots, events));
        events.with(events.id(&What::Time), |time| time.stands_in = true);
    }
    had
}

fn slot_for(what: &What, slots: &mut Slots, events: &Events) -> Option<usize> {
    let event = events.id(what);
    let at = slots.iter().position(|slot| slot.event == event).unwrap_or_else(|| {
        let source = open(what, event, events);
        slots.push(Box::new(Slot { event, source, inside: Cell::new(0), cost: Cell::new(0) }));
        slots.len() - 1
    });
    slots[at].source.is_some().then_some(at)
}

/// Opens the event, and notes for the report what became of it.
fn open(what: &What, id: EventId, events: &Events) -> Option<Source> {
    let opened = match what {
        What::Time => return Some(Source::Ticks),
        What::Unknown(name) => name.parse::<Event>().map(Attr::new),
        What::Counter(event) => Ok(Attr::new(event.clone())),
    };
    let opened = opened.and_then(|attr| Counter::open(&attr)).and_then(|counter| counter.read().map(|_| counter));
    let mut counter = match opened {
        Ok(counter) => counter,
        Err(error) => {
            events.with(id, |entry| {
                entry.refused += 1;
                entry.why_refused.get_or_insert_with(|| error.reason().to_owned());
            });
            return None;
        }
    };
    if counter.event().kind() == Event::from(Hardware::Instructions).kind()
        && events.with(id, |entry| entry.truth).is_none()
        && let Ok(truth) = Truth::of(&counter)
    {
        events.with(id, |entry| entry.truth = Some(truth));
    }
    let why_syscall = why_not_user(&counter, id, events);
    let is_user = why_syscall.is_none();
    if !is_user {
        counter.read_by_kernel_only();
    }
    events.with(id, |entry| match why_syscall {
        None => entry.user += 1,
        Some(why) => {
            entry.syscall += 1;
            entry.why_syscall.get_or_insert(why);
        }
    });
    Some(Source::Counter { counter, is_user })
}

/// The reason for reading `counter` by read(2), if there is one.
fn why_not_user(counter: &Counter, id: EventId, events: &Events) -> Option<String> {
    if let Err(why) = counter.user_reads() {
        return Some(why);
    }
    match config().read {
        ReadMode::User => None,
        ReadMode::Syscall => Some("PERFMARK_READ=syscall".into()),
        ReadMode::Auto => {
            let known = events.with(id, |entry| entry.user_is_cheaper);
            let user_is_cheaper = known.unwrap_or_else(|| {
                let (user, syscall) = counter.cost();
                // Off the PMU just now: to be found out another time.
                let cheaper = user.zip(syscall).map(|(user, syscall)| user <= syscall);
                events.with(id, |entry| entry.user_is_cheaper = cheaper);
                cheaper.unwrap_or(true)
            });
            (!user_is_cheaper).then(|| "read(2) is cheaper than a user read on this machine".into())
        }
    }
}
