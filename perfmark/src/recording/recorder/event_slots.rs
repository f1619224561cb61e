//! A thread's events: counters, ticks, and time off the CPU. The first mark that needs an event opens it, and all marks
//! of the thread share it.

use std::ops::Deref;
use std::rc::Rc;

use perfmark_rdpmc::support::LoopCheck;
use perfmark_rdpmc::{Attr, Counter, EmulatedCounter, Error, Event, GroupRead, Hardware, OffCpu};

use crate::compact::sort_by_key;
use crate::recording::allocated::ThreadCount;
use crate::recording::events::{EventId, Events, is_known_of_a_loop};
use crate::recording::reading::{EventReading, ReadMethod, Source};
use crate::recording::start;
use crate::settings::EventSpec;
use crate::settings::counter_access;
use crate::settings::recording::{ReadMode, settings};
use crate::snapshot::Unit;

/// One event of a thread, and its counter.
#[derive(Debug)]
pub(crate) struct EventSlot {
    pub(crate) event: EventId,
    pub(crate) source: Source,
}

/// The most events that a thread can have: `time`, and [`MAX_COUNTERS`] other events.
pub(crate) const EVENT_SLOTS: usize = MAX_COUNTERS + 1;
const MAX_COUNTERS: usize = 15;

const _: () = assert!(MAX_COUNTERS <= GroupRead::MOST);

/// A thread's event slots. A slot never moves.
#[derive(Debug, Default)]
#[allow(clippy::vec_box, reason = "pointers to them are kept")]
pub(crate) struct EventSlots {
    all: Vec<Box<EventSlot>>,
    /// The thread's context switches, or why they cannot be recorded, once a mark needs them.
    switches: Option<Result<Rc<OffCpu>, Error>>,
    /// The slots in the thread's group. The first one leads the group, the second one reads it.
    group: Vec<usize>,
    /// The events that could not be opened.
    refused: Vec<EventId>,
    /// Whether an emulator counts on the thread, once that is known.
    is_emulated: Option<bool>,
}

impl Deref for EventSlots {
    type Target = [Box<EventSlot>];

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl EventSlot {
    /// The counter; `None` for events without one.
    pub(crate) fn counter(&self) -> Option<&Counter> {
        match &self.source {
            Source::Counter { counter, .. } => Some(counter),
            _ => None,
        }
    }

    /// How the counter is read; `None` for events without one.
    pub(crate) fn read_method(&self) -> Option<ReadMethod> {
        match self.source {
            Source::Counter { read_method, .. } => Some(read_method),
            _ => None,
        }
    }

    /// Whether it needs nothing but the tick counter.
    pub(crate) fn is_ticks(&self) -> bool {
        matches!(self.source, Source::Ticks)
    }

    /// Whether entry and exit read the tick counter for it.
    pub(crate) fn reads_ticks(&self) -> bool {
        self.source.reads_ticks()
    }

    /// The counter of an emulator, if it counts the event.
    pub(crate) fn emulated(&self) -> Option<&EmulatedCounter> {
        match &self.source {
            Source::Emulated(counter) => Some(counter),
            _ => None,
        }
    }

    /// Whether its values are the same each time the same code is executed: a hardware counter in user space, or an
    /// emulated one.
    pub(crate) fn repeats(&self) -> bool {
        self.read_method() == Some(ReadMethod::User) || self.emulated().is_some()
    }

    /// Whether the same code may cost more of it elsewhere in the program: a time or cycles.
    pub(crate) fn depends_on_caches(&self) -> bool {
        let are_cycles = |counter: &Counter| *counter.event().kind() == *Event::from(Hardware::Cycles).kind();
        self.reads_ticks() || self.counter().is_some_and(are_cycles)
    }

    /// Whether it is time off the CPU, or a part of it.
    pub(crate) fn is_off_cpu(&self) -> bool {
        matches!(self.source, Source::OffCpu { .. })
    }

    pub(crate) fn is_suspended(&self) -> bool {
        matches!(self.source, Source::Suspended)
    }

    /// The thread's context switches, if the event depends on them.
    pub(crate) fn switches(&self) -> Option<&OffCpu> {
        match &self.source {
            Source::OnCpu(switches) | Source::OffCpu { switches, .. } => Some(switches),
            _ => None,
        }
    }

    /// Whether calls with the event may take the fast path.
    pub(crate) fn is_on_fast_path(&self) -> bool {
        match self.source {
            Source::Ticks | Source::OnCpu(_) | Source::OffCpu { .. } => true,
            Source::Counter { read_method, .. } => read_method == ReadMethod::User,
            Source::Suspended | Source::Emulated(_) | Source::Allocated(_) => false,
        }
    }

    /// The event's value now. `None` if it cannot be read.
    pub(crate) fn reading(&self) -> Option<EventReading> {
        self.source.reading()
    }

    /// Whether the event is read by read(2).
    pub(crate) fn is_read_by_kernel(&self) -> bool {
        matches!(self.read_method(), Some(ReadMethod::Kernel | ReadMethod::Group))
    }

    /// Whether the event is in the thread's group.
    pub(crate) fn is_grouped(&self) -> bool {
        self.read_method() == Some(ReadMethod::Group)
    }
}

impl EventSlots {
    /// The indices of the slots for the `wanted` events. New events are opened, and events that are not available are
    /// left out. If none is available, the result is the slot of `time`. In an emulator, no time is available, and the
    /// result is the slot of `instructions`.
    ///
    /// `time` comes first, then `on_cpu`, then the counters in the order in which they were opened, then the times off
    /// the CPU and between polls. So the same events in another order give the same set. Events are opened in this
    /// order, too: the slot of each event of the thread's first set is its index in the set.
    pub(crate) fn slot_indices_for(&mut self, wanted: &[EventSpec], events: &Events) -> Vec<usize> {
        let rank = |spec: &EventSpec| match spec {
            EventSpec::Time => 0,
            EventSpec::OnCpu => 1,
            EventSpec::Counter(_) | EventSpec::Unknown(_) | EventSpec::Allocated(_) => 2,
            EventSpec::OffCpu(_) => 3,
            EventSpec::Suspended => 4,
        };
        let is_emulated = *self.is_emulated.get_or_insert_with(is_emulated);
        let mut wanted: Vec<&EventSpec> = wanted.iter().collect();
        sort_by_key(&mut wanted, |spec| rank(spec));
        let mut set: Vec<(u8, usize)> =
            wanted.into_iter().filter_map(|spec| Some((rank(spec), self.wanted_slot_index(spec, events)?))).collect();
        let instructions = is_emulated.then(|| EventSpec::Counter(Hardware::Instructions.into()));
        for instead in instructions.into_iter().chain([EventSpec::Time]) {
            if set.is_empty()
                && let Some(index) = self.slot_index_for(&instead, events)
            {
                set.push((0, index));
                events.with(events.id(&instead), |event| event.is_fallback = true);
            }
        }
        sort_by_key(&mut set, |&key| key);
        // Two names can mean the same event.
        set.dedup();
        set.into_iter().map(|(_, index)| index).collect()
    }

    /// The thread's context switches, if an event needs them.
    pub(crate) fn switches(&self) -> Option<&OffCpu> {
        self.switches.as_ref()?.as_deref().ok()
    }

    /// An emulated counter, if an event of the thread has one.
    pub(crate) fn emulated(&self) -> Option<&EmulatedCounter> {
        self.iter().find_map(|slot| slot.emulated())
    }

    /// The slot whose counter reads the thread's group, if the group has several events.
    pub(crate) fn reader(&self) -> Option<&EventSlot> {
        self.group.get(1).map(|&index| &*self.all[index])
    }

    /// Closes the counters. The slots stay, because plans point to them. Event sets point to the counters' pages and to
    /// the times off the CPU, which are gone: no call may begin or end on the thread afterwards.
    pub(crate) fn close(&mut self) {
        self.switches = None;
        // Members close before their leader: when a leader closes, each remaining member becomes its own group.
        for slot in self.all.iter_mut().rev() {
            slot.source = Source::Ticks;
        }
    }

    /// Those of the `wanted` events that are not available on this thread.
    pub(crate) fn refused_among(&self, wanted: &[EventSpec], events: &Events) -> Box<[EventId]> {
        let mut refused: Vec<EventId> = wanted.iter().map(|spec| events.id(spec)).collect();
        refused.retain(|event| self.refused.contains(event));
        refused.dedup();
        refused.into()
    }

    /// The slot for an event that a mark names: in an emulator, none for a time.
    fn wanted_slot_index(&mut self, spec: &EventSpec, events: &Events) -> Option<usize> {
        if self.is_emulated != Some(true) || spec.unit() != Unit::Ns {
            return self.slot_index_for(spec, events);
        }
        let event = events.id(spec);
        if !self.refused.contains(&event) {
            self.refuse(event, events, "an emulator's time says nothing about the processor".into());
        }
        None
    }

    fn slot_index_for(&mut self, spec: &EventSpec, events: &Events) -> Option<usize> {
        let event = events.id(spec);
        if let Some(known) = self.iter().position(|slot| slot.event == event) {
            return Some(known);
        }
        // `time` is the last resort in an emulator, too.
        if self.refused.contains(&event) && *spec != EventSpec::Time {
            return None;
        }
        let has_room = *spec == EventSpec::Time || self.iter().filter(|slot| !slot.is_ticks()).count() < MAX_COUNTERS;
        let opened = if has_room {
            self.open(spec, event, events)
        } else {
            Err(format!("a thread has {MAX_COUNTERS} events besides `time` at most"))
        };
        let source = opened.map_err(|why| self.refuse(event, events, why)).ok()?;
        let index = self.len();
        self.all.push(Box::new(EventSlot { event, source }));
        if self.all[index].is_grouped() {
            self.group.push(index);
        }
        Some(index)
    }

    /// Leaves the event out on this thread, and notes why for the report.
    fn refuse(&mut self, event: EventId, events: &Events, why: String) {
        self.refused.push(event);
        events.with(event, |entry| {
            entry.refused += 1;
            entry.why_refused.get_or_insert(why);
        });
    }

    /// Opens the event, and notes how it is read for the report. The error is why it cannot be read.
    fn open(&mut self, spec: &EventSpec, id: EventId, events: &Events) -> Result<Source, String> {
        let opened = match spec {
            EventSpec::Time => return Ok(Source::Ticks),
            EventSpec::Suspended => return Ok(Source::Suspended),
            EventSpec::OnCpu => return self.open_switches(id, events).map(Source::OnCpu),
            EventSpec::OffCpu(kind) => {
                return Ok(Source::OffCpu { switches: self.open_switches(id, events)?, kind: *kind });
            }
            EventSpec::Allocated(what) => {
                let count = ThreadCount::open(*what)?;
                events.with(id, |entry| entry.user += 1);
                return Ok(Source::Allocated(count));
            }
            EventSpec::Unknown(name) => name.parse::<Event>().map(Attr::new),
            EventSpec::Counter(event) => Ok(Attr::new(event.clone())),
        };
        // Before Armv8.5, only one counter has 64 bits. `cycles` would wait for it while another event uses it.
        let opened = opened.map(|attr| attr.wide(false));
        counter_access::check()?;
        if settings().read == ReadMode::Emulated {
            return open_emulated(opened, id, events);
        }
        let (mut counter, group) = opened.and_then(|attr| self.open_counter(&attr)).map_err(|why| reason(&why))?;
        if is_known_of_a_loop(counter.event())
            && events.with(id, |entry| entry.truth).is_none()
            && let Ok(truth) = LoopCheck::of(&counter)
        {
            events.with(id, |entry| entry.truth = Some(truth));
        }
        let why_syscall = reason_for_syscall(&counter, id, events);
        let (read_method, why_syscall) = match (why_syscall, group) {
            (None, _) => (ReadMethod::User, None),
            (Some(why), Some(Ok(()))) => (ReadMethod::Group, Some(why)),
            (Some(why), Some(Err(error))) => {
                (ReadMethod::Kernel, Some(format!("{why}, by itself: {}", error.reason())))
            }
            (Some(why), None) => (ReadMethod::Kernel, Some(why)),
        };
        if read_method != ReadMethod::User {
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
        counter.notice_stops(start::clock_since_sleep().nanoseconds_per_tick());
        Ok(Source::Counter { counter, read_method })
    }

    /// Opens the thread's context switches, unless another event has opened them, as [`open`](Self::open) does.
    fn open_switches(&mut self, id: EventId, events: &Events) -> Result<Rc<OffCpu>, String> {
        counter_access::check()?;
        let opened = self.switches.get_or_insert_with(|| OffCpu::open().map(Rc::new));
        let switches = opened.as_ref().map_err(reason)?;
        events.with(id, |entry| entry.user += 1);
        Ok(Rc::clone(switches))
    }

    /// Opens the event. The second value is `None` for an event that cannot be grouped, `Ok` for one in the thread's
    /// group, and an error for one that counts by itself because it could not join the group.
    fn open_counter(&self, attr: &Attr) -> Result<(Counter, Option<Result<(), Error>>), Error> {
        let by_itself = || Counter::open(attr).and_then(check_readable);
        if !Counter::is_groupable(attr) {
            return Ok((by_itself()?, None));
        }
        let group: Vec<_> = self.group.iter().filter_map(|&index| self[index].counter()).collect();
        let joined = match group[..] {
            [] => return Ok((by_itself()?, Some(Ok(())))),
            [leader] => Counter::open_reader(attr, leader),
            [leader, reader, ..] => Counter::open_member(attr, leader, reader),
        };
        match joined.and_then(check_readable) {
            Ok(counter) => Ok((counter, Some(Ok(())))),
            Err(why) => {
                // The leader was stopped so that the event could join, and may not have started again.
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

/// Whether an emulator counts on this thread.
fn is_emulated() -> bool {
    settings().read == ReadMode::Emulated
        && counter_access::check().is_ok()
        && EmulatedCounter::open(&Hardware::Instructions.into()).is_ok()
}

/// Opens the event as an emulator counts it, as [`EventSlots::open`] does.
fn open_emulated(opened: Result<Attr, Error>, id: EventId, events: &Events) -> Result<Source, String> {
    let counter = opened.and_then(|attr| EmulatedCounter::open(attr.event())).map_err(|why| reason(&why))?;
    events.with(id, |entry| {
        entry.user += 1;
        entry.emulator.get_or_insert_with(|| counter.emulator());
    });
    Ok(Source::Emulated(counter))
}

fn reason(error: &Error) -> String {
    error.reason().to_owned()
}

fn check_readable(counter: Counter) -> Result<Counter, Error> {
    counter.read().map(|_| counter)
}

impl Drop for EventSlots {
    fn drop(&mut self) {
        self.close();
    }
}

/// The reason to read `counter` by read(2), if there is one.
fn reason_for_syscall(counter: &Counter, id: EventId, events: &Events) -> Option<String> {
    if let Err(why) = counter.user_reads() {
        return Some(why);
    }
    match settings().read {
        ReadMode::User | ReadMode::Emulated => None,
        ReadMode::Syscall => Some("PERFMARK_READ=syscall".into()),
        ReadMode::Auto => {
            let known = events.with(id, |entry| entry.user_is_cheaper);
            let user_is_cheaper = known.unwrap_or_else(|| {
                let (user, syscall) = counter.cost();
                // Neither is known if the counter is not on the PMU at the moment; a later first call tries again.
                let cheaper = user.zip(syscall).map(|(user, syscall)| user <= syscall);
                events.with(id, |entry| entry.user_is_cheaper = cheaper);
                cheaper.unwrap_or(true)
            });
            (!user_is_cheaper).then(|| "read(2) is cheaper than a user read on this machine".into())
        }
    }
}
