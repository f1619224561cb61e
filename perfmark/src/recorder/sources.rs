//! A thread's counters: each distinct event once, opened by the first mark that asks for it, shared by all.

use perfmark_rdpmc::{Attr, Counter, Event, Reading, clock};

use crate::config::{ReadMode, config};
use crate::events::{Entry, EventId, Events, What};

/// Where an event's values come from.
#[derive(Debug)]
enum Source {
    Ticks,
    /// Read in user space while the kernel allows it.
    User(Counter),
    /// Read by read(2).
    Syscall(Counter),
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

impl Slot {
    /// The value now, or None where the kernel refuses to tell it.
    #[inline]
    pub(super) fn read(&self) -> Option<Reading> {
        match &self.source {
            Some(Source::Ticks) => Some(Reading { value: clock::ticks(), ..Reading::default() }),
            Some(Source::User(counter)) => match counter.read_user() {
                Some(reading) => Some(reading),
                None => by_kernel(counter),
            },
            Some(Source::Syscall(counter)) => by_kernel(counter),
            None => None,
        }
    }
}

#[cold]
fn by_kernel(counter: &Counter) -> Option<Reading> {
    counter.read_syscall().ok()
}

/// The slots for `wanted`, as far as the events can be had on this thread, opened where they are new; `time` alone if none can.
pub(super) fn slots_for(wanted: &[What], slots: &mut Vec<Slot>, events: &Events) -> Vec<(EventId, usize)> {
    let mut had: Vec<_> = wanted.iter().filter_map(|what| slot_for(what, slots, events)).collect();
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
    events.with(id, |entry| match opened {
        Err(error) => {
            entry.refused += 1;
            entry.why_refused.get_or_insert_with(|| error.reason().to_owned());
            None
        }
        Ok(counter) => match why_not_user(&counter, entry) {
            None => {
                entry.user += 1;
                Some(Source::User(counter))
            }
            Some(why) => {
                entry.syscall += 1;
                entry.why_syscall.get_or_insert(why);
                Some(Source::Syscall(counter))
            }
        },
    })
}

/// The reason for reading `counter` by read(2), if there is one.
fn why_not_user(counter: &Counter, entry: &mut Entry) -> Option<String> {
    if let Err(why) = counter.user_reads() {
        return Some(why);
    }
    match config().read {
        ReadMode::User => None,
        ReadMode::Syscall => Some("PERFMARK_READ=syscall".into()),
        ReadMode::Auto => {
            let user_is_cheaper = *entry.user_is_cheaper.get_or_insert_with(|| {
                let (user, syscall) = counter.cost();
                user.is_some_and(|user| user <= syscall)
            });
            (!user_is_cheaper).then(|| "read(2) is cheaper than a user read on this machine".into())
        }
    }
}
