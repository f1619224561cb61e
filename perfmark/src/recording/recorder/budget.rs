//! How often a thread measures the marks that share a budget: a share of the thread's CPU time.
//!
//! A call is measured if it is drawn, as with `every`, but the thread chooses of how many calls one is drawn. After
//! some drawn calls, it compares what measuring took with its CPU time since the last look, and chooses again. A mark's
//! choice applies from its next block of calls on. So the weight of each block is known before its call is drawn, and
//! sums stay unbiased.
#![allow(unsafe_code, reason = "a member's budget is found by a pointer")]

use std::cell::{Cell, RefCell};
use std::ptr;

use crate::platform::usage::thread_cpu_ns;
use crate::recording::mark::defaults::Defaults;
use crate::recording::mark::mark_settings;
use crate::settings as setting;
use crate::settings::recording::is_off;

/// One call is measured in a power of this many.
const STEP: u32 = 4;
const RUNGS: usize = 10;
/// The largest number of calls of which one is measured.
const MOST: u32 = STEP.pow(RUNGS as u32 - 1);

/// The number of calls after which a mark that is measured completely is considered again.
pub(super) const LOT: u32 = 64;

/// Drawn calls before the first look, and before each later one.
const LEAST_DRAWN: u32 = 512;
/// Drawn calls of each mark between two looks, in the mean, so that its load is known well enough.
const DRAWN_OF_EACH: u32 = 16;
/// About the shortest time between two looks in nanoseconds of CPU time, because a look takes some microseconds.
const INTERVAL_NS: f64 = 5e6;

/// What measuring a call takes in nanoseconds, for a probe that could not be calibrated.
pub(super) const UNKNOWN_NS: f64 = 100.0;

/// A budget on one thread.
#[derive(Debug)]
pub(super) struct Budget {
    /// The crate that it is the budget of; `None` for the process's.
    defaults: Option<&'static Defaults>,
    members: RefCell<Vec<Box<Member>>>,
    /// The number of drawn calls before the next look.
    drawn_left: Cell<u32>,
    /// The thread's CPU time at the last look.
    seen_ns: Cell<u64>,
    /// The CPU time before that, in which earlier time counts less.
    time: Cell<f64>,
}

/// A mark within a budget, on one thread.
#[derive(Debug)]
pub(super) struct Member {
    budget: *const Budget,
    /// The mark's slot.
    slot: u32,
    /// Its [`Plan`](super::plan::Plan)s, a type that this file cannot import, by the power of [`STEP`]; or null.
    plans: [Cell<*const ()>; RUNGS],
    /// One call in so many is measured from the next block on.
    every: Cell<u32>,
    /// If the next call finds no plan: calls to be skipped, because a call before them was drawn for them.
    pub(super) rest: Cell<u64>,
    /// The number of calls since the last look, in blocks.
    calls: Cell<u64>,
    /// The number of calls before that, in which earlier calls count less.
    load: Cell<f64>,
    /// What measuring a call takes in nanoseconds.
    pub(super) cost_ns: Cell<f64>,
}

impl Budget {
    /// The budget of the crate with these defaults, or of the process.
    pub(super) fn new(defaults: Option<&'static Defaults>) -> Self {
        let seen_ns = Cell::new(thread_cpu_ns().unwrap_or(0));
        let (drawn_left, time) = (Cell::new(LEAST_DRAWN), Cell::new(0.0));
        Self { defaults, members: RefCell::default(), drawn_left, seen_ns, time }
    }

    pub(super) fn is_of(&self, defaults: Option<&'static Defaults>) -> bool {
        self.defaults.map(ptr::from_ref) == defaults.map(ptr::from_ref)
    }

    /// The share of the thread's CPU time; `None` if the budget is not in force any more.
    fn share(&self) -> Option<f64> {
        self.defaults.map_or_else(mark_settings::budget, Defaults::budget).map(setting::Budget::share)
    }

    /// The mark with this slot, added if it is new. The pointer is valid as long as `self`, which must not move.
    pub(super) fn member(&self, slot: u32) -> *const Member {
        let mut members = self.members.borrow_mut();
        let index = members.iter().position(|member| member.slot == slot).unwrap_or_else(|| {
            members.push(Box::new(Member {
                budget: self,
                slot,
                plans: [const { Cell::new(ptr::null()) }; RUNGS],
                every: Cell::new(1),
                rest: Cell::new(0),
                calls: Cell::new(0),
                load: Cell::new(0.0),
                cost_ns: Cell::new(UNKNOWN_NS),
            }));
            members.len() - 1
        });
        &raw const *members[index]
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
        let demand = |member: &Box<Member>| member.load.get() * member.cost_ns.get();
        let level = level(members.iter().map(demand), share * self.time.get());
        for member in members.iter() {
            // Of a mark without a drawn call, nothing new is known.
            if member.calls.take() > 0 {
                member.every.set(next_every(member.every.get(), demand(member) / level));
            }
        }
        let most = members.iter().map(|member| member.cost_ns.get()).fold(1.0, f64::max);
        let of_each = u32::try_from(members.len()).unwrap_or(u32::MAX).saturating_mul(DRAWN_OF_EACH);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is positive")]
        let in_interval = (share * INTERVAL_NS / most) as u32;
        self.drawn_left.set(LEAST_DRAWN.max(of_each).max(in_interval));
    }
}

impl Member {
    /// Counts calls, of which so many were drawn. Returns of how many calls one is measured in the next block.
    pub(super) fn count(&self, calls: u32, drawn: u32) -> u32 {
        self.calls.set(self.calls.get() + u64::from(calls));
        // SAFETY: CELLS: a budget lives as long as the recorder is used, and so as long as its members.
        let budget = unsafe { &*self.budget };
        let left = budget.drawn_left.get();
        budget.drawn_left.set(left.saturating_sub(drawn));
        if left <= drawn {
            budget.look();
        }
        self.every.get()
    }

    /// Of how many calls one is measured in the next block.
    pub(super) fn every(&self) -> u32 {
        self.every.get()
    }

    /// The plan for this number of calls, of which one is measured.
    pub(super) fn plan(&self, every: u32) -> &Cell<*const ()> {
        &self.plans[every.ilog(STEP) as usize % RUNGS]
    }
}

/// The most that each mark may take, so that all together take what is allowed. Marks whose demand is smaller take only
/// that, and leave the rest to the others.
fn level(demands: impl Iterator<Item = f64> + Clone, allowed: f64) -> f64 {
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
            let level = level(demands.iter().copied(), allowed);
            assert!((level - expected).abs() < 1e-9, "{demands:?}: {level}");
            let taken: f64 = demands.iter().map(|demand| demand.min(level)).sum();
            assert!((taken - allowed).abs() < 1e-9, "{demands:?}: {taken}");
        }
        assert!(level([1.0, 2.0].into_iter(), 3.5).is_infinite(), "all are measured completely");
        assert!(level([].into_iter(), 1.0).is_infinite());
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
