//! The settings of a mark: its own, its crate's, the environment's, and those that filter and budget give it, from the
//! environment or while the program runs.
#![allow(unsafe_code, reason = "pointers to leaked boxes")]

use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard};

use super::definition::{self, CallMode, Mark, Measured};
use super::entry::SLOTS;
use super::{defaults, linked};
use crate::compact::{Collect as _, Map};
use crate::platform::per_process::PerProcess;
use crate::settings::Budget;
use crate::settings::EventSpec;
use crate::settings::filter::{Filter, Settings, SettingsError};
use crate::settings::recording::{DEFAULT_EVENTS, ReadMode, is_off, settings};
use crate::snapshot::names;

/// Settings that the filter and the budget give to a mark instead of the mark's own. Each variant has its own slot in
/// threads' tables, so each thread treats it as a new mark, and calls in flight finish under their old settings, but
/// for async calls that are suspended.
pub(crate) struct Variant {
    mark: &'static Mark,
    pub(crate) slot: u32,
    settings: Settings,
    /// Whether a budget sets which calls are measured.
    is_budgeted: bool,
    /// The number of the sampling that the calls take part in; 0 for none.
    sampling: u8,
}

/// The filter in force; null leaves marks as they are written.
static FILTER: AtomicPtr<Filter> = AtomicPtr::new(ptr::null_mut());
static FILTERS: PerProcess<Mutex<Filters>> = PerProcess::new();
/// The most slots for variants.
const MOST: usize = SLOTS / 2;
/// The variants, by their slots.
static VARIANTS: [AtomicPtr<Variant>; SLOTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS];
/// The slots of the variants.
static KNOWN: PerProcess<Mutex<Known>> = PerProcess::new();
/// Whether a mark could not be given new settings because no slot was left.
static HAS_REFUSED: AtomicBool = AtomicBool::new(false);

/// The slots of variants, by their marks' addresses and settings.
struct Known(Map<Key, u32>);

type Key = (usize, Settings, bool, u8);

impl Default for Known {
    /// A forked child keeps its parent's variants and its marks' slots.
    fn default() -> Self {
        Self(VARIANTS.iter().filter_map(variant_at).map(|known| (known.key(), known.slot)).collect_map())
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

/// The budget of the process in force, as the bits of a percentage; 0 for none.
static BUDGET: AtomicU64 = AtomicU64::new(0);

/// The budget of the process in force.
pub(crate) fn budget() -> Option<Budget> {
    Budget::percent(f64::from_bits(BUDGET.load(SeqCst))).ok()
}

/// Puts a budget in force, also for marks that were called before.
///
/// # Errors
///
/// Some marks could not be given a budget, and record as before.
pub(crate) fn set_budget(budget: Option<Budget>) -> Result<(), SettingsError> {
    let _one_at_a_time = lock()?;
    BUDGET.store(budget.map_or(0, |budget| budget.as_percent().to_bits()), SeqCst);
    apply_to_called()
}

/// The number of the sampling in force; 0 for none.
static SAMPLING: AtomicU8 = AtomicU8::new(0);

/// From now on, calls of all marks take part in the sampling with this number, or in none if it is 0.
///
/// # Errors
///
/// Some marks have no slot for their new settings, and record as before.
#[cfg(feature = "sampling")]
pub(crate) fn set_sampling(number: u8) -> Result<(), SettingsError> {
    let _one_at_a_time = lock()?;
    SAMPLING.store(number, SeqCst);
    apply_to_called()
}

/// The budget of a mark whose calls it can leave out: the process's, or the one of its crate's defaults.
pub(crate) fn budget_of(mark: &Mark) -> Option<Budget> {
    budget().or_else(|| defaults::of(mark)?.budget()).filter(|_| may_leave_out())
}

/// Whether calls may be left out. An emulator's counts are exact, and repeat, because all calls are measured.
fn may_leave_out() -> bool {
    settings().read != ReadMode::Emulated
}

/// Puts a filter in force, also for marks that were called before. It replaces those of sessions.
///
/// # Errors
///
/// Some marks could not be given its settings, and record as before.
pub(crate) fn set(filter: &Filter) -> Result<(), SettingsError> {
    let mut one_at_a_time = lock()?;
    if let Ok(mut sessions) = SESSIONS.try_lock() {
        sessions.clear();
    }
    put_in_force(Some(kept(filter, &mut one_at_a_time)))
}

/// The filters of the sessions that live, with the sessions' numbers, in the order in which they were set. The last one
/// is in force. Before the first one, without a number, is the filter in force without sessions.
///
/// Locked only by a thread that holds the lock of [`FILTERS`], so that it waits for nobody. A forked child keeps its
/// parent's sessions, unless another thread was changing them.
static SESSIONS: Mutex<Vec<(Option<u64>, Option<&'static Filter>)>> = Mutex::new(Vec::new());

/// Sets or removes the filter of the session with that number. The filter set last of those left is in force, or the
/// one before the first.
///
/// # Errors
///
/// As for [`set`].
pub(crate) fn set_in_session(session: u64, filter: Option<&Filter>) -> Result<(), SettingsError> {
    let mut one_at_a_time = lock()?;
    let Ok(mut sessions) = SESSIONS.try_lock() else { return Err(SettingsError::of_all(NO_SESSIONS)) };
    if sessions.is_empty() {
        sessions.push((None, self::filter()));
    }
    sessions.retain(|&(other, _)| other != Some(session));
    sessions.extend(filter.map(|filter| (Some(session), Some(kept(filter, &mut one_at_a_time)))));
    put_in_force(sessions.last().and_then(|&(_, filter)| filter))
}

/// All filters that were set in this process, by their texts. They are kept for threads that still read one, and for
/// the next time that one is set.
type Filters = Map<String, &'static Filter>;

/// Lets no other thread change filter, budget or sampling.
fn lock() -> Result<MutexGuard<'static, Filters>, SettingsError> {
    // Without memory that a fork wipes, nothing is recorded.
    FILTERS.lock().map_err(|_| SettingsError::of_all(NO_MEMORY))
}

/// The filter, which is kept from now on.
fn kept(filter: &Filter, filters: &mut Filters) -> &'static Filter {
    let text = filter.to_string();
    filters.get(&text).copied().unwrap_or_else(|| {
        let kept: &Filter = Box::leak(Box::new(filter.clone()));
        filters.insert(text, kept);
        kept
    })
}

fn put_in_force(filter: Option<&'static Filter>) -> Result<(), SettingsError> {
    let filter = filter.filter(|filter| !filter.is_empty());
    FILTER.store(filter.map_or(ptr::null_mut(), |filter| ptr::from_ref(filter).cast_mut()), SeqCst);
    apply_to_called()
}

/// Counts each time that filter, budget or sampling is set: after that, and before it is applied. [`apply`] compares
/// it.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// A number that changes whenever other marks may be thinned.
pub(crate) fn changes() -> u32 {
    CHANGES.load(Relaxed)
}

/// Applies filter, budget and sampling, one of which was set just before, to the marks called so far.
fn apply_to_called() -> Result<(), SettingsError> {
    CHANGES.fetch_add(1, SeqCst);
    match definition::called().filter(|&mark| !apply(mark)).count() {
        0 => Ok(()),
        marks => Err(SettingsError::no_slot(marks)),
    }
}

pub(crate) const IN_HANDLER: &str = "this was called in a signal handler that interrupted perfmark; call it elsewhere";
pub(crate) const NO_MEMORY: &str =
    "perfmark cannot map memory with MADV_WIPEONFORK, which requires Linux 4.14 or later";
const NO_SESSIONS: &str = "another thread was changing the filters of sessions when this process was forked";

impl SettingsError {
    /// So many marks have no slot for the settings in force.
    fn no_slot(marks: usize) -> Self {
        let why = format!(
            "all slots for settings are in use (at most {MOST}, fewer in a program with many marks); settings that a \
             mark had before need no new slot"
        );
        Self::new(marks, why)
    }

    /// No mark was given the filter's settings.
    pub(crate) fn of_all(why: &str) -> Self {
        Self::new(definition::called().count(), why.into())
    }
}

/// Applies filter, budget and sampling to the mark: at the mark's first call on each thread, and when others are set.
/// The first call on the first thread alone would not be enough: it may come before the mark is listed, where `set`
/// cannot find it. `false` if no slot is left: the mark records as before.
pub(crate) fn apply(mark: &'static Mark) -> bool {
    loop {
        // Recording that has ended stays off: whoever ends it switches the mark off after this, or this sees it.
        if is_off() {
            mark.switch_off();
            return true;
        }
        let changes = CHANGES.load(SeqCst);
        let settings = by_filter(mark);
        let mut is_applied = true;
        if settings.is_on == Some(false) {
            mark.switch_off();
        } else if let Some(slot) = slot(mark, settings) {
            set_slot(mark, slot);
        } else {
            is_applied = false;
            HAS_REFUSED.store(true, Relaxed);
            // At its first call the mark has no slot yet, and records under its own settings.
            if mark.slot() == 0 && !mark.is_off() {
                set_slot(mark, mark.own_slot());
            }
        }
        // If it differs, a filter, budget or sampling was set meanwhile, and may have been applied before this. Setting
        // one stores it, then counts the change, then applies it.
        if CHANGES.load(SeqCst) == changes && !is_off() {
            return is_applied;
        }
    }
}

/// Sets the slot in which the mark's calls find their plans.
fn set_slot(mark: &Mark, slot: u32) {
    mark.set_slot(slot, resolve(mark, of_slot(slot.into())).may_be_thinned());
}

/// The slot in which the mark's calls find their plans, if the filter has these settings for it. `None` if no slot is
/// left.
fn slot(mark: &'static Mark, settings: Settings) -> Option<u32> {
    // What a mark or the filter specifies takes precedence. Calls made of polls are never left out.
    let is_budgeted = settings.every.is_none() && mark.every == 0 && !mark.mode.is_polled && budget_of(mark).is_some();
    let sampling = SAMPLING.load(SeqCst);
    let settings = Settings { is_on: None, ..settings };
    if settings == Settings::default() && !is_budgeted && sampling == 0 {
        return Some(mark.own_slot());
    }
    variant(mark, settings, is_budgeted, sampling)
}

/// Whether the filter in force lets the mark record. [`apply`] resolves it in the same way for calls.
pub(crate) fn is_on(mark: &Mark) -> bool {
    by_filter(mark).is_on != Some(false)
}

fn by_filter(mark: &Mark) -> Settings {
    filter().map_or_else(Settings::default, |filter| filter.settings(&mark.target()))
}

/// The slot of the mark with these settings, a new one if there is none. `None` if no slot is left.
fn variant(mark: &'static Mark, settings: Settings, is_budgeted: bool, sampling: u8) -> Option<u32> {
    // Marks called by a thread that holds the lock, as in its allocator, do nothing.
    let mut known = KNOWN.lock().ok()?;
    let fresh = Variant { mark, slot: 0, settings, is_budgeted, sampling };
    if let Some(&slot) = known.0.get(&fresh.key()) {
        return Some(slot);
    }
    // The other slots are for marks that are called later: without a slot, each call searches for its plan.
    if known.0.len() >= MOST {
        return None;
    }
    let slot = definition::new_slot()?;
    let variant = Box::leak(Box::new(Variant { slot, ..fresh }));
    VARIANTS[slot as usize].store(variant, SeqCst);
    known.0.insert(variant.key(), slot);
    Some(slot)
}

/// The variant in this slot, if the slot is not a mark's own.
pub(crate) fn of_slot(slot: u64) -> Option<&'static Variant> {
    VARIANTS.get(usize::try_from(slot).ok()?).and_then(variant_at)
}

impl Variant {
    fn key(&self) -> Key {
        (ptr::from_ref(self.mark).addr(), self.settings.clone(), self.is_budgeted, self.sampling)
    }
}

/// A mark's settings in force, except its [`events`]. Whether the mark records at all is not among them: [`apply`]
/// resolves it, and calls of a mark that is off need no settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkSettings {
    /// One call in so many is measured. 1 within a budget, and if calls are made of polls.
    pub(crate) every: u32,
    pub(crate) mode: CallMode,
}

/// The settings of a mark. `every` is the first of these: the filter's, the mark's own, that of a budget, its crate's
/// defaults. It is 1 for calls made of polls. `fence` is on if one of these sets it. `variant` is the variant whose
/// slot the mark's calls use, if the filter gives it one.
pub(crate) fn resolve(mark: &Mark, variant: Option<&'static Variant>) -> MarkSettings {
    let filter = variant.map(|variant| &variant.settings);
    let of_crate = defaults::of(mark);
    let every = filter.and_then(|filter| filter.every);
    let every = every.or_else(|| Some(mark.every).filter(|&every| every > 0));
    let is_budgeted = variant.is_some_and(|variant| variant.is_budgeted);
    let sampling = variant.map_or(0, |variant| variant.sampling);
    let every = every.or_else(|| of_crate.filter(|_| !is_budgeted).map(|defaults| defaults.every));
    let is_fenced = mark.mode.is_fenced
        || of_crate.is_some_and(|defaults| defaults.is_fenced)
        || filter.is_some_and(|filter| filter.is_fenced);
    let measured = if is_budgeted { Measured::WithinBudget } else { Measured::All };
    MarkSettings {
        every: every.filter(|_| may_leave_out() && !mark.mode.is_polled).unwrap_or(1).max(1),
        mode: CallMode { is_fenced, measured, sampling, ..mark.mode },
    }
}

impl MarkSettings {
    /// Whether some calls may be left out.
    pub(crate) fn may_be_thinned(self) -> bool {
        self.every > 1 || self.mode.measured == Measured::WithinBudget
    }
}

/// The events that a mark records, in the order in which they are named. They are the first of these: the filter's, the
/// mark's own, those of `PERFMARK_EVENTS`, its crate's defaults. If there are none, they are the default events.
/// `variant` is as in [`resolve`].
pub(crate) fn events(mark: &Mark, variant: Option<&'static Variant>) -> Vec<EventSpec> {
    let of_lines = |lines: &'static str| (!lines.is_empty()).then(|| lines.lines().map(EventSpec::parse).collect());
    let mut events: Vec<_> = variant
        .and_then(|variant| variant.settings.events.as_ref())
        .map(|names| names.iter().map(|name| EventSpec::parse(name)).collect())
        .or_else(|| of_lines(mark.events))
        .or_else(|| settings().events.clone())
        .or_else(|| of_lines(defaults::of(mark)?.events))
        .unwrap_or_else(|| DEFAULT_EVENTS.into_iter().map(EventSpec::parse).collect());
    // Only calls made of polls are ever suspended.
    events.retain(|event| mark.mode.is_polled || *event != EventSpec::Suspended);
    events
}

/// The mark that the pattern may mean.
fn did_you_mean(pattern: &str, paths: &[String]) -> String {
    let near = names::nearest(pattern, &names::of_targets(paths.to_vec()));
    near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Notes for the report: patterns that match no mark, and settings that could not be applied.
pub(crate) fn notes() -> Vec<String> {
    let paths: Vec<String> = filter().map_or_else(Vec::new, |_| linked::all().into_iter().map(Mark::target).collect());
    let unmatched = filter().into_iter().flat_map(|filter| filter.unmatched(&paths));
    let unmatched =
        unmatched.map(|pattern| format!("the filter's `{pattern}` matches no mark{}", did_you_mean(pattern, &paths)));
    let is_refused = |&mark: &&'static Mark| {
        let settings = by_filter(mark);
        settings.is_on != Some(false) && slot(mark, settings).is_none()
    };
    let refused = if HAS_REFUSED.load(Relaxed) { definition::called().filter(is_refused).count() } else { 0 };
    unmatched.chain((refused > 0).then(|| SettingsError::no_slot(refused).to_string())).collect()
}
