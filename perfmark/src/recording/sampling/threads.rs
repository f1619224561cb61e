//! The threads that are sampled, as the threads themselves and the collector share them.
//!
//! The lock is held for short: a thread's first marked call and its end wait for nothing else.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc as Shared, Mutex, MutexGuard};

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
    /// The number of threads that ended before they had a ring, by the number of the sampling.
    pub(super) too_short: BTreeMap<u8, u64>,
}

/// A thread that is sampled, or will be.
#[derive(Clone, Default)]
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
}

/// `None` if there is no memory that a fork wipes.
pub(super) fn lock() -> Option<MutexGuard<'static, Registry>> {
    THREADS.lock().ok()
}

impl Registry {
    pub(super) fn add(&mut self, entry: Entry) {
        self.entries.insert(self.next, entry);
        self.next += 1;
    }

    /// Removes a thread that calls marks and has ended without a ring.
    pub(super) fn remove_unsampled(&mut self, number: u64) {
        if let Some(entry) = self.entries.remove(&number)
            && self.active == entry.sampling
            && !entry.is_refused
        {
            *self.too_short.entry(entry.sampling).or_default() += 1;
        }
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

    /// Whether the kernel has the thread no more, and another one may have its number. A thread that calls no more
    /// marks still is there for a moment.
    pub(super) fn has_left(&self) -> bool {
        let is_there = |events: &Shared<Events>| !events.ring.has_ended() && events.ring.counts().is_ok();
        self.has_ended && !self.ring.as_ref().is_some_and(is_there)
    }
}

/// Ends what the calling thread, which ends, has in a sampling. Returns whether its ring remains to be read, and no
/// collector will do it.
pub(crate) fn detach(notes: &Arc<SampledThread>, cells: &Arc<ThreadCells>) -> bool {
    let Some(mut registry) = lock() else { return false };
    let is_this = |(_, entry): &(&u64, &mut Entry)| entry.notes.as_ref().is_some_and(|known| Arc::ptr_eq(known, notes));
    let Some((&number, entry)) = registry.entries.iter_mut().find(is_this) else { return false };
    if notes.is_unused() {
        registry.remove_unsampled(number);
        return false;
    }
    notes.keep(cells);
    entry.has_ended = true;
    registry.active == 0
}

/// Whether a call of a mark is open on the thread with this number.
pub(super) fn has_open_calls(thread: u32) -> bool {
    registry::registry().is_ok_and(|registry| registry.has_open_calls(thread))
}
