//! The threads that are sampled, and their rings.
#![allow(unsafe_code, reason = "nodes are found by pointers")]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc as Shared, Mutex, MutexGuard, PoisonError};

use perfmark_rdpmc::sample::{Body, Content, Ring, Sampler};
use perfmark_rdpmc::{Attr, Error, Event, Hardware, Software};

use super::totals::{Addresses, Totals};
use crate::platform::per_process::PerProcess;
use crate::platform::sync::Arc;
use crate::recording::cells::ThreadCells;
use crate::recording::cells::graph::{Graph, Node};
use crate::recording::cells::sampled::SampledThread;
use crate::settings::sampling::{Rate, SampleSettings};

/// Pages of a ring: room for 255 samples.
const PAGES: usize = 1;
/// The bytes after which the ring is read: half of the smallest page.
const WATERMARK: u32 = 2048;

/// Everything about samples in this process. A forked child has none.
#[derive(Debug, Default)]
struct Samples(Mutex<State>);

static SAMPLES: PerProcess<Samples> = PerProcess::new();
/// Whether there ever was a sampling. If not, nothing allocates memory for it.
static WAS_SAMPLED: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Default)]
struct State {
    /// The settings of each sampling until now, by their number less 1.
    known: Vec<(SampleSettings, Sampler)>,
    /// The number of the sampling that goes on; 0 for none.
    active: u8,
    /// By the kernel's number of the thread.
    threads: HashMap<u32, Thread, BuildHasherDefault<DefaultHasher>>,
    totals: Totals,
    refused: Refused,
}

/// Threads that have no ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused {
    pub(crate) threads: u64,
    pub(crate) why: Option<String>,
}

/// A thread with a ring.
#[derive(Debug)]
struct Thread {
    /// The number of its sampling.
    sampling: u8,
    ring: Shared<Ring>,
    /// If the thread calls marks.
    notes: Option<Arc<SampledThread>>,
    /// Samples since the last note. They all belong to the same call.
    rest: Addresses,
}

/// `None` if there never was a sampling.
fn lock() -> Option<MutexGuard<'static, State>> {
    if !WAS_SAMPLED.load(Relaxed) {
        return None;
    }
    Some(SAMPLES.get().ok()?.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The event that is sampled, opened once to see whether it can be.
fn sampler(settings: &SampleSettings) -> Result<Sampler, Error> {
    let of = |attr: Attr| {
        let sampler = match settings.rate {
            Rate::Frequency(samples) => Sampler::new(attr).frequency(samples),
            Rate::Period(events) => Sampler::new(attr).period(events),
        };
        let sampler = sampler.content(Content::IP).pages(PAGES);
        sampler.wakeup_watermark(WATERMARK)
    };
    if let Some(event) = &settings.event {
        let sampler = of(Attr::new(event.clone()));
        return sampler.open().map(|_| sampler);
    }
    // Pinned, so that it is counted all the time.
    let cycles = of(Attr::new(Hardware::Cycles).pinned(true));
    if cycles.open().is_ok() {
        return Ok(cycles);
    }
    let cpu_time = of(Attr::new(Software::CpuClock));
    cpu_time.open().map(|_| cpu_time)
}

/// Begins to sample. Returns the number of the sampling.
pub(crate) fn enable(settings: &SampleSettings) -> Result<u8, String> {
    WAS_SAMPLED.store(true, Relaxed);
    let mut state = lock().ok_or("perfmark cannot map memory with MADV_WIPEONFORK, which requires Linux 4.14")?;
    if state.active != 0 {
        return Err("the program is being sampled already; stop that first".into());
    }
    let known = state.known.iter().position(|(known, _)| known == settings);
    let number = if let Some(index) = known {
        index
    } else {
        let sampler = sampler(settings).map_err(|error| error.to_string())?;
        state.known.push((settings.clone(), sampler));
        state.known.len() - 1
    };
    let number = u8::try_from(number + 1).map_err(|_| "255 different samplings were started; use one of them again")?;
    state.active = number;
    for thread in state.threads.values().filter(|thread| thread.sampling == number) {
        // If the thread has ended, there is nothing to sample.
        _ = thread.ring.enable();
    }
    Ok(number)
}

/// Stops sampling.
pub(crate) fn disable() {
    let Some(mut state) = lock() else { return };
    for thread in state.threads.values().filter(|thread| thread.sampling == state.active) {
        _ = thread.ring.disable();
    }
    state.active = 0;
}

/// Samples the calling thread, which calls a mark: opens its ring, unless it has one. `None` if that fails.
pub(crate) fn attach(sampling: u8, cells: &Arc<ThreadCells>) -> Option<Arc<SampledThread>> {
    let mut state = lock()?;
    let State { known, threads, refused, active, .. } = &mut *state;
    let (_, sampler) = known.get(usize::from(sampling).checked_sub(1)?)?;
    let ring = match sampler.open() {
        Ok(ring) => Shared::new(ring),
        Err(error) => {
            refused.threads += 1;
            refused.why.get_or_insert_with(|| error.reason().to_owned());
            return None;
        }
    };
    if *active != sampling {
        _ = ring.disable();
    }
    // The thread's call graph has the paths of marks, if it is recorded.
    let paths = if cells.graph.is_some() { None } else { Some(Graph::new().ok()?) };
    let notes = Arc::new(SampledThread::new(Shared::clone(&ring), paths, Arc::clone(cells))?);
    let thread = Thread { sampling, ring, notes: Some(Arc::clone(&notes)), rest: Addresses::default() };
    if let Some(mut before) = threads.insert(cells.owner.id, thread) {
        before.drain(&mut state.totals);
        before.finish(&mut state.totals);
    }
    Some(notes)
}

/// Reads the rings of all threads, and returns them.
pub(crate) fn collect() -> Vec<Shared<Ring>> {
    let Some(mut state) = lock() else { return Vec::new() };
    let State { threads, totals, .. } = &mut *state;
    for thread in threads.values_mut() {
        thread.drain(totals);
    }
    threads.values().map(|thread| Shared::clone(&thread.ring)).collect()
}

/// All samples until the last [`collect`].
pub(crate) struct Counts {
    pub(crate) event: Event,
    pub(crate) rate: Rate,
    pub(crate) totals: Totals,
    /// The number of samples in calls that are still open.
    pub(crate) open: u64,
    pub(crate) refused: Refused,
}

/// `None` if there never was a sampling.
pub(crate) fn counts() -> Option<Counts> {
    let state = lock()?;
    let (settings, sampler) = state.known.last()?;
    Some(Counts {
        event: sampler.event().clone(),
        rate: settings.rate,
        totals: state.totals.clone(),
        open: state.threads.values().flat_map(|thread| thread.rest.values()).sum(),
        refused: state.refused.clone(),
    })
}

/// Reads the ring of a thread that ends, and closes it.
pub(crate) fn detach(notes: &Arc<SampledThread>, cells: &ThreadCells) {
    let Some(mut state) = lock() else { return };
    let is_this = |thread: &Thread| thread.notes.as_ref().is_some_and(|known| Arc::ptr_eq(known, notes));
    if state.threads.get(&cells.owner.id).is_some_and(is_this)
        && let Some(mut thread) = state.threads.remove(&cells.owner.id)
    {
        thread.drain(&mut state.totals);
        thread.finish(&mut state.totals);
    }
}

impl Thread {
    /// Reads the ring and the notes.
    fn drain(&mut self, totals: &mut Totals) {
        // First the head: the notes about all samples before it are then written, except about those of the innermost
        // call. The thread writes notes before the next sample.
        let head = self.ring.head();
        let notes: Vec<_> = self.notes.iter().flat_map(|notes| notes.read_notes()).collect();
        let Ok(mut reader) = self.ring.reader() else { return };
        let mut read_until = |end: u64, rest: &mut Addresses, totals: &mut Totals| {
            while reader.position().wrapping_sub(end).cast_signed() < 0
                && let Some(record) = reader.read()
            {
                match record.body {
                    Body::Sample(sample) => *rest.entry(sample.ip.unwrap_or(0)).or_default() += 1,
                    Body::Lost { lost, .. } | Body::LostSamples { lost } => totals.lost += lost,
                    Body::Throttle(_) => totals.throttled += 1,
                    _ => {}
                }
            }
        };
        for note in notes {
            read_until(note.position, &mut self.rest, totals);
            // SAFETY: `notes` keeps the cells of the thread.
            unsafe { totals.add(std::mem::take(&mut self.rest), note.node) };
        }
        read_until(head, &mut self.rest, totals);
    }

    /// Adds the last samples of a thread that has ended: outside of all marks.
    fn finish(&mut self, totals: &mut Totals) {
        // SAFETY: a null pointer.
        unsafe { totals.add(std::mem::take(&mut self.rest), std::ptr::null::<Node>()) };
    }
}
