//! Which marks a thread thins: measures in [bursts] only, and how often these occur.
//!
//! Of a mark with `every = N`, the mark sets how often. Within a budget, the thread chooses: after some measured calls,
//! it compares what measuring took with its CPU time since the last adaptation; also in long gaps, because there may be
//! fewer calls from now on. Marks that are called rarely are not thinned.
#![allow(unsafe_code, reason = "members refer to plans by pointers")]

pub(crate) mod gap;
pub(crate) mod bursts;
pub(crate) mod learned;
pub(crate) mod preemption;

use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::{array, mem, ptr};

use self::bursts::Bursts;
use self::learned::Learned;
use self::preemption::Preemption;
use super::event_set::EventSet;
use super::overhead::Numbers;
use super::plan::Plan;
use super::state::HeldRecorder;
use crate::compact::index_or_push;
use crate::platform::usage::{monotonic_ns, thread_cpu_ns};
use crate::recording::mark::mark_settings;
use crate::recording::mark::{Mark, entry};
use crate::recording::recorder::event_slots::EventSlots;
use crate::settings::Budget;
use crate::settings::recording::is_off;

/// Within a budget, one call is measured in a power of this many.
const STEP: u32 = 4;
/// The largest number of calls of which one is measured within a budget.
const LARGEST_EVERY: u32 = STEP.pow(9);

/// Measured calls of thinned marks between two adaptations, and of each mark in the mean.
const MEASURED_BETWEEN: u32 = 512;
const MEASURED_OF_EACH: u32 = 16;
/// Skipped calls between two adaptations at most.
const SKIPPED_BETWEEN: u64 = 1 << 16;
/// The first calls of a mark within a budget are all measured: so few would not be represented by some of them.
const ALL_OF: u64 = 1_000;
/// The calls between two adaptations may take as much as a budget allows in so many nanoseconds.
const INTERVAL_NS: f64 = 5e6;
/// The shortest time between two adaptations in gaps.
const IN_GAPS_NS: u64 = 1_000_000_000;
/// A mark with `every` is not thinned if it has less than one of so many calls of marks with `every`.
const RARE: f64 = 256.0;
/// All such marks together have at most one call in so many, and at most so many times the calls that are measured of
/// the others. Otherwise, only the rarest of them are not thinned.
const RARE_IN_ALL: f64 = 16.0;
const RARE_IN_MEASURED: f64 = 4.0;

/// What measuring a call takes in nanoseconds, for a probe that could not be calibrated.
const UNKNOWN_NS: f64 = 100.0;

/// How many times longer a measured call is taken to last than in the loops of calibration, where caches hold all that
/// it needs, until the thread has learned what it costs.
const UNLEARNED: f64 = 4.0;

/// A thread's marks that may be thinned.
#[derive(Debug, Default)]
pub(crate) struct Thinning {
    #[allow(clippy::vec_box, reason = "pointers to them are kept")]
    members: RefCell<Vec<Box<Member>>>,
    /// Within a budget, one call of a thinned mark is measured in so many.
    every: Cell<u32>,
    /// The smallest and the largest number of calls of which one is measured. `None` if no mark is thinned.
    range: Cell<Option<(u32, u32)>>,
    /// The number of marks that are thinned.
    thinned: Cell<u32>,
    /// The number of measured calls at the next adaptation.
    next_adaptation: Cell<u64>,
    /// The number of skipped calls at the last adaptation.
    skipped: Cell<u64>,
    /// The thread's CPU time at the last adaptation.
    seen_ns: Cell<u64>,
    /// The CPU time before that, in which earlier time counts less; 0 if no mark is within a budget.
    time: Cell<f64>,
    /// When the thread adapted in a gap, or the first gap was looked at.
    in_gap_ns: Cell<u64>,
    /// The numbers of measured and of unrecorded calls at the last adaptation, and those before that, in which earlier
    /// calls count less.
    seen_calls: Cell<[u64; 2]>,
    calls: Cell<[f64; 2]>,
    /// What a measured call costs inside the program.
    pub(crate) learned: Learned,
    pub(crate) preemption: Preemption,
}

/// A mark that may be thinned on a thread.
#[derive(Debug)]
pub(crate) struct Member {
    mark: &'static Mark,
    /// The mark's slot.
    slot: Cell<u32>,
    /// One call in so many is measured; 0 within a budget.
    every: Cell<u32>,
    /// Whether it is rare, so that all of its calls are measured.
    is_rare: Cell<bool>,
    /// The number of calls that the marked function skipped.
    count: Cell<*const AtomicI64>,
    plans: RefCell<Vec<*const Plan>>,
    /// What [`Thinning::every`] returned when its calls' plan was set up, or at the last adaptation.
    in_use: Cell<Option<u32>>,
    /// The number of calls that were recorded.
    pub(crate) recorded: Cell<u64>,
    /// The number of calls at the last adaptation.
    seen: Cell<u64>,
    /// The number of calls before that, in which earlier calls count less.
    load: Cell<f64>,
    /// What measuring a call takes in nanoseconds.
    cost_ns: Cell<f64>,
}

impl Thinning {
    pub(crate) fn new() -> Self {
        Self { every: Cell::new(1), next_adaptation: Cell::new(MEASURED_BETWEEN.into()), ..Self::default() }
    }

    /// The mark, which has this slot, and of which one call in `every` is measured; it is within a budget if that is 0.
    /// `count` is that of the calls that the marked function skips. Calls `forget` with the slot that it had before.
    /// The pointer is valid as long as `self`.
    ///
    /// # Safety
    ///
    /// The count lives as long as `self` is used.
    pub(crate) unsafe fn member(
        &self,
        mark: &'static Mark,
        slot: u32,
        every: u32,
        count: &AtomicI64,
        forget: impl FnOnce(u32),
    ) -> *const Member {
        let mut members = self.members.borrow_mut();
        // Time in which no mark was within a budget is not to be compared with one.
        if every == 0 && members.iter().all(|member| member.every.get() > 0) {
            self.seen_ns.set(thread_cpu_ns().unwrap_or(0));
            self.forget_load();
        }
        let (known, new) = (members.len(), || Box::new(Member::new(mark, slot, every, count)));
        let index = index_or_push(&mut members, |member| ptr::eq(member.mark, mark), new);
        let member = &members[index];
        if index == known || member.every.get() != every {
            // Its first calls may be in a gap of other marks. If all calls are measured, they are in bursts.
            member.is_rare.set(every == 0 && self.every.get() > 1 && member.has_few_calls());
        }
        let before = member.slot.get();
        if before != slot {
            forget(before);
            member.change(slot, every, count);
        }
        self.note_range(&members);
        &raw const **member
    }

    /// One call of the member is measured in so many; `None` if all are.
    pub(crate) fn every(&self, member: &Member) -> Option<u32> {
        let every = if member.every.get() > 0 { member.every.get() } else { self.every.get() };
        Some(every).filter(|_| !member.is_rare.get())
    }

    /// Notes the smallest and the largest number of calls of which one is measured, and how many marks are thinned.
    #[allow(clippy::vec_box, reason = "as the field")]
    fn note_range(&self, members: &[Box<Member>]) {
        let each = || members.iter().filter_map(|member| self.every(member));
        self.range.set(each().min().zip(each().max()));
        self.thinned.set(u32::try_from(each().count()).unwrap_or(u32::MAX));
    }

    /// Whether bursts are not as frequent as the thinned marks need.
    pub(crate) fn restarts(&self, bursts: &Bursts) -> bool {
        self.range.get().is_some_and(|(smallest, _)| smallest != bursts.every())
    }

    /// Lets bursts be as frequent as the thinned marks need, at once if it `may_restart`.
    pub(crate) fn apply_to(&self, bursts: &Bursts, may_restart: bool) {
        if let Some((smallest, largest)) = self.range.get() {
            bursts.set_every(smallest, largest, self.thinned.get(), may_restart && self.restarts(bursts));
        }
    }

    /// Whether it is time to [adapt](Self::adapt), at the end of a burst.
    pub(crate) fn is_time(&self, bursts: &Bursts) -> bool {
        bursts.measured() >= self.next_adaptation.get() || bursts.skipped() - self.skipped.get() > SKIPPED_BETWEEN
    }

    /// The same between two parts of a gap. Marks that only have `every` do not need that. If so, only what follows the
    /// last adaptation counts, because it is long ago.
    pub(crate) fn is_time_in_gap(&self) -> bool {
        if self.time.get() == 0.0 || is_off() {
            return false;
        }
        let (now, before) = (monotonic_ns().unwrap_or(0), self.in_gap_ns.get());
        let is_time = before > 0 && now.saturating_sub(before) >= IN_GAPS_NS;
        if is_time || before == 0 {
            self.in_gap_ns.set(now);
        }
        if is_time && let Ok(members) = self.members.try_borrow() {
            self.time.set(0.0);
            members.iter().for_each(|member| member.load.set(0.0));
        }
        is_time
    }

    /// No mark is within a budget.
    fn forget_load(&self) {
        self.time.set(0.0);
        self.every.set(1);
    }

    /// Chooses anew which marks are thinned, and how often bursts occur. Marks for which that changes have another plan
    /// from their next call on.
    #[cold]
    #[inline(never)]
    pub(crate) fn adapt(&self, recorder: &HeldRecorder) {
        let bursts = &recorder.bursts;
        self.skipped.set(bursts.skipped());
        let Ok(members) = self.members.try_borrow() else { return };
        self.learned.adapt();
        for member in members.iter() {
            member.note_cost(&self.learned);
            let calls = member.calls();
            let new = calls.wrapping_sub(member.seen.replace(calls));
            member.load.set(member.load.get() / 2.0 + new as f64);
            if member.every.get() == 0 {
                member.mark.within_budgets.fetch_add(new, Relaxed);
            }
        }
        let in_interval = self.adapt_to_budget(&members, bursts);
        let of_each = u32::try_from(members.len()).unwrap_or(u32::MAX).saturating_mul(MEASURED_OF_EACH);
        let measured = MEASURED_BETWEEN.max(of_each).max(in_interval);
        self.next_adaptation.set(bursts.measured() + u64::from(measured));
        bursts.await_rare(measured);
        let with_every = || members.iter().filter(|member| member.every.get() > 0);
        let all: f64 = with_every().map(|member| member.load.get()).sum();
        let every = with_every().map(|member| member.every.get()).min().unwrap_or(1);
        let rare = rare_load(&with_every().map(|member| member.load.get()), all, every);
        with_every().for_each(|member| member.is_rare.set(member.load.get() < rare));
        self.note_range(&members);
        let mut applied_to: *const EventSet = ptr::null();
        for member in members.iter() {
            for plan in member.plans().filter(|plan| plan.is_thinned()) {
                // Most marks have the same events.
                if !ptr::eq(mem::replace(&mut applied_to, plan.set()), plan.set()) {
                    self.learned.apply_to(plan.set());
                }
                plan.publish_overhead();
            }
            let every = self.every(member);
            if member.in_use.replace(every) != every {
                let plan = member.plans().find(|plan| plan.every() == every);
                plan.inspect(|plan| member.teach(plan));
                // SAFETY: CELLS: members live as long as the thread's cells, and `add_plan` requires that of plans,
                // which have the member's slot. First calls bind plans before they are added.
                unsafe { recorder.change_plan(member.slot.get(), plan) };
            }
        }
    }

    /// Notes perfmark's own work, which took so much.
    pub(crate) fn note_work(&self, work: &Numbers, slots: &EventSlots) {
        for (n, _) in slots.iter().enumerate().filter(|(_, slot)| slot.is_ticks()) {
            if self.preemption.is_in_work(work[n]) {
                self.learned.note_wait(n, work[n]);
                self.preemption.begin();
            }
        }
    }

    /// The number of measured calls for each recorded one.
    fn measured_for_each(&self, bursts: &Bursts) -> f64 {
        let now = [bursts.measured(), bursts.unrecorded()];
        let (before, seen) = (self.calls.get(), self.seen_calls.replace(now));
        let [measured, unrecorded] = array::from_fn(|n| before[n] / 2.0 + now[n].saturating_sub(seen[n]) as f64);
        self.calls.set([measured, unrecorded]);
        measured.max(1.0) / (measured - unrecorded).max(1.0)
    }

    /// The same for the marks within budgets. Returns how many calls may be measured until the next adaptation.
    #[allow(clippy::vec_box, reason = "as the field")]
    fn adapt_to_budget(&self, members: &[Box<Member>], bursts: &Bursts) -> u32 {
        let members = || members.iter().filter(|member| member.every.get() == 0);
        let budgets = members().filter_map(|member| mark_settings::budget_of(member.mark)).map(Budget::share);
        let Some(share) = budgets.reduce(f64::min) else {
            self.forget_load();
            // Marks that were within one before have no say any more.
            members().for_each(|member| member.is_rare.set(true));
            return 0;
        };
        // After recording has ended, no system call is allowed.
        let Some(now) = (if is_off() { None } else { thread_cpu_ns() }) else { return 0 };
        let elapsed = now.saturating_sub(self.seen_ns.get());
        // The clocks of some systems are coarse.
        if elapsed == 0 {
            return 0;
        }
        self.seen_ns.set(now);
        self.time.set(self.time.get() / 2.0 + elapsed as f64);
        let allowed = share * self.time.get() / self.measured_for_each(bursts);
        let level = level(&members().map(|member| member.demand()), allowed);
        let is_small = |member: &Member| member.has_few_calls() || member.demand() <= level;
        let (mut count, mut demand) = (0.0, 0.0);
        for member in members().filter(|member| !is_small(member)) {
            (count, demand) = (count + 1.0, demand + member.demand());
        }
        // If all are measured, they stay in bursts, which follow each other: their ends are the times of adaptations.
        members().for_each(|member| member.is_rare.set(count > 0.0 && is_small(member)));
        let wanted = if count > 0.0 { demand / (count * level) } else { 1.0 };
        self.every.set(every_for(wanted));
        let most = members().map(|member| member.cost_ns.get()).fold(1.0, f64::max);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is positive")]
        let in_interval = (share * INTERVAL_NS / most) as u32;
        in_interval
    }
}

impl Member {
    fn new(mark: &'static Mark, slot: u32, every: u32, count: &AtomicI64) -> Self {
        Self {
            mark,
            slot: Cell::new(slot),
            every: Cell::new(every),
            count: Cell::new(count),
            is_rare: Cell::new(false),
            plans: RefCell::default(),
            in_use: Cell::new(None),
            recorded: Cell::new(0),
            seen: Cell::new(0),
            load: Cell::new(0.0),
            cost_ns: Cell::new(UNKNOWN_NS * UNLEARNED),
        }
    }

    /// Whether these are among the first calls of a mark within a budget, which are all measured.
    fn has_few_calls(&self) -> bool {
        self.mark.within_budgets.load(Relaxed) < ALL_OF
    }

    /// The mark has another slot, because it has other settings.
    fn change(&self, slot: u32, every: u32, count: &AtomicI64) {
        self.slot.set(slot);
        // Calls without a budget are not to be compared with one.
        if (self.every.replace(every) == 0) != (every == 0) {
            self.load.set(0.0);
        }
        self.count.set(count);
        self.plans.borrow_mut().clear();
        self.seen.set(self.calls());
    }

    fn plans<'a>(&self) -> impl Iterator<Item = &'a Plan> + use<'a, '_> {
        let plan = |n: usize| self.plans.borrow().get(n).copied();
        // SAFETY: `add_plan` requires that they live as long as this member.
        (0..).map_while(plan).map(|plan| unsafe { &*plan })
    }

    /// Adds a plan of the mark's calls, unless it is known. The next call uses it.
    ///
    /// # Safety
    ///
    /// It lives as long as this member.
    pub(crate) unsafe fn add_plan(&self, plan: &Plan) {
        self.teach(plan);
        self.in_use.set(plan.every());
        if self.plans.borrow().contains(&ptr::from_ref(plan)) {
            return;
        }
        self.plans.borrow_mut().push(plan);
        self.seen.set(self.seen.get() + plan.cells.skipped.load(Relaxed));
    }

    /// Lets the plan begin with what the others of the mark learned.
    fn teach(&self, plan: &Plan) {
        self.plans().for_each(|known| known.cells.teach(&plan.cells));
    }

    /// Notes what measuring a call takes, as calibration measured it and the thread learned it.
    fn note_cost(&self, learned: &Learned) {
        let Some(set) = self.plans().last().map(Plan::set) else { return };
        let measured = set.measured_overhead.borrow();
        let in_calibration = measured.as_ref().map_or(UNKNOWN_NS, |measured| measured.call_ns);
        let factor = measured.as_ref().and_then(|measured| learned.factor(&measured.probe));
        self.cost_ns.set(in_calibration * factor.unwrap_or(UNLEARNED));
    }

    /// The number of its calls so far.
    fn calls(&self) -> u64 {
        let skipped = self.plans().map(|plan| plan.cells.skipped.load(Relaxed));
        // SAFETY: `Thinning::member` requires that it lives as long as this member is used.
        let by_function = entry::skipped_in(unsafe { &*self.count.get() });
        self.recorded.get() + by_function + skipped.sum::<u64>()
    }

    /// What measuring all calls takes in nanoseconds.
    fn demand(&self) -> f64 {
        self.load.get() * self.cost_ns.get()
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

/// Marks with `every` that have fewer calls than this are not thinned. `loads` are the calls of each mark with `every`,
/// `all` is their sum, and `every` the smallest one of these marks.
fn rare_load(loads: &(impl Iterator<Item = f64> + Clone), all: f64, every: u32) -> f64 {
    let allowed = (all / RARE_IN_ALL).min(all / f64::from(every) * RARE_IN_MEASURED);
    let mut most = all / RARE;
    while loads.clone().filter(|load| *load < most).sum::<f64>() > allowed {
        most /= 2.0;
    }
    most
}

/// Of how many calls one is measured, if one in `wanted` would be right.
fn every_for(wanted: f64) -> u32 {
    let mut every = 1;
    while f64::from(every) < wanted && every < LARGEST_EVERY {
        every *= STEP;
    }
    every
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
    fn the_rarest_marks_are_measured_completely_if_that_takes_little_of_what_every_saves() {
        let loads = [10_000.0, 60.0, 30.0, 20.0, 10.0, 5.0, 0.0];
        for (every, rare) in [(2, 5), (256, 5), (1_024, 3), (100_000, 1), (u32::MAX, 1)] {
            let least = rare_load(&loads.into_iter(), 10_125.0, every);
            assert_eq!(loads.iter().filter(|load| **load < least).count(), rare, "{every}: {least}");
        }
        let many = std::iter::repeat_n(10.0, 1_000);
        assert!(rare_load(&many, 10_000.0, 2) <= 10.0, "rare ones, but all marks are");
        assert!(rare_load(&[].into_iter(), 0.0, 1) <= 0.0);
    }

    #[test]
    fn one_call_in_a_power_of_four_is_measured() {
        let wanted = [0.0, 1.0, 1.1, 4.0, 17.0, 1e12, f64::INFINITY, f64::NAN];
        assert_eq!(wanted.map(every_for), [1, 1, 4, 4, 64, LARGEST_EVERY, LARGEST_EVERY, 1]);
    }
}
