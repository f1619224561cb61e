//! The fast path of entry and exit: from the acquired recorder back to the program, in the common case.
//!
//! Each function here returns, or calls a function of `slow` as its last step. So the compiler saves no registers for
//! rare cases.
//!
//! Hooks are compiled for the number of events that they read, `N`, of which the last `K` are counters. Off-CPU events
//! come after these. They are not read: a call ends here only if the thread was not switched, so they counted nothing.
//! Each switch changes the locks of counters. `IS_WATCHED` hooks, without counters, look at the lock of the page of the
//! thread's switches.
//!
//! Code elsewhere refers to this invariant by name:
//!
//! - BINDING: `bind` chooses a hook only for plans for which its parameters are true. The plan's first `N` events are
//!   read. If `K` is `N - 1`, the first one reads ticks. Its event set reads `K` counters together. If it has no
//!   counters, but an event that depends on context switches, it `IS_WATCHED`. The thread is as its `KIND` says:
//!   [`SINGLE_SET`], [`SEVERAL_SETS`] or [`GENERAL`]. Entries depend only on whether it `IS_GENERAL`.
#![allow(unsafe_code, reason = "hooks rely on the parameters that they were bound for")]

use std::array;
use std::hint::assert_unchecked;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::{Delta, clock};

use super::reached::{self, reach};
use super::slow;
use crate::recording::cells::{EventCells, add};
use crate::recording::recorder::event_slots::EVENT_SLOTS;
use crate::recording::recorder::thread::{
    EventSet, FAST_EVENT_SLOTS, FEW_EVENT_SLOTS, FrameRef, HeldRecorder, InnerCalls, Plan, Recorder, SPLIT, Token,
    UNRECORDED, stack::SKIPPED,
};

/// All marks of the thread share one event set. Then the slot of each event is its index in the set, and the number of
/// inner calls gives their overhead. The thread does not track overhead.
pub(crate) const SINGLE_SET: u8 = 0;
/// The thread tracks overhead, and has at most [`FAST_EVENT_SLOTS`] event slots.
pub(crate) const SEVERAL_SETS: u8 = 1;
/// The thread tracks overhead as for [`SEVERAL_SETS`], and may have a call graph and thinned marks.
pub(crate) const GENERAL: u8 = 2;

/// Whether exit looks up cells and overhead before it reads the counters. On x86-64 it does, because instructions after
/// a reading wait for it. On arm64, which loads adjacent words by one instruction, registers suffice for two events.
const fn looks_up_first(events: usize) -> bool {
    cfg!(target_arch = "x86_64") || events <= 2
}

/// The slot of event `n` of a set.
#[inline]
fn slot_index<const KIND: u8>(set: &EventSet, n: usize) -> usize {
    let slot = if KIND == SINGLE_SET { n } else { set.slot_indices[n] };
    // SAFETY: BINDING: with one set, `n` is one of its event slots. Otherwise all slots are below `FAST_EVENT_SLOTS`.
    unsafe { assert_unchecked(slot < if KIND == SINGLE_SET { EVENT_SLOTS } else { FAST_EVENT_SLOTS }) };
    slot
}

/// Begins a call. The counters are read last.
///
/// # Safety
///
/// BINDING
pub(crate) unsafe fn begin<const IS_GENERAL: bool, const N: usize, const K: usize, const IS_WATCHED: bool>(
    plan: &Plan,
    recorder: HeldRecorder,
) -> Token {
    let stack = &recorder.stack;
    let Some(frame) = stack.next() else { return slow::begin(plan, recorder) };
    let open_before = plan.cells.open.load(Relaxed);
    let token = stack.open(frame, plan, open_before);
    if IS_GENERAL {
        frame.skipped_before().set(recorder.bursts.gap.position());
        let [last_caller, last] = &plan.last_nodes;
        let caller = frame.below().node.get();
        if last_caller.get() == caller {
            frame.node.set(last.get());
        } else {
            slow::find_node(plan, frame, &recorder);
        }
    }
    let set = plan.set();
    if K < N {
        frame.begun[0].set(clock::ticks());
    }
    let locks = set.counters.locks();
    // SAFETY: BINDING: the set has these counters. The locks were read from it just now.
    let Some(raw) = (unsafe { read::<K, IS_WATCHED>(set, locks) }) else {
        return slow::begin_again(plan, recorder, frame);
    };
    reach(&recorder, || reached::name("begin", if IS_GENERAL { GENERAL } else { SEVERAL_SETS }, [N, K], IS_WATCHED));
    if K > 0 || IS_WATCHED {
        frame.locks.set(locks);
    }
    raw.iter().enumerate().for_each(|(n, &raw)| frame.begun[N - K + n].set(raw));
    // After the reading, because on x86-64 the reading waits for the instructions before it.
    plan.cells.open.store(open_before + 1, Relaxed);
    recorder.release();
    token
}

/// The raw values of the set's counters, or nothing but that the thread was not switched, if `locks` are the set's.
///
/// # Safety
///
/// The set has `K` counters. `locks` came from it, now or when the call began.
#[inline(always)]
#[allow(clippy::inline_always, reason = "see `read_counts`")]
unsafe fn read<const K: usize, const IS_WATCHED: bool>(set: &EventSet, locks: u64) -> Option<[u64; K]> {
    if IS_WATCHED && !set.counters.is_unswitched(locks) {
        return None;
    }
    // SAFETY: this function's contract.
    unsafe { set.counters.read::<K>(locks) }
}

/// What each event of the innermost call counted. `None` if that takes the slow path. A value is negative if ticks ran
/// backwards, or if a counter overflowed and the kernel has not handled that yet.
#[inline(always)]
#[allow(clippy::inline_always, reason = "a call between the program and the readings would be measured")]
fn read_counts<const N: usize, const K: usize, const IS_WATCHED: bool>(
    set: &EventSet,
    frame: FrameRef,
) -> Option<[u64; N]> {
    let mut counted = [0; N];
    let begun = |n: usize| frame.begun[n].get();
    let loaded: [u64; N] = array::from_fn(begun);
    if K < N {
        counted[0] = clock::ticks().wrapping_sub(loaded[0]);
    }
    // SAFETY: BINDING: the set has these counters. `begin` stored their locks in the frame; the slow path stores
    // `LOCKS_SPLIT` there, which no locks add up to.
    let raw = unsafe { read::<K, IS_WATCHED>(set, frame.locks.get()) }?;
    for n in N - K..N {
        counted[n] = raw[n - (N - K)].wrapping_sub(if looks_up_first(N) { loaded[n] } else { begun(n) });
    }
    Some(counted)
}

/// The probe overhead in the values of the innermost call.
#[inline(always)]
#[allow(clippy::inline_always, reason = "see `read_counts`")]
fn probe_overhead<const KIND: u8, const N: usize>(
    set: &EventSet,
    frame: FrameRef,
    recorder: &Recorder,
    is_leaf: bool,
) -> [u64; N] {
    let overhead = &set.overhead;
    if is_leaf {
        return array::from_fn(|n| overhead.in_leaf[n].get());
    }
    let inner = InnerCalls::of(&frame, recorder.stack.serial.get());
    array::from_fn(|n| overhead.of_caller(&frame, n, slot_index::<KIND>(set, n), inner, KIND != SINGLE_SET))
}

/// Ends the innermost call, a leaf if `IS_LEAF`. Little comes before the counters are read.
///
/// # Safety
///
/// BINDING
pub(crate) unsafe fn end<
    const KIND: u8,
    const N: usize,
    const K: usize,
    const IS_WATCHED: bool,
    const IS_LEAF: bool,
>(
    plan: &Plan,
    frame: FrameRef,
    recorder: HeldRecorder,
) {
    let set = plan.set();
    let look_up = || {
        // SAFETY: BINDING: the plan has `N` events or more, and a plan that is bound has its event cells set.
        let cells = unsafe { plan.event_cells::<N>() };
        (cells, frame.open_before.get(), frame.below(), probe_overhead::<KIND, N>(set, frame, &recorder, IS_LEAF))
    };
    let looked_up = looks_up_first(N).then(look_up);
    let Some(counted) = read_counts::<N, K, IS_WATCHED>(set, frame) else { return slow::end(plan, frame, recorder) };
    let (cells, open_before, below, overhead) = looked_up.unwrap_or_else(look_up);
    let net: [u64; N] = array::from_fn(|n| counted[n].wrapping_sub(overhead[n]));
    // A negative time comes from ticks that ran backwards. An overflow that the kernel has not handled yet gives a
    // value out of the range of every histogram.
    let is_negative = K < N && counted[0].cast_signed() < 0;
    if KIND == GENERAL {
        if is_negative {
            return slow::end(plan, frame, recorder);
        }
        let special = frame.skipped_inside(recorder.bursts.gap.position());
        if special != 0 || !plan.has_room::<N, IS_LEAF>(&net) {
            counted.iter().enumerate().for_each(|(n, &counted)| frame.set_spare(n, counted));
            return end_special::<N, IS_LEAF>(plan, frame, recorder, special);
        }
    } else if !plan.has_room::<N, IS_LEAF>(&net) || is_negative {
        return end_out_of_range(plan, frame, recorder, &counted);
    }
    reach(&recorder, || reached::name(if IS_LEAF { "end a leaf" } else { "end" }, KIND, [N, K], IS_WATCHED));
    plan.cells.open.store(open_before, Relaxed);
    let inner_cost = pass_to_caller::<KIND, N>(plan, frame, below, &net, IS_LEAF);
    // SAFETY: `Plan::has_room` returned true, so the cells span these values.
    unsafe { add_call::<N, IS_LEAF>(open_before, &cells, &net, &inner_cost) };
    if KIND == GENERAL
        && let Some(node) = frame.graph_node()
    {
        node.add_call();
        node.add_costs::<N, IS_LEAF>(&net, &inner_cost);
    }
    recorder.stack.pop_to(below);
    recorder.release();
}

/// Continues the end of a call that is special: calls inside it were skipped, it has flags, its values are out of its
/// histograms' range, or its thread has thinned marks. A leaf call of a thinned mark ends here only for one of the
/// first three reasons, or if there is a call graph. `special` is the number of skipped calls inside, with the call's
/// flags. What the events counted is in the frame's spare words.
#[inline(never)]
fn end_special<const N: usize, const IS_LEAF: bool>(
    plan: &Plan,
    frame: FrameRef,
    recorder: HeldRecorder,
    special: u64,
) {
    let (set, skipped) = (plan.set(), special & SKIPPED);
    let slot = |n: usize| slot_index::<GENERAL>(set, n);
    let counted: [u64; N] = array::from_fn(|n| frame.spare(n));
    let overhead = probe_overhead::<GENERAL, N>(set, frame, &recorder, IS_LEAF);
    let net: [u64; N] = array::from_fn(|n| {
        let of_skipped = skipped.wrapping_mul(set.overhead.skipped[slot(n)].get());
        counted[n].wrapping_sub(overhead[n].wrapping_add(of_skipped))
    });
    // SAFETY: BINDING: the plan has `N` events or more, and a plan that is bound has its event cells set.
    let cells = unsafe { plan.event_cells::<N>() };
    // Calibration does not see what skipped calls inside a call of a thinned mark take. If such a call is long, its
    // thread may have lost the CPU. `time` is the first event.
    let ends_slowly = special & SPLIT != 0 || plan.is_thinned() && (skipped != 0 || cells[0].values.is_long(net[0]));
    if ends_slowly || !(0..N).all(|n| cells[n].values.span().has(net[n])) {
        return end_out_of_range(plan, frame, recorder, &counted);
    }
    reach(&recorder, || reached::special_name(N));
    let (open_before, below) = (frame.open_before.get(), frame.below());
    plan.cells.open.store(open_before, Relaxed);
    let mut inside: [u64; N] = array::from_fn(|n| if IS_LEAF { 0 } else { frame.inner_cost[slot(n)].get() });
    let own: [u64; N] = array::from_fn(|n| net[n].wrapping_sub(inside[n]));
    let thinned: [u64; N] = array::from_fn(|n| if IS_LEAF { 0 } else { frame.thinned_inside(slot(n)) });
    if !IS_LEAF {
        // Without a branch: calls of thinned marks in the loops of calibration are in bursts, and others must not take
        // less.
        let has_thinned = frame.has_thinned_inside(recorder.stack.serial.get());
        let counts = u64::from((skipped == 0) & has_thinned & recorder.is_in_complete_burst(frame));
        (0..N).for_each(|n| cells[n].add_in_bursts(own[n].wrapping_mul(counts), thinned[n].wrapping_mul(counts)));
    }
    if N <= FEW_EVENT_SLOTS && recorder.has_few_slots.get() {
        pass_special_on::<N, FEW_EVENT_SLOTS, IS_LEAF>(plan, frame, &recorder, special, &own);
    } else {
        pass_special_on::<N, FAST_EVENT_SLOTS, IS_LEAF>(plan, frame, &recorder, special, &own);
    }
    if special & UNRECORDED != 0 {
        add(&plan.cells.skipped, 1);
        // SAFETY: the cells span these values; otherwise, the call would end on the slow path.
        (0..N).for_each(|n| unsafe { cells[n].values.load(net[n]) });
    } else {
        if skipped != 0 {
            for n in 0..N {
                inside[n] = inside[n].wrapping_add(cells[n].of_skipped(own[n], thinned[n], 0, 0));
            }
            add(&plan.cells.estimated, 1);
        }
        // SAFETY: the cells span these values; otherwise, the call would end on the slow path.
        unsafe { add_call::<N, false>(open_before, &cells, &net, &inside) };
        if let Some(node) = frame.graph_node() {
            let weighted = |costs: &[u64; N]| costs.map(|cost| cost.wrapping_mul(plan.weight()));
            node.add_call();
            node.add_costs::<N, false>(&weighted(&net), &weighted(&inside));
        }
    }
    recorder.stack.pop_to(below);
    recorder.release();
}

/// Adds the cost of a special call, `own`, and of its inner calls to the call around, and the overhead of their probes,
/// on a thread with at most `COUNT` event slots.
#[inline(always)]
#[allow(clippy::inline_always, reason = "compiled for few slots and for more")]
fn pass_special_on<const N: usize, const COUNT: usize, const IS_LEAF: bool>(
    plan: &Plan,
    frame: FrameRef,
    recorder: &Recorder,
    special: u64,
    own: &[u64; N],
) {
    let (set, below) = (plan.set(), frame.below());
    let slot = |n: usize| slot_index::<GENERAL>(set, n);
    if !plan.is_thinned() {
        (0..N).for_each(|n| below.add_unthinned(slot(n), own[n]));
    }
    if IS_LEAF {
        below.count_unthinned(u64::from(!plan.is_thinned()));
    } else {
        frame.end_unthinned::<COUNT>(plan.is_thinned(), recorder.stack.serial.get());
        frame.move_all_to::<COUNT>(&below);
        below.add_overhead::<COUNT>(&set.overhead.caller_extra);
    }
    (0..N).for_each(|n| below.add_inner_cost(slot(n), own[n]));
    below.add_overhead::<COUNT>(&set.overhead.total);
    if special & SKIPPED != 0 {
        below.add_overhead::<COUNT>(&set.overhead.skipped_extra);
    }
    if special & UNRECORDED != 0 && IS_LEAF {
        below.add_overhead::<COUNT>(&set.overhead.unrecorded_extra);
    }
}

/// Closes the innermost frame, of a poll, and stores in it what the poll cost. The counters are read first.
///
/// # Safety
///
/// BINDING
pub(crate) unsafe fn close<const KIND: u8, const N: usize, const K: usize, const IS_WATCHED: bool>(
    plan: &Plan,
    frame: FrameRef,
    recorder: &Recorder,
) -> bool {
    let Some(counted) = read_counts::<N, K, IS_WATCHED>(plan.set(), frame) else { return false };
    reach(recorder, || reached::name("close", KIND, [N, K], IS_WATCHED));
    counted.iter().enumerate().for_each(|(n, &counted)| frame.set_spare(n, counted));
    close_read::<KIND, N>(plan, frame, recorder)
}

/// Continues to close a frame. What the events counted is in its spare words.
#[inline(never)]
fn close_read<const KIND: u8, const N: usize>(plan: &Plan, frame: FrameRef, recorder: &Recorder) -> bool {
    let counted: [u64; N] = array::from_fn(|n| frame.spare(n));
    if counted.iter().any(|counted| counted.cast_signed() < 0) {
        return false;
    }
    let (set, below) = (plan.set(), frame.below());
    let is_leaf = InnerCalls::of(&frame, recorder.stack.serial.get()).is_empty();
    let overhead = probe_overhead::<KIND, N>(set, frame, recorder, is_leaf);
    let net: [u64; N] = array::from_fn(|n| counted[n].wrapping_sub(overhead[n]));
    plan.cells.open.store(frame.open_before.get(), Relaxed);
    let inner_cost = pass_to_caller::<KIND, N>(plan, frame, below, &net, is_leaf);
    for n in 0..N {
        frame.set_poll_cost(n, net[n], inner_cost[n]);
    }
    set.off_cpu_events().for_each(|event| frame.set_poll_cost(event.n, 0, 0));
    recorder.stack.pop_to(below);
    true
}

/// Continues the end of a call whose values are out of its histograms' range, or are negative. `counted` is what the
/// events counted that were read.
#[inline(always)]
#[allow(clippy::inline_always, reason = "keeps its arguments in registers")]
fn end_out_of_range(plan: &Plan, frame: FrameRef, recorder: HeldRecorder, counted: &[u64]) {
    if counted.iter().any(|counted| counted.cast_signed() < 0) {
        return slow::end(plan, frame, recorder);
    }
    for (n, &counted) in counted.iter().enumerate() {
        frame.set_counted(n, Delta::Exact(counted));
    }
    slow::end_counted(plan, frame, recorder);
}

/// Adds the cost of a call and its inner calls to the call around, and the overhead of their probes. `net` is the
/// call's cost without overhead. Returns the cost of the inner calls.
#[inline(always)]
#[allow(clippy::inline_always, reason = "see `read_counts`")]
fn pass_to_caller<const KIND: u8, const N: usize>(
    plan: &Plan,
    frame: FrameRef,
    below: FrameRef,
    net: &[u64; N],
    is_leaf: bool,
) -> [u64; N] {
    let (set, mut inner_cost) = (plan.set(), [0; N]);
    if !is_leaf {
        inner_cost = array::from_fn(|n| frame.inner_cost[slot_index::<KIND>(set, n)].get());
        frame.move_early_to(&below);
        if KIND == SINGLE_SET {
            // `net` includes the cost of inner calls.
            (0..N).for_each(|n| frame.inner_cost[n].set(0));
            below.inner_callers().set(below.inner_callers().get() + 1 + frame.inner_callers().take());
        } else {
            for n in 0..FAST_EVENT_SLOTS {
                below.add_inner_cost(n, frame.inner_cost[n].take());
            }
        }
    }
    // All loads come before the first store, so that the compiler can combine them.
    let sums: [u64; N] = array::from_fn(|n| below.inner_cost[slot_index::<KIND>(set, n)].get());
    for n in 0..N {
        let cost = if KIND == SINGLE_SET { net[n] } else { net[n].wrapping_sub(inner_cost[n]) };
        below.inner_cost[slot_index::<KIND>(set, n)].set(sums[n].wrapping_add(cost));
    }
    if KIND != SINGLE_SET {
        let overhead = &set.overhead;
        let mut new_sums: [u64; FAST_EVENT_SLOTS] =
            array::from_fn(|n| below.inner_overhead[n].get().wrapping_add(overhead.total[n].get()));
        if !is_leaf {
            for (n, new) in new_sums.iter_mut().enumerate() {
                *new = new.wrapping_add(overhead.caller_extra[n].get()).wrapping_add(frame.inner_overhead[n].take());
            }
        }
        for (sum, new) in below.inner_overhead.iter().zip(new_sums) {
            sum.set(new);
        }
    }
    inner_cost
}

/// Adds a call to its cells. When it began, `open_before` calls of the mark were open.
///
/// # Safety
///
/// The cells span the values `net`.
#[inline(always)]
#[allow(clippy::inline_always, reason = "see `read_counts`")]
unsafe fn add_call<const N: usize, const IS_LEAF: bool>(
    open_before: u64,
    cells: &[&EventCells; N],
    net: &[u64; N],
    inner_cost: &[u64; N],
) {
    // The same as `MarkCells::is_nested`, with values that are in registers.
    if open_before != 0 && open_before > cells[0].elsewhere.load(Relaxed) {
        (0..N).for_each(|n| add(&cells[n].nested, net[n]));
    }
    // The first event is written last: a reader that sees the call there sees it in all events.
    for n in (0..N).rev() {
        if !IS_LEAF {
            add(&cells[n].inside, inner_cost[n]);
        }
        cells[n].values.add_to_sum(net[n]);
        // SAFETY: this function's contract.
        let bucket = unsafe { cells[n].values.bucket(net[n]) };
        if n > 0 { bucket.add() } else { bucket.publish() }
    }
}
