//! Opens the rings of all threads, and reads them with the notes of their calls.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
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
use crate::recording::start;
use crate::settings::counter_access;
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
    /// The threads that could have no ring, and why the first one has none.
    pub(super) refused: BTreeSet<u32>,
    pub(super) why_refused: Option<String>,
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
    pub(crate) new_threads: NewThreads,
}

/// The threads that a round has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewThreads {
    None,
    /// They began before sampling, or called marks and woke the collector.
    Expected,
    /// Some began since and called no mark. Others may follow, and nothing announces them.
    Unannounced,
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
    let Some(state) = lock() else { return Vec::new() };
    let forked =
        "this process was forked from one that was sampled, and is not sampled itself; start a `Sampling` in it";
    let blind = "threads that call no marks were not sampled, because /proc/self/task does not list them; mount /proc";
    let is_forked = state.samplings.is_empty() && start::is_forked_child();
    let notes = [(is_forked, forked), (state.is_blind, blind)];
    let without_callers =
        state.samplings.iter().flat_map(|sampling| &sampling.totals).map(|totals| totals.without_callers);
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

pub(crate) const NO_MEMORY: &str = "perfmark cannot map memory with MADV_WIPEONFORK, which requires Linux 4.14";

/// The events that can be sampled, and why the others cannot.
pub(crate) fn available(settings: &SampleSettings) -> (SampleSettings, Vec<Error>) {
    let (mut available, mut why) = (settings.clone(), Vec::new());
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
        let samplers = Samplers::new(settings).map_err(|error| error.to_string())?;
        let totals = settings.events.iter().map(|_| Totals::default()).collect();
        let settings = settings.clone();
        let refused = BTreeSet::new();
        let sampling = Sampling { settings, samplers, totals, refused, why_refused: None, user_ns: 0, before_ns: None };
        state.samplings.push(sampling);
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
    state.read(true);
    number != 0
}

/// Opens the rings of new threads, and reads all rings. `was_ready` is whether a ring was ready, perhaps because its
/// thread has ended. `None` after sampling has stopped.
pub(crate) fn round(was_ready: bool) -> Option<Round> {
    let mut state = lock()?;
    let new_threads = state.open(was_ready)?;
    let rings = state.read(false);
    Some(Round { rings, new_threads })
}

/// Reads all rings.
pub(crate) fn collect() {
    if let Some(mut state) = lock() {
        state.read(true);
    }
}

impl State {
    /// Opens the rings of threads that have none. `None` if the program is not sampled.
    fn open(&mut self, was_ready: bool) -> Option<NewThreads> {
        let mut registry = threads::lock()?;
        let active = registry.active;
        if was_ready {
            registry.entries.values_mut().for_each(|entry| entry.has_ended = entry.has_ended());
        }
        // The number of a thread that has left may be another one's by now.
        let going_on = registry.entries.values().filter(|entry| entry.sampling == active && !entry.has_left());
        let known: BTreeSet<u32> = going_on.map(|entry| entry.thread).collect();
        let waits = |entry: &Entry| entry.sampling == active && entry.ring.is_none() && !entry.is_refused;
        let waiting = registry.entries.iter().filter(|(_, entry)| waits(entry));
        let waiting: Vec<(u64, u32)> = waiting.map(|(&number, entry)| (number, entry.thread)).collect();
        let mut room = descriptors::limit() / 2;
        let rings = registry.entries.values().filter_map(|entry| entry.ring.as_ref());
        room = room.saturating_sub(rings.map(|events| events.descriptors()).sum());
        drop(registry);
        let sampling = usize::from(active).checked_sub(1).and_then(|at| self.samplings.get_mut(at))?;
        let is_first = self.tasks.are_unknown();
        let fresh = self.tasks.new_threads(&known, was_ready);
        let new_threads = if !fresh.is_empty() && !is_first {
            NewThreads::Unannounced
        } else if fresh.is_empty() && waiting.is_empty() {
            NewThreads::None
        } else {
            NewThreads::Expected
        };
        let fresh = fresh.into_iter().map(|thread| (None, thread));
        self.is_blind |= self.tasks.is_blind;
        for (number, thread) in waiting.into_iter().map(|(number, thread)| (Some(number), thread)).chain(fresh) {
            match sampling.open(thread, &mut room) {
                Ok(events) => start_ring(active, number, thread, events),
                Err(None) => {
                    if let (Some(number), Some(mut registry)) = (number, threads::lock()) {
                        registry.remove_unsampled(number);
                    }
                }
                Err(Some(why)) => {
                    self.tasks.left_out.insert(thread);
                    sampling.refused.insert(thread);
                    sampling.why_refused.get_or_insert(why);
                    if let (Some(number), Some(mut registry)) = (number, threads::lock()) {
                        registry.entries.get_mut(&number).into_iter().for_each(|entry| entry.is_refused = true);
                    }
                }
            }
        }
        Some(new_threads)
    }

    /// Reads the rings of all threads, and returns those of the threads that go on. `is_complete` is as in
    /// [`Rest::read`].
    fn read(&mut self, is_complete: bool) -> Vec<Shared<Ring>> {
        let Some(registry) = threads::lock() else { return Vec::new() };
        let (active, entries) = (registry.active, registry.entries.clone());
        drop(registry);
        // Before the heads are read: rings of threads that have left get no more samples.
        let is_over = |entry: &Entry| entry.has_ended && (entry.sampling != active || entry.has_left());
        let over: BTreeSet<u64> =
            entries.iter().filter(|(_, entry)| is_over(entry)).map(|(&number, _)| number).collect();
        for (number, entry) in &entries {
            if let Some(events) = &entry.ring {
                let rest = self.rests.entry(*number).or_insert_with(|| Rest::new(entry.thread, events));
                rest.prepare(*number, entry.thread, events);
            }
        }
        let head = |entry: &Entry| entry.ring.as_ref().map_or(0, |events| events.ring.head());
        let heads: Vec<u64> = self.code.update(|| entries.values().map(head).collect());
        let mut rings = Vec::new();
        for ((number, entry), head) in entries.into_iter().zip(heads) {
            let sampling = usize::from(entry.sampling).checked_sub(1).and_then(|at| self.samplings.get_mut(at));
            if let (Some(events), Some(sampling), Some(rest)) = (&entry.ring, sampling, self.rests.get_mut(&number)) {
                rest.read(number, (&entry, events, head), &mut self.code, &mut sampling.totals, is_complete);
                if over.contains(&number) {
                    self.rests.remove(&number);
                } else {
                    rings.push(Shared::clone(&events.ring));
                }
            }
            if over.contains(&number)
                && let Some(mut registry) = threads::lock()
            {
                registry.entries.remove(&number);
            }
        }
        rings
    }
}

impl Sampling {
    /// Opens the thread's ring. `room` is the number of rings that may still be opened. The error is why there is no
    /// ring; `None` if the thread has ended.
    fn open(&mut self, thread: u32, room: &mut usize) -> Result<Events, Option<String>> {
        const NO_ROOM: &str = "samples take half of the process's file descriptors; raise `ulimit -n`";
        if *room < self.totals.len() {
            return Err(Some(NO_ROOM.into()));
        }
        counter_access::check().map_err(|why| Some(why.into()))?;
        let why = |error: Error| (error.errno_name() != Some("ESRCH")).then(|| error.to_string());
        let events = self.samplers.open(Some(thread)).map_err(why)?;
        *room = room.saturating_sub(events.descriptors());
        Ok(events)
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
        Some(entry) if entry.ring.is_none() => {
            if let Some(notes) = &entry.notes {
                notes.set_ring(&events.ring, events.samples);
            }
            entry.ring = Some(Shared::clone(&events));
        }
        // The thread has ended, or has a ring.
        Some(_) => return,
        None if number.is_some() => return,
        None => {
            let ring = Some(Shared::clone(&events));
            let has_older_calls = has_open_calls(thread);
            registry.add(Entry { sampling: active, thread, ring, has_older_calls, ..Entry::default() });
        }
    }
    if registry.active == active {
        // If the thread has ended, there is nothing to sample.
        _ = events.ring.enable();
    }
}
