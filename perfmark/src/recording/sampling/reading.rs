//! Reads a thread's ring with the notes of its calls.
#![allow(unsafe_code, reason = "nodes are found by pointers")]

use std::sync::MutexGuard;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU64, fence};
use std::{mem, ptr};

use perfmark_rdpmc::Error;
use perfmark_rdpmc::sample::{Body, Reader, Ring, Sample};

use super::first_period::FirstPeriod;
use super::notes::{SampledThread, UNKNOWN};
use super::rings::Events;
use super::task;
use super::threads::{self, Entry, Registry, has_open_calls};
use super::totals::{self, Stacks, Totals};
use super::unwind::{Address, Modules, Unwinder};
use crate::platform::usage::monotonic_ns;
use crate::recording::cells::Node;
use crate::recording::start;
use crate::snapshot::TimedThread;

/// What is known of a thread's ring.
#[derive(Default)]
pub(super) struct Rest {
    pub(super) events: Vec<OfEvent>,
    /// The lost samples of the ring that records report, of all events.
    recorded_lost: u64,
    /// The thread, and whether its name was read since it has had a sample: threads get their names after they begin.
    thread: TimedThread,
    is_named: bool,
    /// Whether the samples of a thread without notes may be in calls that began before sampling, and whether these have
    /// ended, so that later samples are not.
    may_be_in_older: bool,
    older_have_ended: bool,
    /// How often an event could not be read, because it was in error state.
    pub(super) errors: u32,
}

/// What is known of one of its events.
#[derive(Default)]
pub(super) struct OfEvent {
    /// Samples since the last note. They all belong to the same call.
    pub(super) stacks: Stacks,
    /// The lost samples that are in the totals.
    known_lost: u64,
    /// If it did not begin with its usual period.
    first_period: Option<FirstPeriod>,
    /// The thread's index in the totals, once it has a sample with a time there.
    place: Option<usize>,
}

/// The program's code.
#[derive(Default)]
pub(super) struct Code {
    pub(super) modules: Modules,
    unwinder: Unwinder,
}

impl Rest {
    pub(super) fn new(thread: u32, events: &Events) -> Self {
        let of_event = |first_period: &Option<_>| OfEvent { first_period: first_period.clone(), ..OfEvent::default() };
        let events = events.first_periods.iter().map(of_event).collect();
        let mut named = TimedThread::default();
        (named.id, named.name) = (thread, task::name(thread));
        Self { events, thread: named, ..Self::default() }
    }

    /// Adds the lost samples that are not in the totals yet, except of events in their first periods, which have more
    /// samples than count. The kernel counts them for each event since Linux 6.0. Before, and if an event cannot be
    /// read, which is the error, records report them for the ring, and they are added to the first event, unless all
    /// events are in their first periods.
    fn add_lost(&mut self, ring: &Ring, totals: &mut [Totals], in_first_period: &[bool]) -> Result<(), Error> {
        let counts = ring.counts();
        let counted = counts.iter().flatten().map(|count| count.lost).collect::<Option<Vec<u64>>>();
        let counted = counted.filter(|_| counts.is_ok());
        let of_ring = [!in_first_period.contains(&false)];
        let in_first_period = if counted.is_some() { in_first_period } else { &of_ring };
        let of_others: u64 = self.events.iter().skip(1).map(|event| event.known_lost).sum();
        let lost = counted.unwrap_or_else(|| vec![self.recorded_lost.saturating_sub(of_others)]);
        for (((event, totals), lost), first) in self.events.iter_mut().zip(totals).zip(lost).zip(in_first_period) {
            let new = lost.saturating_sub(event.known_lost);
            event.known_lost += new;
            totals.lost += if *first { 0 } else { new };
        }
        counts.map(drop)
    }

    /// Finds out what must be known before the ring's head is: in which calls samples may be, for how long the events
    /// have had their first periods, and the thread's name.
    pub(super) fn prepare(&mut self, number: u64, thread: u32, events: &Events) {
        let entry = |registry: MutexGuard<'_, Registry>| Some(registry.entries.get(&number)?.has_older_calls);
        self.may_be_in_older = threads::lock().and_then(entry) == Some(true);
        self.older_have_ended = self.may_be_in_older && !has_open_calls(thread);
        let has_records = events.ring.head() > 0;
        if has_records && !mem::replace(&mut self.is_named, true) {
            // A thread that has ended keeps the name that it had.
            self.thread.name = task::name(thread).or(self.thread.name.take());
        }
        if !has_records || !self.events.iter().any(OfEvent::is_in_first_period) {
            return;
        }
        for (event, count) in self.events.iter_mut().zip(events.ring.counts().unwrap_or_default()) {
            if let Some(period) = event.first_period.as_mut().filter(|period| period.goes_on()) {
                period.read_at(count.value);
            }
        }
    }

    /// Reads the thread's ring up to its head, and the notes. `is_complete` asks the kernel for losses that no record
    /// says yet, because the ring has been full since, and whether the thread has open calls. The error is why an event
    /// could not be read.
    pub(super) fn read(
        &mut self,
        number: u64,
        (entry, events, head): (&Entry, &Events, u64),
        code: &mut Code,
        totals: &mut [Totals],
        is_complete: bool,
    ) -> Result<(), Error> {
        let recorded_lost = self.recorded_lost;
        let in_first_period: Vec<bool> = self.events.iter().map(OfEvent::is_in_first_period).collect();
        // The head was read before: the notes about all samples before it are now written, except about those of the
        // innermost call. If the thread has called no mark now, or has no open call, those are outside.
        let (attached, is_active) = threads::lock().map_or((None, false), |registry| {
            let entry = registry.entries.get(&number);
            (entry.and_then(|entry| entry.notes.clone()), entry.is_some_and(|entry| entry.sampling == registry.active))
        });
        let has_open = |notes: &SampledThread| has_open_calls(self.thread.id) || notes.has_open_skipped();
        let outside = match attached.as_deref() {
            None => Some(self.may_be_in_older),
            // The last samples of a thread are outside of all marks.
            Some(notes) => (entry.has_ended || is_complete && !has_open(notes)).then(|| notes.is_unknown()),
        };
        fence(Acquire);
        let notes: Vec<_> = attached.iter().flat_map(|notes| notes.read_notes()).collect();
        // Only the collector reads rings, so none has another reader.
        if let Ok(mut reader) = events.ring.reader() {
            for note in notes {
                self.read_until(note.position, &mut reader, events, code, totals);
                // SAFETY: the notes keep the cells of the thread.
                unsafe { self.add(note.node, totals) };
            }
            self.read_until(head, &mut reader, events, code, totals);
        }
        if is_active {
            self.end_first_periods(events);
        }
        if let Some(is_unknown) = outside {
            let node = if is_unknown { UNKNOWN } else { ptr::null() };
            // SAFETY: `node` is null or unknown.
            unsafe { self.add(node, totals) };
        }
        let in_any = in_first_period.contains(&true);
        let may_be_lost = is_complete || entry.has_ended || in_any || self.recorded_lost > recorded_lost;
        let added = if may_be_lost { self.add_lost(&events.ring, totals, &in_first_period) } else { Ok(()) };
        // Not before: if the thread calls its first mark meanwhile, its samples until then may be in them.
        if self.older_have_ended
            && let Some(mut registry) = threads::lock()
        {
            registry.entries.get_mut(&number).into_iter().for_each(|entry| entry.has_older_calls = false);
        }
        added
    }

    /// Reads the records that begin before the position `end`.
    fn read_until(
        &mut self,
        end: u64,
        reader: &mut Reader<'_>,
        events: &Events,
        code: &mut Code,
        totals: &mut [Totals],
    ) {
        loop {
            let position = reader.position();
            if position.wrapping_sub(end).cast_signed() >= 0 {
                return;
            }
            let Some(record) = reader.read() else { return };
            let event = events.index(record.origin.id);
            match record.body {
                Body::Sample(sample) => match event.and_then(|n| self.events.get_mut(n).zip(totals.get_mut(n))) {
                    Some((event, totals)) => {
                        let weight = event.first_period.as_mut().map_or(1, |period| period.weight(position));
                        if weight > 0 {
                            let time = record.origin.time.map(since_start);
                            let thread = || self.thread.clone();
                            let counted = totals.counted(weight, time, &mut event.place, thread);
                            totals::count_waiting(&mut event.stacks, code.stack(&sample), counted);
                        }
                    }
                    None => totals[0].unknown += 1,
                },
                Body::Lost { lost, .. } | Body::LostSamples { lost } => self.recorded_lost += lost,
                Body::Throttle(_) => totals[event.unwrap_or(0)].throttled += 1,
                _ => {}
            }
        }
    }

    /// Adds the samples of all events since the last note to their call.
    ///
    /// # Safety
    ///
    /// As [`Totals::add`].
    unsafe fn add(&mut self, node: *const Node, totals: &mut [Totals]) {
        let group = self.thread.name.as_deref().filter(|_| node.is_null()).map(task::group);
        for (event, totals) in self.events.iter_mut().zip(totals) {
            // SAFETY: this function's contract.
            unsafe { totals.add(mem::take(&mut event.stacks), node, group.as_deref()) };
        }
    }

    /// Gives the usual period to the events that have had a sample.
    fn end_first_periods(&mut self, events: &Events) {
        for (at, event) in self.events.iter_mut().enumerate() {
            if let Some(period) = event.first_period.as_mut().filter(|period| period.goes_on() && period.has_samples())
            {
                // It fails if the thread has ended, which has no more samples.
                _ = events.ring.restart_with_period(at, period.usual);
                let counts = events.ring.counts().unwrap_or_default();
                period.end_at(events.ring.head(), counts.get(at).map_or(0, |count| count.value));
            }
        }
    }
}

impl OfEvent {
    fn is_in_first_period(&self) -> bool {
        self.first_period.as_ref().is_some_and(FirstPeriod::goes_on)
    }
}

/// Nanoseconds since the process's start, of a time of `CLOCK_MONOTONIC`.
fn since_start(time: u64) -> u64 {
    /// When the program started; 0 if it is unknown.
    static START: AtomicU64 = AtomicU64::new(0);
    if START.load(Relaxed) == 0 {
        START.store(monotonic_ns().unwrap_or(0).saturating_sub(start::since_program_start()), Relaxed);
    }
    time.saturating_sub(START.load(Relaxed) + start::forked_at())
}

impl Code {
    /// Finds out which modules are loaded at the moment of `read`. Samples between two such moments are named by the
    /// modules of both.
    pub(super) fn update<T>(&mut self, read: impl Fn() -> T) -> T {
        let (value, is_changed) = self.modules.update(read);
        if is_changed {
            self.unwinder.forget_modules();
        }
        value
    }

    /// The executed instruction, and the calls that led to it.
    fn stack(&mut self, sample: &Sample<'_>) -> Vec<Address> {
        let mut stack = vec![self.modules.resolve(sample.ip.unwrap_or(0))];
        if let (Some(registers), Some(bytes)) = (&sample.user_registers, &sample.user_stack) {
            let callers = self.unwinder.callers(registers, bytes, &self.modules);
            stack.extend(callers.into_iter().map(|address| self.modules.resolve(address)));
        }
        if let Some(chain) = &sample.callchain {
            // The first address is the executed instruction. The others are return addresses, after the call.
            let chain = chain.iter().filter(|&address| address.cast_signed() > 0).skip(1);
            let known = chain.map(|address| address - 1).take_while(|&at| self.modules.with_code(at).is_some());
            stack.extend(known.map(|address| self.modules.resolve(address)));
        }
        stack
    }
}
