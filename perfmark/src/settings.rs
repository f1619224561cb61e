//! What marks are told to do, as the filter has it: from the environment, or while the program runs.
#![allow(unsafe_code, reason = "lists of leaked boxes")]

use std::iter;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Mutex, PoisonError};

use crate::config;
use crate::events::What;
use crate::filter::{Filter, Settings};
use crate::mark::{self, Mark};
use crate::per_process::PerProcess;

/// A filter that was in force once. It is kept, for threads that still look at it, and for the next time that it is set.
#[derive(Debug)]
struct Known {
    filter: Filter,
    next: *const Self,
}

/// What a mark is told to record instead of what it says itself. It has a place of its own in threads' tables, so that each thread meets it as it meets a
/// mark that is new; and calls that go on meanwhile end as they began.
#[derive(Debug)]
pub(crate) struct Variant {
    mark: &'static Mark,
    pub(crate) place: u32,
    settings: Settings,
    next: *const Self,
}

/// In force; none leaves marks as they are written.
static FILTER: AtomicPtr<Known> = AtomicPtr::new(ptr::null_mut());
/// All that ever were.
static FILTERS: AtomicPtr<Known> = AtomicPtr::new(ptr::null_mut());
static VARIANTS: AtomicPtr<Variant> = AtomicPtr::new(ptr::null_mut());
/// Marks that were to record something else, and no place was left.
static REFUSED: AtomicU64 = AtomicU64::new(0);

fn filters() -> impl Iterator<Item = &'static Known> {
    // SAFETY: null, or leaked by `set`.
    let deref = |known: *const Known| unsafe { known.as_ref::<'static>() };
    iter::successors(deref(FILTERS.load(SeqCst)), move |known| deref(known.next))
}

fn variants() -> impl Iterator<Item = &'static Variant> {
    // SAFETY: null, or leaked by `variant`.
    let deref = |variant: *const Variant| unsafe { variant.as_ref::<'static>() };
    iter::successors(deref(VARIANTS.load(SeqCst)), move |variant| deref(variant.next))
}

/// The filter in force.
pub(crate) fn filter() -> Option<&'static Filter> {
    // SAFETY: null, or leaked by `set`.
    unsafe { FILTER.load(SeqCst).as_ref::<'static>() }.map(|known| &known.filter)
}

/// Puts a filter in force, also for marks that were called before.
pub(crate) fn set(filter: &Filter) {
    static SETTING: PerProcess<Mutex<()>> = PerProcess::new();
    // Without memory that a fork wipes nothing is recorded.
    let Ok(setting) = SETTING.get() else { return };
    let _one_at_a_time = setting.lock().unwrap_or_else(PoisonError::into_inner);
    let known = filters().find(|known| known.filter == *filter).map(ptr::from_ref);
    let known = known.unwrap_or_else(|| {
        let known = Box::into_raw(Box::new(Known { filter: filter.clone(), next: FILTERS.load(SeqCst) }));
        // Nobody else adds one.
        FILTERS.store(known, SeqCst);
        known
    });
    FILTER.store(if filter.is_empty() { ptr::null_mut() } else { known.cast_mut() }, SeqCst);
    mark::called().for_each(apply);
}

/// Lets the mark do what the filter says: at its first call on each thread, and when another filter is set. Not at the first of all threads alone: that one
/// may be before the mark is listed, where who sets a filter does not find it.
pub(crate) fn apply(mark: &'static Mark) {
    loop {
        let known = FILTER.load(SeqCst);
        // SAFETY: null, or leaked by `set`.
        let filter = unsafe { known.as_ref::<'static>() }.map(|known| &known.filter);
        mark.set_place(place(mark, filter));
        // Else whoever set another one may have been here before.
        if FILTER.load(SeqCst) == known {
            return;
        }
    }
}

/// Where the mark's calls find their plans. None if they are to do nothing.
fn place(mark: &'static Mark, filter: Option<&Filter>) -> Option<u32> {
    let settings = by(filter, mark);
    if settings.is_on == Some(false) {
        return None;
    }
    if settings.every.is_none() && settings.events.is_none() {
        return Some(mark.own_place());
    }
    let place = variant(mark, settings);
    if place.is_none() {
        REFUSED.fetch_add(1, Relaxed);
    }
    Some(place.unwrap_or_else(|| mark.own_place()))
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
    let known = |settings: &Settings| {
        let is_it = |variant: &&Variant| {
            ptr::eq(variant.mark, mark)
                && (variant.settings.every, &variant.settings.events) == (settings.every, &settings.events)
        };
        variants().find(is_it).map(|variant| variant.place)
    };
    if let Some(place) = known(&settings) {
        return Some(place);
    }
    let place = mark::new_place()?;
    let mut fresh = Box::new(Variant { mark, place, settings, next: ptr::null() });
    loop {
        let head = VARIANTS.load(SeqCst);
        if let Some(place) = known(&fresh.settings) {
            return Some(place);
        }
        fresh.next = head;
        let raw = Box::into_raw(fresh);
        match VARIANTS.compare_exchange(head, raw, SeqCst, SeqCst) {
            Ok(_) => return Some(place),
            // SAFETY: made above, and not in the list.
            Err(_) => fresh = unsafe { Box::from_raw(raw) },
        }
    }
}

/// What the mark records at its place, if that is not what it says itself.
pub(crate) fn of_place(mark: &Mark, place: u32) -> Option<&'static Variant> {
    if place == mark.own_place() { None } else { variants().find(|variant| variant.place == place) }
}

impl Variant {
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
    let paths: Vec<String> = filter().map_or_else(Vec::new, |_| mark::all().into_iter().map(Mark::target).collect());
    let unmatched = filter().into_iter().flat_map(|filter| filter.unmatched(&paths));
    let unmatched = unmatched.map(|pattern| format!("the filter's `{pattern}` matches no mark"));
    let refused = REFUSED.load(Relaxed);
    let why = format!(
        "{refused} times a mark was to record something else, and went on as before: only {} can be told apart",
        mark::PLACES - 1
    );
    unmatched.chain((refused > 0).then_some(why)).collect()
}
