//! A thread's counters: each distinct event once, opened by the first mark that asks for it, shared by all.

use std::ops::Deref;

use perfmark_rdpmc::support::Truth;
use perfmark_rdpmc::{Attr, Counter, Error, Event, GroupRead};

use crate::config::{ReadMode, config};
use crate::events::{EventId, EventSpec, Events, is_known_of_a_loop};
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

const _: () = assert!(COUNTERS <= GroupRead::MOST);

/// A thread's slots. Each stays where it is.
#[derive(Debug, Default)]
#[allow(clippy::vec_box, reason = "pointers to them are kept")]
pub(super) struct Slots {
    all: Vec<Box<Slot>>,
    /// Which of them are in the thread's group: the first one leads it, and the second one reads it.
    group: Vec<usize>,
    /// What cannot be had.
    refused: Vec<EventId>,
}

impl Deref for Slots {
    type Target = [Box<Slot>];

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

/// Where an event's values come from.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a counter is as near as can be, and ticks are one slot of a thread's")]
pub(super) enum Source {
    Ticks,
    Counter { counter: Counter, way: Way },
}

/// How a counter is read at entry and exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// In user space.
    User,
    /// By a read(2) of its own.
    Kernel,
    /// By the read(2) of the thread's group.
    Group,
}

impl Slot {
    /// None for ticks.
    pub(super) fn counter(&self) -> Option<&Counter> {
        match &self.source {
            Source::Counter { counter, .. } => Some(counter),
            Source::Ticks => None,
        }
    }

    /// None for ticks.
    pub(super) fn way(&self) -> Option<Way> {
        match self.source {
            Source::Counter { way, .. } => Some(way),
            Source::Ticks => None,
        }
    }

    /// Whether read(2) alone tells.
    pub(super) fn is_kernels(&self) -> bool {
        matches!(self.way(), Some(Way::Kernel | Way::Group))
    }

    /// Whether it is in the thread's group.
    pub(super) fn is_grouped(&self) -> bool {
        self.way() == Some(Way::Group)
    }
}

impl Slots {
    /// The places of the slots for `wanted`, as far as the events can be had on this thread, opened where they are new;
    /// of `time` alone if none can. Time first, then the counters as they were opened: those who name the same events
    /// in another order have the same set.
    pub(super) fn set_for(&mut self, wanted: &[EventSpec], events: &Events) -> Vec<usize> {
        let is_time = |what: &&EventSpec| **what == EventSpec::Time;
        let (time, counters): (Vec<_>, Vec<_>) = wanted.iter().partition(is_time);
        let mut set: Vec<usize> =
            time.into_iter().chain(counters).filter_map(|what| self.slot_for(what, events)).collect();
        if set.is_empty() {
            set.extend(self.slot_for(&EventSpec::Time, events));
            events.with(events.id(&EventSpec::Time), |time| time.is_fallback = true);
        }
        set.sort_by_key(|&at| (self[at].counter().is_some(), at));
        // One event under two names is one event.
        set.dedup();
        set
    }

    /// The slot whose counter reads the thread's group, if that is of several.
    pub(super) fn reader(&self) -> Option<&Slot> {
        self.group.get(1).map(|&at| &*self.all[at])
    }

    /// Closes the counters. The slots stay, as pointers to them do.
    pub(super) fn close(&mut self) {
        // The group's leader after its members: as it closes, each that is left becomes a group of its own.
        for slot in self.all.iter_mut().rev() {
            slot.source = Source::Ticks;
        }
    }

    /// Those of `wanted` that cannot be had on this thread.
    pub(super) fn refused_of(&self, wanted: &[EventSpec], events: &Events) -> Box<[EventId]> {
        let mut refused: Vec<EventId> = wanted.iter().map(|what| events.id(what)).collect();
        refused.retain(|event| self.refused.contains(event));
        refused.dedup();
        refused.into()
    }

    fn slot_for(&mut self, what: &EventSpec, events: &Events) -> Option<usize> {
        let event = events.id(what);
        if let Some(known) = self.iter().position(|slot| slot.event == event) {
            return Some(known);
        }
        if self.refused.contains(&event) {
            return None;
        }
        let has_room =
            *what == EventSpec::Time || self.iter().filter(|slot| slot.counter().is_some()).count() < COUNTERS;
        let source = if has_room {
            self.open(what, event, events)
        } else {
            refuse(event, events, || format!("a thread has {COUNTERS} counters at most"))
        };
        let Some(source) = source else {
            self.refused.push(event);
            return None;
        };
        let at = self.len();
        self.all.push(Box::new(Slot { event, source }));
        if self.all[at].is_grouped() {
            self.group.push(at);
        }
        Some(at)
    }

    /// Opens the event, and notes for the report what became of it.
    fn open(&self, what: &EventSpec, id: EventId, events: &Events) -> Option<Source> {
        let opened = match what {
            EventSpec::Time => return Some(Source::Ticks),
            EventSpec::Unknown(name) => name.parse::<Event>().map(Attr::new),
            EventSpec::Counter(event) => Ok(Attr::new(event.clone())),
        };
        if let Err(why) = opening::ask() {
            return refuse(id, events, || why.to_owned());
        }
        let (mut counter, group) = match opened.and_then(|attr| self.open_counter(&attr)) {
            Ok(opened) => opened,
            Err(error) => return refuse(id, events, || error.reason().to_owned()),
        };
        if is_known_of_a_loop(counter.event())
            && events.with(id, |entry| entry.truth).is_none()
            && let Ok(truth) = Truth::of(&counter)
        {
            events.with(id, |entry| entry.truth = Some(truth));
        }
        let why_syscall = why_not_user(&counter, id, events);
        let (way, why_syscall) = match (why_syscall, group) {
            (None, _) => (Way::User, None),
            (Some(why), Some(Ok(()))) => (Way::Group, Some(why)),
            (Some(why), Some(Err(error))) => (Way::Kernel, Some(format!("{why}, by itself: {}", error.reason()))),
            (Some(why), None) => (Way::Kernel, Some(why)),
        };
        if way != Way::User {
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
        Some(Source::Counter { counter, way })
    }

    /// Opens the event. With it, `None` for an event that is never grouped, `Ok` for one in the thread's group, and an
    /// error for one that counts by itself because it could not join.
    fn open_counter(&self, attr: &Attr) -> Result<(Counter, Option<Result<(), Error>>), Error> {
        let by_itself = || Counter::open(attr).and_then(readable);
        if !Counter::is_groupable(attr) {
            return Ok((by_itself()?, None));
        }
        let group: Vec<_> = self.group.iter().filter_map(|&at| self[at].counter()).collect();
        let joined = match group[..] {
            [] => return Ok((by_itself()?, Some(Ok(())))),
            [leader] => Counter::open_reader(attr, leader),
            [leader, reader, ..] => Counter::open_member(attr, leader, reader),
        };
        match joined.and_then(readable) {
            Ok(counter) => Ok((counter, Some(Ok(())))),
            Err(why) => {
                // It was stopped for the event to join it, and could not be started again.
                if group[0].read().is_err() {
                    for counter in group {
                        counter.give_up();
                    }
                }
                Ok((by_itself()?, Some(Err(why))))
            }
        }
    }
}

fn readable(counter: Counter) -> Result<Counter, Error> {
    counter.read().map(|_| counter)
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.close();
    }
}

fn refuse(event: EventId, events: &Events, why: impl FnOnce() -> String) -> Option<Source> {
    events.with(event, |entry| {
        entry.refused += 1;
        entry.why_refused.get_or_insert_with(why);
    });
    None
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
