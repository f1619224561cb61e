//! How often a thread measures the marks that share a budget: a share of the thread's CPU time.
//!
//! A call is measured if it is drawn, as with `every`, but the thread chooses of how many calls one is drawn. After
//! some drawn calls, it compares what measuring took with its CPU time since the last look, and chooses again. A mark's
//! choice applies from its next block of calls on. So the weight of each block is known before its call is drawn, and
//! sums stay unbiased.
//!
//! A call that is drawn from many stands for many, and its self is right only if enough calls inside it are measured.
//! Such calls are a small part of all. Therefore a mark's calls inside them have blocks of their own, which are small:
//! see [`context`].
#![allow(unsafe_code, reason = "a member's budget is found by a pointer")]

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use super::calibration_calls::CALLS;
use super::plan::Plan;
use crate::platform::usage::thread_cpu_ns;
use crate::recording::mark::Mark;
use crate::recording::mark::defaults::Defaults;
use crate::recording::mark::mark_settings;
use crate::settings as setting;
use crate::settings::recording::is_off;

/// One call is measured in a power of this many.
const STEP: u32 = 4;
const POWERS: u32 = 10;
const RUNGS: usize = POWERS as usize;
/// The largest number of calls of which one is measured.
const MOST: u32 = STEP.pow(POWERS - 1);

/// The number of calls after which a mark that is measured completely is considered again.
pub(crate) const LOT: u32 = 64;

/// Drawn calls before the first look, and before each later one.
const LEAST_DRAWN: u32 = 512;
/// Drawn calls of each mark between two looks, in the mean, so that its load is known well enough.
const DRAWN_OF_EACH: u32 = 16;
/// The first calls of a mark are all measured: so few would not be represented by some of them.
const ALL_OF: u64 = 1_000;
/// About the shortest time between two looks in nanoseconds of CPU time, because a look takes some microseconds.
const INTERVAL_NS: f64 = 5e6;

/// What measuring a call takes in nanoseconds, for a probe that could not be calibrated.
pub(crate) const UNKNOWN_NS: f64 = 100.0;

/// How many times longer a drawn call takes than in the loops of calibration, where caches hold all that it needs. In
/// programs with a hundred marks, of which one call in some thousand is drawn, it is more.
const UNCACHED: f64 = 4.0;

/// A budget on one thread.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The crate that it is the budget of; `None` for the process's.
    defaults: Option<&'static Defaults>,
    #[allow(clippy::vec_box, reason = "pointers to them are kept")]
    members: RefCell<Vec<Box<Member>>>,
    /// The number of drawn calls before the next look.
    drawn_left: Cell<u32>,
    /// The thread's CPU time at the last look.
    seen_ns: Cell<u64>,
    /// The CPU time before that, in which earlier time counts less.
    time: Cell<f64>,
}

/// The number of [contexts](context).
const CONTEXTS: usize = 4;

/// The context of calls inside a drawn call that counts as this many. It is 0 for few, because finding the plan of
/// another context takes time, and larger the rarer such calls are.
pub(crate) fn context(weight: u32) -> usize {
    match weight {
        0..=4 => 0,
        5..=64 => 1,
        65..=1_024 => 2,
        _ => 3,
    }
}

/// A mark's calls in one context within a budget, on one thread.
#[derive(Debug)]
pub(crate) struct Member {
    budget: *const Budget,
    /// `None` during calibration.
    mark: Option<&'static Mark>,
    /// The mark's slot.
    pub(crate) slot: u32,
    pub(crate) context: usize,
    /// The plan of the next call; null if there is none yet.
    current: Cell<*const Plan>,
    /// Its plans, by the power of [`STEP`]; or null.
    plans: [Cell<*const Plan>; RUNGS],
    /// In context 0: the mark's members by context; or null.
    inner: [Cell<*const Member>; CONTEXTS],
    /// In context 0: the context in which calls lack a member; or 0.
    lacks: Cell<usize>,
    /// One call in so many is measured from the next block on.
    every: Cell<u32>,
    /// If there is no plan yet: calls to be skipped, because a call before them was drawn for them.
    pub(crate) rest: Cell<u64>,
    /// The number of calls since the last look, in blocks.
    calls: Cell<u64>,
    /// The number of calls before that, in which earlier calls count less.
    load: Cell<f64>,
    /// What measuring a call takes in nanoseconds, in consecutive calls.
    pub(crate) cost_ns: Cell<f64>,
}

impl Budget {
    /// The budget of the crate with these defaults, or of the process.
    pub(crate) fn new(defaults: Option<&'static Defaults>) -> Self {
        let seen_ns = Cell::new(thread_cpu_ns().unwrap_or(0));
        let (drawn_left, time) = (Cell::new(LEAST_DRAWN), Cell::new(0.0));
        Self { defaults, members: RefCell::default(), drawn_left, seen_ns, time }
    }

    pub(crate) fn is_of(&self, defaults: Option<&'static Defaults>) -> bool {
        self.defaults.map(ptr::from_ref) == defaults.map(ptr::from_ref)
    }

    /// The share of the thread's CPU time; `None` if the budget is not in force any more.
    fn share(&self) -> Option<f64> {
        self.defaults.map_or_else(mark_settings::budget, Defaults::budget).map(setting::Budget::share)
    }

    /// A member without a plan of the mark with this slot, added if there is none. In context 0 if possible, because
    /// the others are found from there. The pointer is valid as long as `self`, which must not move.
    pub(crate) fn member_without_plan(&self, mark: &'static Mark, slot: u32) -> *const Member {
        let mut members = self.members.borrow_mut();
        let outer = members.iter().position(|member| member.slot == slot && member.context == 0);
        let context = outer.map_or(0, |outer| members[outer].lacks.take());
        let without_plan = members.iter().position(|member| member.slot == slot && member.current.get().is_null());
        let known = without_plan.or(outer.filter(|_| context == 0));
        let index = known.unwrap_or_else(|| {
            members.push(Box::new(Member::new(self, Some(mark), slot, context)));
            members.len() - 1
        });
        let member = &raw const *members[index];
        if let Some(outer) = outer {
            members[outer].set_inside(&members[index]);
        }
        member
    }

    /// The plan in context 0 of the mark with this slot, if there is one.
    pub(crate) fn outer_plan(&self, slot: u32) -> Option<&Plan> {
        let members = self.members.borrow();
        let outer = members.iter().find(|member| member.slot == slot && member.context == 0)?;
        // SAFETY: CELLS: null, or a plan that `set_current` or `add_plan` was given.
        unsafe { outer.current.get().as_ref() }
    }

    /// Chooses anew of how many calls of each mark one is measured.
    #[cold]
    #[inline(never)]
    fn look(&self) {
        self.drawn_left.set(LEAST_DRAWN);
        // After recording has ended, no system call is allowed.
        let now = if is_off() { None } else { thread_cpu_ns() };
        let (Some(now), Some(share), Ok(members)) = (now, self.share(), self.members.try_borrow()) else {
            return;
        };
        let elapsed = now.saturating_sub(self.seen_ns.get());
        // The clocks of some systems are coarse.
        if elapsed == 0 {
            return;
        }
        self.seen_ns.set(now);
        self.time.set(self.time.get() / 2.0 + elapsed as f64);
        for member in members.iter() {
            member.load.set(member.load.get() / 2.0 + member.calls.get() as f64);
        }
        let level = level(&members.iter().map(|member| member.demand()), share * self.time.get());
        for member in members.iter() {
            let calls = member.calls.take();
            let of_all = member.mark.map_or(0, |mark| mark.within_budgets.fetch_add(calls, Relaxed) + calls);
            // Of a mark without a drawn call, nothing new is known.
            if calls > 0 && of_all >= ALL_OF {
                member.every.set(next_every(member.every.get(), member.demand() / level));
            }
        }
        let most = members.iter().map(|member| member.cost_ns.get() * UNCACHED).fold(1.0, f64::max);
        let of_each = u32::try_from(members.len()).unwrap_or(u32::MAX).saturating_mul(DRAWN_OF_EACH);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is positive")]
        let in_interval = (share * INTERVAL_NS / most) as u32;
        self.drawn_left.set(LEAST_DRAWN.max(of_each).max(in_interval));
    }
}

impl Member {
    fn new(budget: *const Budget, mark: Option<&'static Mark>, slot: u32, context: usize) -> Self {
        Self {
            budget,
            mark,
            slot,
            context,
            current: Cell::new(ptr::null()),
            plans: [const { Cell::new(ptr::null()) }; RUNGS],
            inner: [const { Cell::new(ptr::null()) }; CONTEXTS],
            lacks: Cell::new(0),
            every: Cell::new(1),
            rest: Cell::new(0),
            calls: Cell::new(0),
            load: Cell::new(0.0),
            cost_ns: Cell::new(UNKNOWN_NS),
        }
    }

    /// Members of no budget that measure one call in `every`: in context 0, and inside a call that is drawn from
    /// [`CALLS`](super::calibration_calls::CALLS).
    pub(crate) fn for_calibration(every: u32) -> [Self; 2] {
        [0, context(CALLS)].map(|context| Self { every: Cell::new(every), ..Self::new(ptr::null(), None, 0, context) })
    }

    /// Sets the mark's member in another context.
    pub(crate) fn set_inside(&self, inner: &Self) {
        self.inner[inner.context].set(inner);
    }

    /// The mark's member in another context. `None` if the next setup must add it.
    pub(crate) fn inside(&self, context: usize) -> Option<&Self> {
        // SAFETY: CELLS: null, or a member of the same budget, which lives as long as the recorder is used.
        let inner = unsafe { self.inner[context].get().as_ref() };
        if inner.is_none() {
            self.lacks.set(context);
        }
        inner
    }

    /// Counts calls, of which so many were drawn. Returns of how many calls one is measured in the next block.
    pub(crate) fn count(&self, calls: u32, drawn: u32) -> u32 {
        self.calls.set(self.calls.get() + u64::from(calls));
        // SAFETY: CELLS: null during calibration, or a budget lives as long as the recorder is used.
        if let Some(budget) = unsafe { self.budget.as_ref() } {
            let left = budget.drawn_left.get();
            budget.drawn_left.set(left.saturating_sub(drawn));
            if left <= drawn {
                budget.look();
            }
        }
        self.every.get()
    }

    /// What measuring all calls takes in nanoseconds.
    fn demand(&self) -> f64 {
        self.load.get() * self.cost_ns.get() * UNCACHED
    }

    /// Of how many calls one is measured in the next block.
    pub(crate) fn every(&self) -> u32 {
        self.every.get()
    }

    /// The plan of the next call. `None` if the next call must set it up.
    pub(crate) fn current(&self) -> Option<&Plan> {
        // SAFETY: CELLS: null, or a plan that `set_current` or `add_plan` was given.
        unsafe { self.current.get().as_ref() }
    }

    /// Lets the next call use the plan with which one call in `every` is measured, if there is one.
    pub(crate) fn choose(&self, every: u32) -> Option<&Plan> {
        self.current.set(self.plan(every).get());
        self.current()
    }

    /// Lets the next call use this plan.
    ///
    /// # Safety
    ///
    /// It lives as long as calls use this member.
    pub(crate) unsafe fn set_current(&self, plan: &Plan) {
        self.current.set(plan);
    }

    /// The same, and whenever one call in `every` is measured.
    ///
    /// # Safety
    ///
    /// It lives as long as calls use this member.
    pub(crate) unsafe fn add_plan(&self, every: u32, plan: &Plan) {
        self.plan(every).set(plan);
        self.current.set(plan);
    }

    fn plan(&self, every: u32) -> &Cell<*const Plan> {
        &self.plans[every.ilog(STEP) as usize % RUNGS]
    }
}

/// The most that each mark may take, so that all together take what is allowed. Marks whose demand is smaller take only
/// that, and leave the rest to the others.
fn level(demands: &(impl Iterator<Item = f64> + Clone), allowed: f64) -> f64 {
    let mut level = 0.0;
    loop {
        let (mut small, mut large) = (0.0, 0.0);
        for demand in demands.clone() {
            if demand <= level {
                small += demand;
            } else {
                large += 1.0;
            }
        }
        let next = if large > 0.0 { (allowed - small) / large } else { f64::INFINITY };
        // It rises until all marks below it are known.
        if next <= level || next.is_infinite() {
            return next;
        }
        level = next;
    }
}

/// Of how many calls one is measured next, if it was one in `every` until now, and one in `wanted` would be right. It
/// rises at once, and falls by one step.
fn next_every(every: u32, wanted: f64) -> u32 {
    let mut next = 1;
    while f64::from(next) < wanted && next < MOST {
        next *= STEP;
    }
    next.max(every / STEP)
}

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use super::*;

    #[test]
    fn marks_with_small_demands_are_measured_completely_and_the_others_share_the_rest_equally() {
        for (demands, allowed, expected) in [
            (&[1.0, 2.0, 100.0, 1_000.0][..], 63.0, 30.0),
            (&[1_000.0, 1_000.0], 10.0, 5.0),
            (&[5.0], 1.0, 1.0),
            (&[40.0, 1.0, 30.0, 20.0], 61.0, 20.0),
        ] {
            let level = level(&demands.iter().copied(), allowed);
            assert!((level - expected).abs() < 1e-9, "{demands:?}: {level}");
            let taken: f64 = demands.iter().map(|demand| demand.min(level)).sum();
            assert!((taken - allowed).abs() < 1e-9, "{demands:?}: {taken}");
        }
        assert!(level(&[1.0, 2.0].into_iter(), 3.5).is_infinite(), "all are measured completely");
        assert!(level(&[].into_iter(), 1.0).is_infinite());
    }

    #[test]
    fn the_measured_share_falls_at_once_and_rises_step_by_step() {
        for (every, wanted, expected) in [
            (1, 0.0, 1),
            (1, 1.0, 1),
            (1, 1.1, 4),
            (1, 1_000.0, 1_024),
            (4, 4.0, 4),
            (64, 17.0, 64),
            (64, 16.0, 16),
            (1_024, 0.5, 256),
            (4, 0.0, 1),
            (1, f64::INFINITY, MOST),
            (1, 1e12, MOST),
        ] {
            assert_eq!(next_every(every, wanted), expected, "{every} {wanted}");
        }
        assert_eq!(next_every(64, f64::NAN), 16);
    }
}
