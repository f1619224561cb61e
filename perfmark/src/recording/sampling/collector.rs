//! Opens the rings of all threads, and reads them with the notes of their calls.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::RangeBounds;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc as Shared, Mutex, MutexGuard};

use perfmark_rdpmc::Error;
use perfmark_rdpmc::sample::Ring;

use super::reading::{Code, Rest};
use super::rings::{Events, Samplers, try_open};
use super::task::Tasks;
use super::threads::{self, Entry, has_open_calls};
use super::totals::Totals;
use crate::platform::descriptors;
use crate::platform::per_process::PerProcess;
use crate::platform::signals::background::own_user_ns;
use crate::platform::usage::process_usage;
use crate::recording::mark::mark_settings::NO_MEMORY;
use crate::recording::start;
use crate::settings::counter_access;
use crate::settings::recording::settings;
use crate::settings::sampling::SampleSettings;
use crate::text::counted;

/// Everything that only the collector and snapshots use. A forked child has none.
static COLLECTOR: PerProcess<Mutex<State>> = PerProcess::new();
/// Whether there ever was a sampling. If not, nothing allocates memory for it.
static WAS_SAMPLED: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
pub(super) struct State {
    /// Each sampling until now, by its number less 1.
    pub(super) samplings: Vec<Sampling>,
    pub(super) code: Code,
    /// By the thread's entry.
    pub(super) rests: BTreeMap<u64, Rest>,
    /// Whether the process's threads could not be listed.
    pub(super) is_blind: bool,
    tasks: Tasks,
}

/// A sampling, which may have been started several times.
pub(super) struct Sampling {
    pub(super) settings: SampleSettings,
    pub(super) samplers: Samplers,
    /// For each event.
    pub(super) totals: Vec<Totals>,
    /// The number of threads that could not be sampled: they could have no ring, or an event did not fit the PMU.
    pub(super) threads_without: u64,
    /// Why, for the first of them.
    pub(super) why_refused: Option<String>,
    /// Those of these threads that have not left yet.
    refused: BTreeSet<u32>,
    /// The number of threads that ended before they had a ring.
    pub(super) too_short: u64,
    /// The program's CPU time in user mode while it was sampled, until sampling was stopped; and that before it was
    /// started.
    user_ns: u64,
    before_ns: Option<u64>,
}

impl Sampling {
    /// The program's CPU time in user mode while it was sampled.
    pub(super) fn user_ns(&self) -> u64 {
        let going_on = self.before_ns.and_then(|before| program_user_ns()?.checked_sub(before));
        self.user_ns + going_on.unwrap_or(0)
    }
}

/// The CPU time in user mode of all threads but perfmark's own.
fn program_user_ns() -> Option<u64> {
    Some(process_usage()?.user_ns.saturating_sub(own_user_ns()))
}

/// What the collector has to know for its next round.
pub(crate) struct Round {
    /// The rings to wait for.
    pub(crate) rings: Vec<Shared<Ring>>,
    /// Whether it opened or refused rings of threads.
    pub(crate) has_new_threads: bool,
}

/// `None` if there never was a sampling.
pub(super) fn lock() -> Option<MutexGuard<'static, State>> {
    if !WAS_SAMPLED.load(Relaxed) {
        return None;
    }
    COLLECTOR.lock().ok()
}

/// What snapshots say of samples that are missing, besides the counts in [`Samples`](crate::Samples).
pub(crate) fn snapshot_notes() -> Vec<String> {
    let is_forked = start::is_forked_child() && (WAS_SAMPLED.load(Relaxed) || settings().sampling.is_some());
    let state = lock();
    let state = state.as_deref();
    let is_unsampled = is_forked && state.is_none_or(|state| state.samplings.is_empty());
    let forked = "this process was forked from another, and is not sampled; start a `Sampling` in it";
    let blind = "threads that call no marks were not sampled, because /proc/self/task does not list them; mount /proc";
    let notes = [(is_unsampled, forked), (state.is_some_and(|state| state.is_blind), blind)];
    let totals = state.into_iter().flat_map(|state| &state.samplings).flat_map(|sampling| &sampling.totals);
    let without_callers = totals.map(|totals| totals.without_callers);
    let without_callers = match without_callers.sum() {
        0 => None,
        samples => Some(format!(
            "{} counted for their marks without callers, because there were too many paths of marks",
            counted(samples, "sample")
        )),
    };
    notes.into_iter().filter(|note| note.0).map(|note| note.1.into()).chain(without_callers).collect()
}

/// The most samplings with different settings. A thread that goes on keeps its ring of each one.
const MOST_SAMPLINGS: usize = 16;

/// The events that can be sampled, and why the others cannot. If no event may be opened, it says nothing.
pub(crate) fn available(settings: &SampleSettings) -> (SampleSettings, Vec<Error>) {
    let (mut available, mut why) = (settings.clone(), Vec::new());
    if counter_access::check().is_err() {
        return (available, why);
    }
    available.events.retain(|event| try_open(event, settings).map_err(|error| why.push(error)).is_ok());
    (available, why)
}

/// Begins a sampling, in which calls of marks can take part from now on. Returns its number.
pub(crate) fn enable(settings: &SampleSettings) -> Result<u8, String> {
    settings.check()?;
    counter_access::check()?;
    WAS_SAMPLED.store(true, Relaxed);
    let mut state = lock().ok_or(NO_MEMORY)?;
    if threads::lock().ok_or(NO_MEMORY)?.active != 0 {
        return Err("the program is being sampled already; stop that first".into());
    }
    let known = state.samplings.iter().position(|known| known.settings == *settings);
    let number = if let Some(index) = known {
        index
    } else if state.samplings.len() >= MOST_SAMPLINGS {
        return Err(format!("{MOST_SAMPLINGS} samplings with different settings were started; use those of one again"));
    } else {
        let samplers = Samplers::new(settings)?;
        let totals = settings.events.iter().map(|_| Totals::default()).collect();
        let settings = settings.clone();
        state.samplings.push(Sampling {
            settings,
            samplers,
            totals,
            threads_without: 0,
            why_refused: None,
            refused: BTreeSet::new(),
            too_short: 0,
            user_ns: 0,
            before_ns: None,
        });
        state.samplings.len() - 1
    };
    state.samplings[number].before_ns = program_user_ns();
    // The code that the first samples are in.
    state.code.update(|| ());
    let number = u8::try_from(number + 1).unwrap_or(u8::MAX);
    // Another look at all threads.
    state.tasks = Tasks::default();
    threads::lock().ok_or(NO_MEMORY)?.active = number;
    Ok(number)
}

/// Samples the threads that were sampled before with these settings. All calls that begin from now on take part: so
/// samples in those that do not are in calls that are open now.
pub(crate) fn restart(number: u8) {
    let Some(mut registry) = threads::lock() else { return };
    for entry in registry.entries.values_mut().filter(|entry| entry.sampling == number) {
        entry.is_refused = false;
        if let Some(notes) = entry.notes.as_ref().filter(|_| has_open_calls(entry.thread)) {
            notes.restart();
        }
        // If the thread has ended, there is nothing to sample.
        entry.ring.iter().for_each(|events| _ = events.ring.enable());
    }
}

/// Stops sampling, and closes the rings of threads that have called no mark. The others remain, stopped, until their
/// thread ends: it may be looking at its ring.
/// Returns whether the program was being sampled.
pub(crate) fn disable() -> bool {
    let Some(mut state) = lock() else { return false };
    let mut number = 0;
    if let Some(mut registry) = threads::lock() {
        number = mem::take(&mut registry.active);
        for entry in registry.entries.values_mut().filter(|entry| entry.sampling == number) {
            if let Some(events) = &entry.ring {
                _ = events.ring.disable();
            }
            entry.has_ended |= entry.notes.is_none();
        }
    }
    if let Some(sampling) = usize::from(number).checked_sub(1).and_then(|at| state.samplings.get_mut(at)) {
        (sampling.user_ns, sampling.before_ns) = (sampling.user_ns(), None);
    }
    state.read(.., true);
    number != 0
}

/// Opens the rings of new threads, and reads all rings. `has_ended` is whether a thread may have ended since the last
/// round. `None` after sampling has stopped.
pub(crate) fn round(has_ended: bool) -> Option<Round> {
    let mut state = lock()?;
    let has_new_threads = state.open(has_ended)?;
    let rings = state.read(.., false);
    Some(Round { rings, has_new_threads })
}

/// Reads the rings of the entries with these numbers.
pub(crate) fn collect(numbers: impl RangeBounds<u64>) {
    if let Some(mut state) = lock() {
        state.read(numbers, true);
    }
}

impl State {
    /// Opens the rings of threads that have none. Returns whether there were any; `None` if the program is not sampled.
    fn open(&mut self, has_ended: bool) -> Option<bool> {
        let mut registry = threads::lock()?;
        let active = registry.active;
        if has_ended {
            registry.entries.values_mut().for_each(Entry::update);
        }
        let has_none = |entry: &Entry| entry.ring.is_none() && !entry.is_refused && !entry.has_ended;
        let waits = |entry: &Entry| entry.sampling == active && has_none(entry);
        let waiting = registry.entries.iter().filter(|(_, entry)| waits(entry));
        let waiting: Vec<(u64, u32)> = waiting.map(|(&number, entry)| (number, entry.thread)).collect();
        let mut room = descriptors::limit() / 2;
        let open = registry.entries.values().filter(|entry| !entry.is_closed);
        let rings = open.filter_map(|entry| entry.ring.as_ref());
        room = room.saturating_sub(rings.map(|events| events.descriptors()).sum());
        drop(registry);
        let sampling = usize::from(active).checked_sub(1).and_then(|at| self.samplings.get_mut(at))?;
        let fresh = self.tasks.new_threads(|| threads::of_sampling(active), has_ended, &mut sampling.refused);
        self.is_blind |= self.tasks.is_blind;
        let has_new_threads = !waiting.is_empty() || !fresh.is_empty();
        let fresh = fresh.into_iter().map(|thread| (None, thread));
        for (number, thread) in waiting.into_iter().map(|(number, thread)| (Some(number), thread)).chain(fresh) {
            match sampling.open(thread, &mut room) {
                Ok(events) => start_ring(active, number, thread, events),
                Err(why) => {
                    if let (Some(number), Some(mut registry)) = (number, threads::lock())
                        && let Some(entry) = registry.entries.get_mut(&number)
                    {
                        (entry.is_refused, entry.has_ended) = (why.is_some(), entry.has_ended || why.is_none());
                    }
                    self.tasks.left_out.insert(thread);
                    let Some(why) = why else { continue };
                    sampling.refuse(thread, why);
                }
            }
        }
        Some(has_new_threads)
    }

    /// Reads the rings of the entries with these numbers, and returns those to wait for. `is_complete` is as in
    /// [`Rest::read`].
    fn read(&mut self, numbers: impl RangeBounds<u64>, is_complete: bool) -> Vec<Shared<Ring>> {
        let Some(registry) = threads::lock() else { return Vec::new() };
        let active = registry.active;
        let entries: Vec<(u64, Entry)> =
            registry.entries.range(numbers).map(|(&number, entry)| (number, entry.clone())).collect();
        drop(registry);
        // Before the heads are read: these rings get no more samples.
        let is_over = |(_, entry): &(u64, Entry)| entry.has_ended && (entry.sampling != active || entry.has_left());
        let over: Vec<bool> = entries.iter().map(is_over).collect();
        for (number, entry) in &entries {
            if let Some(events) = &entry.ring {
                let rest = self.rests.entry(*number).or_insert_with(|| Rest::new(entry.thread, events));
                rest.prepare(*number, entry.thread, events);
            }
        }
        let head = |entry: &Entry| entry.ring.as_ref().map_or(0, |events| events.ring.head());
        let heads: Vec<u64> = self.code.update(|| entries.iter().map(|(_, entry)| head(entry)).collect());
        let mut rings = Vec::new();
        for (((number, entry), head), is_over) in entries.into_iter().zip(heads).zip(over) {
            let sampling = usize::from(entry.sampling).checked_sub(1).and_then(|at| self.samplings.get_mut(at));
            let Some(sampling) = sampling else { continue };
            if let (Some(events), Some(rest)) = (&entry.ring, self.rests.get_mut(&number)) {
                let read = (&entry, &**events, head);
                let read = rest.read(number, read, &mut self.code, &mut sampling.totals, is_complete);
                if let Err(why) = read
                    && !entry.has_ended
                    && events.ring.id().is_ok()
                {
                    rest.errors += 1;
                    // A pinned event that did not fit the PMU gets no samples until it is started again.
                    let is_first = entry.sampling == active && rest.errors == 1;
                    if is_first {
                        _ = events.ring.enable();
                    }
                    if !is_first || events.ring.counts().is_err() {
                        sampling.refuse(entry.thread, why.to_string());
                    }
                }
                if !is_over && !entry.is_closed {
                    rings.push(Shared::clone(&events.ring));
                }
            }
            if is_over {
                self.rests.remove(&number);
                if let Some(mut registry) = threads::lock() {
                    registry.entries.remove(&number);
                }
                // The kernel lists a thread for a moment after it has ended, and a main thread as long as the process.
                if !entry.is_closed {
                    self.tasks.left_out.insert(entry.thread);
                }
                let is_refused = || sampling.refused.contains(&entry.thread);
                sampling.too_short += u64::from(entry.ring.is_none() && !is_refused());
            }
        }
        rings
    }
}

impl Sampling {
    /// Opens the thread's ring. `room` is the number of descriptors that may still be opened. The error is why there is
    /// no ring; `None` if the thread has ended.
    fn open(&mut self, thread: u32, room: &mut usize) -> Result<Events, Option<String>> {
        const NO_ROOM: &str = "samples take half of the process's file descriptors; raise `ulimit -n`";
        counter_access::check().map_err(|why| Some(why.into()))?;
        let why = |error: Error| (error.errno_name() != Some("ESRCH")).then(|| error.to_string());
        // First, because a thread that has ended needs no room.
        let events = self.samplers.open(Some(thread)).map_err(why)?;
        *room = room.checked_sub(events.descriptors()).ok_or_else(|| Some(NO_ROOM.into()))?;
        Ok(events)
    }

    fn refuse(&mut self, thread: u32, why: String) {
        self.threads_without += u64::from(self.refused.insert(thread));
        self.why_refused.get_or_insert(why);
    }
}

/// Starts a ring: that of an entry, or of a thread that has called no mark.
fn start_ring(active: u8, number: Option<u64>, thread: u32, events: Events) {
    let Some(mut registry) = threads::lock() else { return };
    let events = Shared::new(events);
    let entry = match number {
        Some(number) => registry.entries.get_mut(&number),
        // Perhaps it has called one meanwhile.
        None => registry.entries.values_mut().find(|entry| (entry.sampling, entry.thread) == (active, thread)),
    };
    match entry {
        Some(entry) if entry.ring.is_none() && !entry.has_ended => {
            if let Some(notes) = &entry.notes {
                notes.set_ring(&events.ring, events.samples);
            }
            entry.ring = Some(Shared::clone(&events));
        }
        None if number.is_none() => {
            let ring = Some(Shared::clone(&events));
            let has_older_calls = has_open_calls(thread);
            registry.add(Entry { sampling: active, thread, ring, has_older_calls, ..Entry::default() });
        }
        // The thread has ended, or has a ring.
        _ => return,
    }
    if registry.active == active {
        // If the thread has ended, there is nothing to sample.
        _ = events.ring.enable();
    }
}
