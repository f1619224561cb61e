//! The threads that are sampled, as the threads themselves and the collector share them.
//!
//! The lock is held for short: a thread's first marked call and its end wait for nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc as Shared, Mutex, MutexGuard};
use std::time::Duration;

use perfmark_rdpmc::sample;

use super::notes::SampledThread;
use super::rings::Events;
use super::wake::WakePipe;
use crate::platform::per_process::PerProcess;
use crate::platform::sync::Arc;
use crate::recording::cells::{ThreadCells, registry};

/// A forked child has no sampled threads.
static THREADS: PerProcess<Mutex<Registry>> = PerProcess::new();

/// All sampled threads.
#[derive(Default)]
pub(super) struct Registry {
    /// The number of the sampling that goes on; 0 for none.
    pub(super) active: u8,
    /// By a number that no other entry has had.
    pub(super) entries: BTreeMap<u64, Entry>,
    next: u64,
    /// Wakes the collector, if there is one.
    wake: Option<Shared<WakePipe>>,
}

/// A thread that is sampled, or will be.
#[derive(Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they do not depend on each other")]
pub(super) struct Entry {
    /// The number of the sampling.
    pub(super) sampling: u8,
    /// The kernel's number of the thread.
    pub(super) thread: u32,
    /// `None` until the collector has opened it, and if it cannot.
    pub(super) ring: Option<Shared<Events>>,
    /// If the thread calls marks.
    pub(super) notes: Option<Arc<SampledThread>>,
    /// Whether calls that began before sampling may still be open, as long as there are no notes.
    pub(super) has_older_calls: bool,
    /// Whether the kernel refused its ring.
    pub(super) is_refused: bool,
    /// Whether it calls no more marks, or has left.
    pub(super) has_ended: bool,
    /// Whether the program closed the descriptor of its ring. The ring still gets samples, and cannot be waited for.
    pub(super) is_closed: bool,
}

/// `None` if there is no memory that a fork wipes.
pub(super) fn lock() -> Option<MutexGuard<'static, Registry>> {
    THREADS.lock().ok()
}

/// The threads with an entry in this sampling.
pub(super) fn of_sampling(sampling: u8) -> BTreeSet<u32> {
    let Some(registry) = lock() else { return BTreeSet::new() };
    let entries = registry.entries.values().filter(|entry| entry.sampling == sampling);
    entries.map(|entry| entry.thread).collect()
}

impl Registry {
    pub(super) fn add(&mut self, entry: Entry) {
        self.entries.insert(self.next, entry);
        self.next += 1;
    }
}

/// Samples the calling thread, which has this number and calls a mark. The collector opens its ring, unless it has one
/// already.
pub(crate) fn attach(sampling: u8, thread: u32, notes: &Arc<SampledThread>) {
    let Some(mut registry) = lock() else { return };
    let is_this = |entry: &&mut Entry| {
        let is_same = (entry.sampling, entry.thread) == (sampling, thread);
        is_same && entry.notes.is_none() && !entry.has_ended()
    };
    if let Some(Entry { ring: Some(events), notes: known, has_older_calls, .. }) =
        registry.entries.values_mut().find(is_this)
    {
        notes.take_over(&events.ring, events.samples, *has_older_calls);
        *known = Some(Arc::clone(notes));
    } else {
        registry.add(Entry { sampling, thread, notes: Some(Arc::clone(notes)), ..Entry::default() });
        let wake = registry.wake.clone();
        drop(registry);
        wake.inspect(|wake| wake.wake());
    }
}

/// New threads wake the collector by this from now on. Returns what woke it until now.
pub(crate) fn set_wake(wake: Option<Shared<WakePipe>>) -> Option<Shared<WakePipe>> {
    mem::replace(&mut lock()?.wake, wake)
}

impl Entry {
    /// Whether it calls no more marks, or has left.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended || self.ring.as_ref().is_some_and(|events| events.ring.has_ended())
    }

    /// Finds out whether it has ended, and whether the program closed its ring's descriptor.
    pub(super) fn update(&mut self) {
        let Some(events) = &self.ring else { return };
        let polled = sample::wait(&[&events.ring], Some(Duration::ZERO));
        self.is_closed = polled.is_err() && events.ring.id().is_err();
        self.has_ended |= polled.iter().flatten().any(|ready| ready.has_ended);
        // No end would be reported. If the thread goes on, it gets another ring.
        self.has_ended |= self.is_closed && self.notes.is_none();
    }

    /// Whether it gets no more samples. A thread that calls no more marks may still get some.
    pub(super) fn has_left(&self) -> bool {
        let is_there = |events: &Shared<Events>| !events.ring.has_ended() && events.ring.counts().is_ok();
        self.has_ended && !self.ring.as_ref().is_some_and(is_there)
    }
}

/// Ends what the calling thread, which ends, has in a sampling. Returns the number of its entry if its ring remains to
/// be read, and no collector will do it.
pub(crate) fn detach(notes: &Arc<SampledThread>, cells: &Arc<ThreadCells>) -> Option<u64> {
    let mut registry = lock()?;
    let active = registry.active;
    let is_this = |(_, entry): &(&u64, &mut Entry)| entry.notes.as_ref().is_some_and(|known| Arc::ptr_eq(known, notes));
    let (&number, entry) = registry.entries.iter_mut().find(is_this)?;
    entry.has_ended = true;
    if notes.is_unused() {
        // Another thread may use the notes.
        entry.notes = None;
        if entry.sampling != active {
            registry.entries.remove(&number);
        }
        return None;
    }
    notes.keep(cells);
    (active == 0).then_some(number)
}

/// Whether a call of a mark is open on the thread with this number.
pub(super) fn has_open_calls(thread: u32) -> bool {
    registry::registry().is_ok_and(|registry| registry.has_open_calls(thread))
}
