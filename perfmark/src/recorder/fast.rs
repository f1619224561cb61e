//! The fast path: what a marked call executes between finding its thread's recorder and returning to the program, while
//! nothing is unusual.
//!
//! Each function here ends by returning, or by calling one of `slow` at its very end: so it saves no registers for what
//! seldom happens.
#![allow(unsafe_code, reason = "what a hook was bound for is known at its binding alone")]

use std::array;
use std::hint::assert_unchecked;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::{Delta, clock};

use super::cost::{Inside, PAID};
use super::counters::SLOTS;
use super::plan::{EventSet, Plan, node_of};
use super::slow;
use super::stack::{FrameRef, Token};
use super::state::{Recorder, Taken};
use crate::cells::EventCells;
use crate::histogram::add;

/// What a hook is for, known when it is bound: FIT.
///
/// The mark has `N` events, of which `K` are counters that its set reads together; the one before them, if there is
/// one, is time.
pub(super) trait Fit {
    /// Whether the thread's marks have one set of events, so that each event's slot is its index, and what probes cost
    /// follows from the number of calls. Otherwise the thread has [`PAID`] slots at most, and keeps costs.
    const IS_ONLY_SET: bool;
    /// Whether calls may count as several.
    const IS_WEIGHTED: bool;
    /// Whether there is a call graph.
    const HAS_GRAPH: bool;
}

/// Marks of a thread that keeps no costs.
pub(super) struct OnlySet;
/// Marks of a thread that keeps costs.
pub(super) struct OneOfSeveral;
/// The same, of which one call in some is measured.
pub(super) struct Weighted;
/// All marks, where there is a call graph.
pub(super) struct Graphed;

impl Fit for OnlySet {
    const IS_ONLY_SET: bool = true;
    const IS_WEIGHTED: bool = false;
    const HAS_GRAPH: bool = false;
}

impl Fit for OneOfSeveral {
    const IS_ONLY_SET: bool = false;
    const IS_WEIGHTED: bool = false;
    const HAS_GRAPH: bool = false;
}

impl Fit for Weighted {
    const IS_ONLY_SET: bool = false;
    const IS_WEIGHTED: bool = true;
    const HAS_GRAPH: bool = false;
}

impl Fit for Graphed {
    const IS_ONLY_SET: bool = false;
    const IS_WEIGHTED: bool = true;
    const HAS_GRAPH: bool = true;
}

/// Whether what can be looked up before the counters are read is, for so many events: on x86-64 the processor goes on
/// behind a reading only when it is done. On arm64, where loads of neighbours are one instruction, there are registers
/// for two events.
const fn is_early(events: usize) -> bool {
    cfg!(target_arch = "x86_64") || events <= 2
}

/// The slot of a set's event `n`.
#[inline]
fn slot<F: Fit>(set: &EventSet, n: usize) -> usize {
    let slot = if F::IS_ONLY_SET { n } else { set.at[n] };
    // SAFETY: FIT.
    unsafe { assert_unchecked(slot < if F::IS_ONLY_SET { SLOTS } else { PAID }) };
    slot
}

/// Begins a call; the counters are read last.
pub(super) fn begin<F: Fit, const N: usize, const K: usize>(plan: &Plan, recorder: Taken) -> Token {
    let stack = &recorder.stack;
    let Some(frame) = stack.next() else { return slow::begin(plan, recorder) };
    let before = plan.cells.open.load(Relaxed);
    let token = stack.open(frame, plan.pointer(), before);
    if F::HAS_GRAPH {
        let [last_caller, last] = &plan.last;
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
    // SAFETY: FIT.
    let Some(raw) = (unsafe { set.counters.read::<K>(locks) }) else {
        return slow::begin_again(plan, recorder, frame);
    };
    if K > 0 {
        frame.locks.set(locks);
    }
    (0..K).for_each(|n| frame.begun[N - K + n].set(raw[n]));
    // Behind the reading, which on x86-64 waits for what comes before it.
    plan.cells.open.store(before + 1, Relaxed);
    recorder.put_back();
    token
}

/// What each event of the innermost call counted. `None` where that takes the slow path. Ticks that ran backwards, and
/// a counter that overflowed a moment ago, of which the kernel does not know yet, give less than nothing.
#[inline(always)]
#[allow(clippy::inline_always, reason = "nothing may be between the program and the readings but what is measured")]
fn counted<const N: usize, const K: usize>(set: &EventSet, frame: FrameRef) -> Option<[u64; N]> {
    let mut counted = [0; N];
    let begun = |n: usize| frame.begun[n].get();
    let early: [u64; N] = array::from_fn(begun);
    if K < N {
        counted[0] = clock::ticks().wrapping_sub(early[0]);
    }
    // SAFETY: FIT; and `begin` put the locks there. What the slow path puts there is no sum of locks.
    let raw = unsafe { set.counters.read::<K>(frame.locks.get()) }?;
    for n in N - K..N {
        counted[n] = raw[n - (N - K)].wrapping_sub(if is_early(N) { early[n] } else { begun(n) });
    }
    Some(counted)
}

/// What probes cost that the innermost call's events saw.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as `counted`")]
fn overhead<F: Fit, const N: usize, const IS_LEAF: bool>(
    set: &EventSet,
    frame: FrameRef,
    recorder: &Recorder,
) -> [u64; N] {
    let costs = &set.costs;
    if IS_LEAF {
        return array::from_fn(|n| costs.own[n].get());
    }
    let inside = Inside::of(&frame, recorder.stack.serial.get());
    array::from_fn(|n| costs.overhead_of_caller(&frame, n, slot::<F>(set, n), inside, !F::IS_ONLY_SET))
}

/// Ends the innermost call; the counters are read first. It is a leaf if it says so: no marked call is inside it.
pub(super) fn end<F: Fit, const N: usize, const K: usize, const IS_LEAF: bool>(
    plan: &Plan,
    frame: FrameRef,
    recorder: Taken,
) {
    let set = plan.set();
    let look_up = || {
        // SAFETY: FIT.
        let cells = unsafe { plan.event_cells::<N>() };
        (cells, frame.before.get(), frame.below(), overhead::<F, N, IS_LEAF>(set, frame, &recorder))
    };
    let early = is_early(N).then(look_up);
    let Some(counted) = counted::<N, K>(set, frame) else { return slow::end(plan, frame, recorder) };
    let (cells, before, below, overhead) = early.unwrap_or_else(look_up);
    let net: [u64; N] = array::from_fn(|n| counted[n].wrapping_sub(overhead[n]));
    // A counter that overflowed before the kernel noticed gives a difference that no histogram has room for. Ticks that
    // ran backwards are no time.
    if !plan.has_room(&net) || K < N && counted[0].cast_signed() < 0 {
        return end_beyond(plan, frame, recorder, &counted);
    }
    plan.cells.open.store(before, Relaxed);
    let inside = pass_on::<F, N, IS_LEAF>(plan, frame, below, &net);
    add_call::<N, IS_LEAF>(before, &cells, &net, &inside);
    if F::HAS_GRAPH
        && let Some(node) = node_of(&frame)
    {
        let weighted = |costs: &[u64; N]| costs.map(|cost| cost.wrapping_mul(plan.weight()));
        node.add_call();
        // SAFETY: the node is the mark's, or takes any.
        unsafe { node.add_costs::<N, IS_LEAF>(&weighted(&net), &weighted(&inside)) };
    }
    recorder.stack.pop_to(below);
    recorder.put_back();
}

/// Closes the innermost frame, which is of a poll, and gives what it cost; the counters are read first.
pub(super) fn close<F: Fit, const N: usize, const K: usize, const IS_LEAF: bool>(
    plan: &Plan,
    frame: FrameRef,
    recorder: &Recorder,
) -> bool {
    let set = plan.set();
    let early = is_early(N).then(|| overhead::<F, N, IS_LEAF>(set, frame, recorder));
    let Some(counted) = counted::<N, K>(set, frame) else { return false };
    let overhead: [u64; N] = early.unwrap_or_else(|| overhead::<F, N, IS_LEAF>(set, frame, recorder));
    if counted.iter().any(|counted| counted.cast_signed() < 0) {
        return false;
    }
    let net: [u64; N] = array::from_fn(|n| counted[n].wrapping_sub(overhead[n]));
    plan.cells.open.store(frame.before.get(), Relaxed);
    let below = frame.below();
    let inside = pass_on::<F, N, IS_LEAF>(plan, frame, below, &net);
    for n in 0..N {
        frame.begun[n].set(net[n]);
        frame.at[n].set(inside[n]);
    }
    recorder.stack.pop_to(below);
    true
}

/// Goes on with the end of a call that does not fit into its histograms yet, or whose counts are none.
#[inline(always)]
#[allow(clippy::inline_always, reason = "so that its arguments are kept in registers")]
fn end_beyond<const N: usize>(plan: &Plan, frame: FrameRef, recorder: Taken, counted: &[u64; N]) {
    if counted.iter().any(|counted| counted.cast_signed() < 0) {
        return slow::end(plan, frame, recorder);
    }
    for (n, &counted) in counted.iter().enumerate() {
        frame.set_counted(n, Delta::Exact(counted));
    }
    slow::end_read(plan, frame, recorder);
}

/// Gives what a call and the calls inside it cost, `net` of probes, to the call around, and what their probes cost.
/// Returns what the calls inside cost.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as `counted`")]
fn pass_on<F: Fit, const N: usize, const IS_LEAF: bool>(
    plan: &Plan,
    frame: FrameRef,
    below: FrameRef,
    net: &[u64; N],
) -> [u64; N] {
    let (set, mut inside) = (plan.set(), [0; N]);
    if !IS_LEAF {
        inside = array::from_fn(|n| frame.inner[slot::<F>(set, n)].get());
        frame.pass_early_on(&below);
        if F::IS_ONLY_SET {
            // All that is there is in `net`.
            (0..N).for_each(|n| frame.inner[n].set(0));
            below.callers.set(below.callers.get() + 1 + frame.callers.take());
        } else {
            for n in 0..PAID {
                below.add_inner(n, frame.inner[n].take());
            }
        }
    }
    // All loads before the first store: so the compiler takes several at once.
    let sums: [u64; N] = array::from_fn(|n| below.inner[slot::<F>(set, n)].get());
    for n in 0..N {
        let cost = if F::IS_WEIGHTED {
            plan.weight().wrapping_mul(net[n].wrapping_sub(inside[n]))
        } else if F::IS_ONLY_SET {
            net[n]
        } else {
            net[n].wrapping_sub(inside[n])
        };
        below.inner[slot::<F>(set, n)].set(sums[n].wrapping_add(cost));
    }
    if !F::IS_ONLY_SET {
        let costs = &set.costs;
        let mut paid: [u64; PAID] = array::from_fn(|n| below.cost[n].get().wrapping_add(costs.whole[n].get()));
        if !IS_LEAF {
            for (n, paid) in paid.iter_mut().enumerate() {
                *paid = paid.wrapping_add(costs.extra[n].get()).wrapping_add(frame.cost[n].take());
            }
            if frame.callers.take() != 0 {
                add(&plan.cells.estimated, 1);
            }
        }
        for (sum, paid) in below.cost.iter().zip(paid) {
            sum.set(paid);
        }
        if F::IS_WEIGHTED {
            below.callers.set(below.callers.get() + u64::from(plan.weight() > 1));
        }
    }
    inside
}

/// Adds a call to its cells, which have room for it. Where it began, so many calls of the mark were open.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as `counted`")]
fn add_call<const N: usize, const IS_LEAF: bool>(
    before: u64,
    cells: &[&EventCells; N],
    net: &[u64; N],
    inside: &[u64; N],
) {
    // As `MarkCells::is_nested`, by what is at hand.
    if before != 0 && before > cells[0].elsewhere.load(Relaxed) {
        for n in 0..N {
            add(&cells[n].nested, net[n]);
        }
    }
    // The first event last: who sees a call there sees it in all.
    for n in (0..N).rev() {
        if !IS_LEAF {
            add(&cells[n].inside, inside[n]);
        }
        cells[n].values.add_to_sum(net[n]);
        // SAFETY: `end` saw that there is room for it.
        let bucket = unsafe { cells[n].values.bucket(net[n]) };
        if n > 0 { bucket.add() } else { bucket.publish() }
    }
}
