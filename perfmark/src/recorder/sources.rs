//! A thread's counters: each distinct event once, opened by the first mark that asks for it, shared by all.

use perfmark_rdpmc::{Attr, Counter, Delta, Event, Region, clock};

use crate::config::{ReadMode, config};
use crate::events::{EventId, Events, What};

/// Where an event's values come from.
#[derive(Debug)]
enum Source {
    Ticks,
    // Boxed: a slot stays small enough for a few to share a cache line.
    Counter(Box<Counter>),
}

/// An event of this thread.
#[derive(Debug)]
pub(super) struct Slot {
    event: EventId,
    /// None where it cannot be had.
    source: Option<Source>,
    /// What marked calls inside the innermost open call cost, as far as they ended.
    pub(super) inside: u64,
}

/// The beginning of a call, as its event's source has it.
#[derive(Clone, Copy, Default)]
pub(super) struct Begin {
    ticks: u64,
    region: Region,
}

impl Slot {
    #[inline]
    pub(super) fn begin(&self, begin: &mut Begin) {
        match &self.source {
            Some(Source::Counter(counter)) => {
                if !counter.begin_unchanged(&mut begin.region) {
                    counter.begin(&mut begin.region);
                    // Once more, so that the beginning is followed by the same instructions always.
                    _ = counter.begin_unchanged(&mut begin.region);
                }
            }
            Some(Source::Ticks) | None => begin.ticks = clock::ticks(),
        }
    }

    /// What was counted since.
    #[inline]
    pub(super) fn end(&self, begin: &Begin) -> Delta {
        match &self.source {
            Some(Source::Counter(counter)) => counter.end(&begin.region),
            // Ticks that run backwards, on CPUs that do not agree, are no time.
            Some(Source::Ticks) => clock::ticks().checked_sub(begin.ticks).map_or(Delta::Unmeasured, Delta::Exact),
            None => Delta::Unmeasured,
        }
    }
}

/// The slots for `wanted`, as far as the events can be had on this thread, opened where they are new; `time` alone if none can.
pub(super) fn slots_for(wanted: &[What], slots: &mut Vec<Slot>, events: &Events) -> Vec<(EventId, usize)> {
    let mut had: Vec<(EventId, usize)> = Vec::new();
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

fn slot_for(what: &What, slots: &mut Vec<Slot>, events: &Events) -> Option<(EventId, usize)> {
    let event = events.id(what);
    let at = slots.iter().position(|slot| slot.event == event).unwrap_or_else(|| {
        slots.push(Slot { event, source: open(what, event, events), inside: 0 });
        slots.len() - 1
    });
    slots[at].source.is_some().then_some((event, at))
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
    let why_syscall = why_not_user(&counter, id, events);
    if why_syscall.is_some() {
        counter.read_by_kernel_only();
    }
    events.with(id, |entry| match why_syscall {
        None => entry.user += 1,
        Some(why) => {
            entry.syscall += 1;
            entry.why_syscall.get_or_insert(why);
        }
    });
    Some(Source::Counter(Box::new(counter)))
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
