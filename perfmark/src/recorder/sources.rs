//! A thread's counters: each distinct event once, opened by the first mark that asks for it, shared by all.

use std::ops::Deref;

use perfmark_rdpmc::support::Truth;
use perfmark_rdpmc::{Attr, Counter, Event};

use crate::config::{ReadMode, config};
use crate::events::{EventId, Events, What, is_known_of_a_loop};
use crate::opening;

/// An event of this thread.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) event: EventId,
    pub(super) source: Source,
}

/// Events that a thread has, at most: `time`, and so many counters.
pub(super) const SLOTS: usize = COUNTERS + 1;
const COUNTERS: usize = 15;

/// A thread's slots. Each stays where it is.
#[derive(Debug, Default)]
#[allow(clippy::vec_box, reason = "pointers to them are kept")]
pub(super) struct Slots {
    slots: Vec<Box<Slot>>,
    /// What cannot be had.
    refused: Vec<EventId>,
}

impl Deref for Slots {
    type Target = [Box<Slot>];

    fn deref(&self) -> &Self::Target {
        &self.slots
    }
}

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
            Source::Counter { counter, .. } => Some(counter),
            Source::Ticks => None,
        }
    }

    /// Whether read(2) alone tells.
    pub(super) fn is_kernels(&self) -> bool {
        matches!(self.source, Source::Counter { is_user: false, .. })
    }
}

impl Slots {
    /// The places of the slots for `wanted`, as far as the events can be had on this thread, opened where they are new; of `time` alone if none
    /// can. Time first, then the counters as they were opened: those who name the same events in another order have the same set.
    pub(super) fn set_for(&mut self, wanted: &[What], events: &Events) -> Vec<usize> {
        let is_time = |what: &&What| **what == What::Time;
        let (time, counters): (Vec<_>, Vec<_>) = wanted.iter().partition(is_time);
        let mut set: Vec<usize> =
            time.into_iter().chain(counters).filter_map(|what| self.slot_for(what, events)).collect();
        if set.is_empty() {
            set.extend(self.slot_for(&What::Time, events));
            events.with(events.id(&What::Time), |time| time.stands_in = true);
        }
        set.sort_by_key(|&at| (self[at].counter().is_some(), at));
        // One event under two names is one event.
        set.dedup();
        set
    }

    /// Closes the counters. The slots stay, as pointers to them do.
    pub(super) fn close(&mut self) {
        for slot in &mut self.slots {
            slot.source = Source::Ticks;
        }
    }

    /// Those of `wanted` that cannot be had on this thread.
    pub(super) fn refused_of(&self, wanted: &[What], events: &Events) -> Box<[EventId]> {
        let mut refused: Vec<EventId> = wanted.iter().map(|what| events.id(what)).collect();
        refused.retain(|event| self.refused.contains(event));
        refused.dedup();
        refused.into()
    }

    fn slot_for(&mut self, what: &What, events: &Events) -> Option<usize> {
        let event = events.id(what);
        if let Some(known) = self.iter().position(|slot| slot.event == event) {
            return Some(known);
        }
        if self.refused.contains(&event) {
            return None;
        }
        let has_room = *what == What::Time || self.iter().filter(|slot| slot.counter().is_some()).count() < COUNTERS;
        let source = if has_room {
            open(what, event, events)
        } else {
            refuse(event, events, || format!("a thread has {COUNTERS} counters at most"))
        };
        let Some(source) = source else {
            self.refused.push(event);
            return None;
        };
        self.slots.push(Box::new(Slot { event, source }));
        Some(self.len() - 1)
    }
}

fn refuse(event: EventId, events: &Events, why: impl FnOnce() -> String) -> Option<Source> {
    events.with(event, |entry| {
        entry.refused += 1;
        entry.why_refused.get_or_insert_with(why);
    });
    None
}

/// Opens the event, and notes for the report what became of it.
fn open(what: &What, id: EventId, events: &Events) -> Option<Source> {
    let opened = match what {
        What::Time => return Some(Source::Ticks),
        What::Unknown(name) => name.parse::<Event>().map(Attr::new),
        What::Counter(event) => Ok(Attr::new(event.clone())),
    };
    if let Err(why) = opening::ask() {
        return refuse(id, events, || why.to_owned());
    }
    let opened = opened.and_then(|attr| Counter::open(&attr)).and_then(|counter| counter.read().map(|_| counter));
    let mut counter = match opened {
        Ok(counter) => counter,
        Err(error) => return refuse(id, events, || error.reason().to_owned()),
    };
    if is_known_of_a_loop(counter.event())
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
    let lost = events.with(id, |entry| {
        match why_syscall {
            None => entry.user += 1,
            Some(why) => {
                entry.syscall += 1;
                entry.why_syscall.get_or_insert(why);
            }
        }
        entry.lost.clone()
    });
    counter.count_loss_in(lost);
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
