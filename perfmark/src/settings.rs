//! The settings that the filter gives to marks, from the environment or while the program runs.
#![allow(unsafe_code, reason = "pointers to leaked boxes")]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::sync::{Mutex, PoisonError};

use crate::config;
use crate::events::EventSpec;
use crate::filter::{Filter, SetFilterError, Settings};
use crate::linked;
use crate::mark::{self, Mark};
use crate::per_process::PerProcess;

/// Settings that the filter gives to a mark instead of the mark's own. Each variant has its own slot in threads'
/// tables, so each thread treats it as a new mark, and calls in flight finish under their old settings.
#[derive(Debug)]
pub(crate) struct Variant {
    mark: &'static Mark,
    pub(crate) slot: u32,
    settings: Settings,
}

/// Not the standard library's default, which requests random numbers from the kernel and panics if there are none.
type Hasher = BuildHasherDefault<DefaultHasher>;

/// The filter in force; null leaves marks as they are written.
static FILTER: AtomicPtr<Filter> = AtomicPtr::new(ptr::null_mut());
/// All filters that were set in this process. They are kept for threads that still read one, and for the next time that
/// one is set.
static FILTERS: PerProcess<Mutex<HashSet<&'static Filter, Hasher>>> = PerProcess::new();
/// The most slots for variants.
const MOST: usize = mark::SLOTS / 2;
/// The variants, by their slots.
static VARIANTS: [AtomicPtr<Variant>; mark::SLOTS] = [const { AtomicPtr::new(ptr::null_mut()) }; mark::SLOTS];
/// The slots of the variants.
static KNOWN: PerProcess<Mutex<Known>> = PerProcess::new();
/// How often a mark could not be given new settings because no slot was left.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// The slots of variants, by their marks' addresses and settings.
struct Known(HashMap<(usize, Settings), u32, Hasher>);

impl Default for Known {
    /// A forked child keeps its parent's variants and its marks' slots.
    fn default() -> Self {
        Self(VARIANTS.iter().filter_map(variant_at).map(|known| (known.key(), known.slot)).collect())
    }
}

fn variant_at(slot: &AtomicPtr<Variant>) -> Option<&'static Variant> {
    // SAFETY: null, or leaked by `variant`.
    unsafe { slot.load(SeqCst).as_ref::<'static>() }
}

/// The filter in force.
pub(crate) fn filter() -> Option<&'static Filter> {
    // SAFETY: null, or leaked by `set`.
    unsafe { FILTER.load(SeqCst).as_ref::<'static>() }
}

/// Puts a filter in force, also for marks that were called before.
///
/// # Errors
///
/// Some marks could not be given its settings, and record as before.
pub(crate) fn set(filter: &Filter) -> Result<(), SetFilterError> {
    // Without memory that a fork wipes nothing is recorded.
    let Ok(filters) = FILTERS.get() else { return Err(SetFilterError::of_all(NO_MEMORY)) };
    let mut one_at_a_time = filters.lock().unwrap_or_else(PoisonError::into_inner);
    let known = one_at_a_time.get(filter).copied().unwrap_or_else(|| {
        let known: &Filter = Box::leak(Box::new(filter.clone()));
        one_at_a_time.insert(known);
        known
    });
    FILTER.store(if filter.is_empty() { ptr::null_mut() } else { ptr::from_ref(known).cast_mut() }, SeqCst);
    match mark::called().filter(|&mark| apply(mark) == Applied::Refused).count() {
        0 => Ok(()),
        marks => Err(SetFilterError::new(marks, format!("all {MOST} slots for settings are in use; {USE_FEWER}"))),
    }
}

const NO_MEMORY: &str = "the kernel has no memory that a fork wipes (MADV_WIPEONFORK, Linux 4.14)";
const USE_FEWER: &str = "reuse settings that marks had before, which take no new slot";

impl SetFilterError {
    /// No mark was given the filter's settings.
    pub(crate) fn of_all(why: &str) -> Self {
        Self::new(mark::called().count(), why.into())
    }
}

/// The result of applying a filter to a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Done,
    /// No slot is left: the mark records as before.
    Refused,
}

/// Applies the filter to the mark: at the mark's first call on each thread, and when another filter is set. The first
/// call on the first thread alone would not be enough: it may come before the mark is listed, where `set` cannot find
/// it.
pub(crate) fn apply(mark: &'static Mark) -> Applied {
    loop {
        // Recording that has ended stays off: whoever ends it switches the mark off after this, or this sees it.
        if config::is_off() {
            mark.switch_off();
            return Applied::Done;
        }
        let known = filter();
        let slot = slot(mark, known);
        match slot {
            Slot::Off => mark.set_slot(None),
            Slot::At(slot) => mark.set_slot(Some(slot)),
            // At its first call the mark has no slot yet, and records under its own settings.
            Slot::Refused if mark.slot() == 0 => mark.set_slot(Some(mark.own_slot())),
            Slot::Refused => {}
        }
        let applied = if slot == Slot::Refused { Applied::Refused } else { Applied::Done };
        // Otherwise another filter was set meanwhile, and may have been applied before this one.
        if FILTER.load(SeqCst).cast_const() == known.map_or(ptr::null(), ptr::from_ref) && !config::is_off() {
            return applied;
        }
    }
}

/// The slot in which the mark's calls find their plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// None: calls do nothing.
    Off,
    At(u32),
    /// No slot is left: the mark keeps the one that it has.
    Refused,
}

fn slot(mark: &'static Mark, filter: Option<&Filter>) -> Slot {
    let settings = by(filter, mark);
    if settings.is_on == Some(false) {
        return Slot::Off;
    }
    if settings.every.is_none() && settings.events.is_none() {
        return Slot::At(mark.own_slot());
    }
    let slot = variant(mark, settings);
    if slot.is_none() {
        REFUSED.fetch_add(1, Relaxed);
    }
    slot.map_or(Slot::Refused, Slot::At)
}

/// The settings that the filter in force gives to the mark.
pub(crate) fn of(mark: &Mark) -> Settings {
    by(filter(), mark)
}

fn by(filter: Option<&Filter>, mark: &Mark) -> Settings {
    filter.map_or_else(Settings::default, |filter| filter.settings(&mark.target()))
}

/// The slot of the mark with these settings, a new one if there is none. `None` if no slot is left.
fn variant(mark: &'static Mark, settings: Settings) -> Option<u32> {
    // Marks called by a thread that holds the lock, as in its allocator, do nothing.
    let mut known = KNOWN.get().ok()?.lock().unwrap_or_else(PoisonError::into_inner);
    let settings = Settings { is_on: None, ..settings };
    let fresh = Variant { mark, slot: 0, settings };
    if let Some(&slot) = known.0.get(&fresh.key()) {
        return Some(slot);
    }
    // The other slots are for marks that are called later: without a slot, each call searches for its plan.
    if known.0.len() >= MOST {
        return None;
    }
    let slot = mark::new_slot()?;
    let variant = Box::leak(Box::new(Variant { slot, ..fresh }));
    VARIANTS[slot as usize].store(variant, SeqCst);
    known.0.insert(variant.key(), slot);
    Some(slot)
}

/// The variant in this slot, if the slot is not a mark's own.
pub(crate) fn of_slot(slot: u64) -> Option<&'static Variant> {
    VARIANTS.get(mark::last_slot(slot) as usize).and_then(variant_at)
}

impl Variant {
    fn key(&self) -> (usize, Settings) {
        (ptr::from_ref(self.mark).addr(), self.settings.clone())
    }

    fn events(&'static self) -> Option<Vec<EventSpec>> {
        Some(self.settings.events.as_ref()?.iter().map(|name| EventSpec::parse(name)).collect())
    }
}

/// The events that a mark records, in the order in which they are named.
pub(crate) fn events_of(mark: &Mark, variant: Option<&'static Variant>) -> Vec<EventSpec> {
    variant.and_then(Variant::events).unwrap_or_else(|| config::events_of(mark))
}

/// The mark's `every` in force: one call in so many is measured.
pub(crate) fn every(mark: &Mark, variant: Option<&Variant>) -> u32 {
    variant.and_then(|variant| variant.settings.every).unwrap_or_else(|| config::every(mark))
}

/// Notes for the report: patterns that match no mark, and marks that could not be given new settings.
pub(crate) fn notes() -> Vec<String> {
    let paths: Vec<String> = filter().map_or_else(Vec::new, |_| linked::all().into_iter().map(Mark::target).collect());
    let unmatched = filter().into_iter().flat_map(|filter| filter.unmatched(&paths));
    let unmatched = unmatched.map(|pattern| format!("the filter's `{pattern}` matches no mark"));
    let refused = REFUSED.load(Relaxed);
    let why = format!(
        "{refused} times a mark kept its former settings, because all {MOST} slots for settings are in use; {USE_FEWER}"
    );
    unmatched.chain((refused > 0).then_some(why)).collect()
}
