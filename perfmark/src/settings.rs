//! What marks are told to do, as the filter has it: from the environment, or while the program runs.
#![allow(unsafe_code, reason = "pointers to leaked boxes")]

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::sync::{Mutex, PoisonError};

use crate::config;
use crate::events::What;
use crate::filter::{Filter, SetFilterError, Settings};
use crate::linked;
use crate::mark::{self, Mark};
use crate::per_process::PerProcess;

/// What a mark is told to record instead of what it says itself. It has a place of its own in threads' tables, so that each thread meets it as it meets a
/// mark that is new; and calls that go on meanwhile end as they began.
#[derive(Debug)]
pub(crate) struct Variant {
    mark: &'static Mark,
    pub(crate) slot: u32,
    settings: Settings,
}

/// Not the standard library's own, which asks the kernel for random numbers, and panics where there are none.
type Hasher = BuildHasherDefault<DefaultHasher>;

/// In force; none leaves marks as they are written.
static FILTER: AtomicPtr<Filter> = AtomicPtr::new(ptr::null_mut());
/// All that were set in this process: kept, for threads that still look at one, and for the next time that it is set.
static FILTERS: PerProcess<Mutex<HashSet<&'static Filter, Hasher>>> = PerProcess::new();
/// Settings of marks that can be told apart.
const MOST: usize = mark::SLOTS / 2;
/// By their places.
static VARIANTS: [AtomicPtr<Variant>; mark::SLOTS] = [const { AtomicPtr::new(ptr::null_mut()) }; mark::SLOTS];
/// Where they are.
static KNOWN: PerProcess<Mutex<Known>> = PerProcess::new();
/// How often a mark was to be given settings, and no slot was left.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// The places of variants, by their marks' addresses and what they record.
struct Known(HashMap<(usize, Settings), u32, Hasher>);

impl Default for Known {
    /// A forked child has its parent's variants, as it has its marks' places.
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
/// Marks that could not be given its settings, and record as before.
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
        marks => Err(SetFilterError::new(marks, format!("all {MOST} slots for settings are taken; {USE_FEWER}"))),
    }
}

const NO_MEMORY: &str = "the kernel gives no memory that a fork wipes (linux 4.14 has it)";
const USE_FEWER: &str = "settings that marks had before need none: use these";

impl SetFilterError {
    /// No mark was given its settings.
    pub(crate) fn of_all(why: &str) -> Self {
        Self::new(mark::called().count(), why.into())
    }
}

/// What became of a filter's settings for a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    Done,
    /// No slot is left: the mark records as before.
    Refused,
}

/// Lets the mark do what the filter says: at its first call on each thread, and when another filter is set. Not at the first of all threads alone: that one
/// may be before the mark is listed, where who sets a filter does not find it.
pub(crate) fn apply(mark: &'static Mark) -> Applied {
    loop {
        // Recording that has ended stays so: whoever ends it switches the mark off after this, or this sees it.
        if config::is_off() {
            mark.switch_off();
            return Applied::Done;
        }
        let known = filter();
        let slot = slot(mark, known);
        match slot {
            Slot::Off => mark.set_slot(None),
            Slot::At(slot) => mark.set_slot(Some(slot)),
            // At its first call it has none, and records what it says itself.
            Slot::Refused if mark.slot() == 0 => mark.set_slot(Some(mark.own_slot())),
            Slot::Refused => {}
        }
        let applied = if slot == Slot::Refused { Applied::Refused } else { Applied::Done };
        // Else whoever set another one may have been here before.
        if FILTER.load(SeqCst).cast_const() == known.map_or(ptr::null(), ptr::from_ref) && !config::is_off() {
            return applied;
        }
    }
}

/// Where the mark's calls are to find their plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// They do nothing.
    Off,
    At(u32),
    /// No slot is left: where they find them now.
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

/// What the filter says of the mark.
pub(crate) fn of(mark: &Mark) -> Settings {
    by(filter(), mark)
}

fn by(filter: Option<&Filter>, mark: &Mark) -> Settings {
    filter.map_or_else(Settings::default, |filter| filter.settings(&mark.target()))
}

/// The place of the mark with these settings: a new one if there is none. None if none is left.
fn variant(mark: &'static Mark, settings: Settings) -> Option<u32> {
    // Marks met by a thread that holds it, as in its allocator, do nothing.
    let mut known = KNOWN.get().ok()?.lock().unwrap_or_else(PoisonError::into_inner);
    let settings = Settings { is_on: None, ..settings };
    let fresh = Variant { mark, slot: 0, settings };
    if let Some(&slot) = known.0.get(&fresh.key()) {
        return Some(slot);
    }
    // The other places are for marks that are called later: one without has its plan looked for at each call.
    if known.0.len() >= MOST {
        return None;
    }
    let slot = mark::new_slot()?;
    let variant = Box::leak(Box::new(Variant { slot, ..fresh }));
    VARIANTS[slot as usize].store(variant, SeqCst);
    known.0.insert(variant.key(), slot);
    Some(slot)
}

/// What the mark at this place records, if that is not what it says itself.
pub(crate) fn of_slot(slot: u64) -> Option<&'static Variant> {
    VARIANTS.get(mark::last_slot(slot) as usize).and_then(variant_at)
}

impl Variant {
    fn key(&self) -> (usize, Settings) {
        (ptr::from_ref(self.mark).addr(), self.settings.clone())
    }

    fn events(&'static self) -> Option<Vec<What>> {
        Some(self.settings.events.as_ref()?.iter().map(|name| What::parse(name)).collect())
    }
}

/// What a mark is to record, in the order in which that is named.
pub(crate) fn wanted(mark: &Mark, variant: Option<&'static Variant>) -> Vec<What> {
    variant.and_then(Variant::events).unwrap_or_else(|| config::wanted(mark))
}

/// One call of the mark in so many is measured.
pub(crate) fn every(mark: &Mark, variant: Option<&Variant>) -> u32 {
    variant.and_then(|variant| variant.settings.every).unwrap_or_else(|| config::every(mark))
}

/// What a reader of the figures must know: patterns that match no mark, and marks that could not be told.
pub(crate) fn notes() -> Vec<String> {
    let paths: Vec<String> = filter().map_or_else(Vec::new, |_| linked::all().into_iter().map(Mark::target).collect());
    let unmatched = filter().into_iter().flat_map(|filter| filter.unmatched(&paths));
    let unmatched = unmatched.map(|pattern| format!("the filter's `{pattern}` matches no mark"));
    let refused = REFUSED.load(Relaxed);
    let why = format!(
        "{refused} times a mark kept its former settings, as all {MOST} slots for settings are taken; {USE_FEWER}"
    );
    unmatched.chain((refused > 0).then_some(why)).collect()
}
