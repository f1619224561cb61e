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

use super::call_token::Token;
use super::counters::EVENT_SLOTS;
use super::overhead::{FAST_EVENT_SLOTS, InnerCalls};
use super::plan::{EventSet, Plan, node_of};
use super::slow;
use super::stack::FrameRef;
use super::state::{HeldRecorder, Recorder};
use crate::cells::EventCells;
use crate::histogram::add;

/// What a hook is for, known when it is bound: FIT.
///
/// The mark has `N` events, of which `K` are counters that its set reads together; the one before them, if there is
/// one, is time.
pub(super) trait HookParams {
    /// Whether the thread's marks have one set of events, so that each event's slot is its index, and what probes cost
    /// follows from the number of calls. Otherwise the thread has [`PAID`] slots at most, and keeps costs.
    const IS_SINGLE_SET: bool;
    /// Whether calls may count as several.
    const IS_WEIGHTED: bool;
    /// Whether there is a call graph.
    const HAS_GRAPH: bool;
}

/// Marks of a thread that keeps no costs.
pub(super) struct SingleSet;
/// Marks of a thread that keeps costs.
pub(super) struct SeveralSets;
/// The same, of which one call in some is measured.
pub(super) struct Weighted;
/// All marks, where there is a call graph.
pub(super) struct WithGraph;

impl HookParams for SingleSet {
    const IS_SINGLE_SET: bool = true;
    const IS_WEIGHTED: bool = false;
    const HAS_GRAPH: bool = false;
}

impl HookParams for SeveralSets {
    const IS_SINGLE_SET: bool = false;
    const IS_WEIGHTED: bool = false;
    const HAS_GRAPH: bool = false;
}

impl HookParams for Weighted {
    const IS_SINGLE_SET: bool = false;
    const IS_WEIGHTED: bool = true;
    const HAS_GRAPH: bool = false;
}

impl HookParams for WithGraph {
    const IS_SINGLE_SET: bool = false;
    const IS_WEIGHTED: bool = true;
    const HAS_GRAPH: bool = true;
}

/// Whether what can be looked up before the counters are read is, for so many events: on x86-64 the processor goes on
/// behind a reading only when it is done. On arm64, where loads of neighbours are one instruction, there are registers
/// for two events.
const fn loads_early(events: usize) -> bool {
    cfg!(target_arch = "x86_64") || events <= 2
}

/// The slot of a set's event `n`.
#[inline]
fn slot_index<P: HookParams>(set: &EventSet, n: usize) -> usize {
    let slot = if P::IS_SINGLE_SET { n } else { set.slot_indices[n] };
    // SAFETY: FIT.
    unsafe { assert_unchecked(slot < if P::IS_SINGLE_SET { EVENT_SLOTS } else { FAST_EVENT_SLOTS }) };
    slot
}

/// Begins a call; the counters are read last.
pub(super) fn begin<P: HookParams, const N: usize, const K: usize>(plan: &Plan, recorder: HeldRecorder) -> Token {
    let stack = &recorder.stack;
    let Some(frame) = stack.next() else { return slow::begin(plan, recorder) };
    let open_before = plan.cells.open.load(Relaxed);
    let token = stack.open(frame, plan.pointer(), open_before);
    if P::HAS_GRAPH {
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
    // SAFETY: FIT.
    let Some(raw) = (unsafe { set.counters.read::<K>(locks) }) else {
        return slow::begin_again(plan, recorder, frame);
    };
    if K > 0 {
        frame.locks.set(locks);
    }
    (0..K).for_each(|n| frame.begun[N - K + n].set(raw[n]));
    // Behind the reading, which on x86-64 waits for what comes before it.
    plan.cells.open.store(open_before + 1, Relaxed);
    recorder.release();
    token
}

/// What each event of the innermost call counted. `None` where that takes the slow path. Ticks that ran backwards, and
/// a counter that overflowed a moment ago, of which the kernel does not know yet, give less than nothing.
#[inline(always)]
#[allow(clippy::inline_always, reason = "nothing may be between the program and the readings but what is measured")]
fn read_counts<const N: usize, const K: usize>(set: &EventSet, frame: FrameRef) -> Option<[u64; N]> {
    let mut counted = [0; N];
    let begun = |n: usize| frame.begun[n].get();
    let early: [u64; N] = array::from_fn(begun);
    if K < N {
        counted[0] = clock::ticks().wrapping_sub(early[0]);
    }
    // SAFETY: FIT; and `begin` put the locks there. What the slow path puts there is no sum of locks.
    let raw = unsafe { set.counters.read::<K>(frame.locks.get()) }?;
    for n in N - K..N {
        counted[n] = raw[n - (N - K)].wrapping_sub(if loads_early(N) { early[n] } else { begun(n) });
    }
    Some(counted)
}

/// What probes cost that the innermost call's events saw.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as `counted`")]
fn probe_overhead<P: HookParams, const N: usize, const IS_LEAF: bool>(
    set: &EventSet,
    frame: FrameRef,
    recorder: &Recorder,
) -> [u64; N] {
    let overhead = &set.overhead;
    if IS_LEAF {
        return array::from_fn(|n| overhead.in_leaf[n].get());
    }
    let inner = InnerCalls::of(&frame, recorder.stack.serial.get());
    array::from_fn(|n| overhead.of_caller(&frame, n, slot_index::<P>(set, n), inner, !P::IS_SINGLE_SET))
}

/// Ends the innermost call; the counters are read first. It is a leaf if it says so: no marked call is inside it.
pub(super) fn end<P: HookParams, const N: usize, const K: usize, const IS_LEAF: bool>(
    plan: &Plan,
    frame: FrameRef,
    recorder: HeldRecorder,
) {
    let set = plan.set();
    let look_up = || {
        // SAFETY: FIT.
        let cells = unsafe { plan.event_cells::<N>() };
        (cells, frame.open_before.get(), frame.below(), probe_overhead::<P, N, IS_LEAF>(set, frame, &recorder))
    };
    let early = loads_early(N).then(look_up);
    let Some(counted) = read_counts::<N, K>(set, frame) else { return slow::end(plan, frame, recorder) };
    let (cells, open_before, below, overhead) = early.unwrap_or_else(look_up);
    let net: [u64; N] = array::from_fn(|n| counted[n].wrapping_sub(overhead[n]));
    // A counter that overflowed before the kernel noticed gives a difference that no histogram has room for. Ticks that
    // ran backwards are no time.
    if !plan.has_room(&net) || K < N && counted[0].cast_signed() < 0 {
        return end_out_of_range(plan, frame, recorder, &counted);
    }
    plan.cells.open.store(open_before, Relaxed);
    let inside = pass_to_caller::<P, N, IS_LEAF>(plan, frame, below, &net);
    add_call::<N, IS_LEAF>(open_before, &cells, &net, &inside);
    if P::HAS_GRAPH
        && let Some(node) = node_of(&frame)
    {
        let weighted = |costs: &[u64; N]| costs.map(|cost| cost.wrapping_mul(plan.weight()));
        node.add_call();
        // SAFETY: the node is the mark's, or takes any.
        unsafe { node.add_costs::<N, IS_LEAF>(&weighted(&net), &weighted(&inside)) };
    }
    recorder.stack.pop_to(below);
    recorder.release();
}

/// Closes the innermost frame, which is of a poll, and gives what it cost; the counters are read first.
pub(super) fn close<P: HookParams, const N: usize, const K: usize, const IS_LEAF: bool>(
    plan: &Plan,
    frame: FrameRef,
    recorder: &Recorder,
) -> bool {
    let set = plan.set();
    let early = loads_early(N).then(|| probe_overhead::<P, N, IS_LEAF>(set, frame, recorder));
    let Some(counted) = read_counts::<N, K>(set, frame) else { return false };
    let overhead: [u64; N] = early.unwrap_or_else(|| probe_overhead::<P, N, IS_LEAF>(set, frame, recorder));
    if counted.iter().any(|counted| counted.cast_signed() < 0) {
        return false;
    }
    let net: [u64; N] = array::from_fn(|n| counted[n].wrapping_sub(overhead[n]));
    plan.cells.open.store(frame.open_before.get(), Relaxed);
    let below = frame.below();
    let inside = pass_to_caller::<P, N, IS_LEAF>(plan, frame, below, &net);
    for n in 0..N {
        frame.begun[n].set(net[n]);
        frame.aux[n].set(inside[n]);
    }
    recorder.stack.pop_to(below);
    true
}

/// Goes on with the end of a call that does not fit into its histograms yet, or whose counts are none.
#[inline(always)]
#[allow(clippy::inline_always, reason = "so that its arguments are kept in registers")]
fn end_out_of_range<const N: usize>(plan: &Plan, frame: FrameRef, recorder: HeldRecorder, counted: &[u64; N]) {
    if counted.iter().any(|counted| counted.cast_signed() < 0) {
        return slow::end(plan, frame, recorder);
    }
    for (n, &counted) in counted.iter().enumerate() {
        frame.set_counted(n, Delta::Exact(counted));
    }
    slow::end_counted(plan, frame, recorder);
}

/// Gives what a call and the calls inside it cost, `net` of probes, to the call around, and what their probes cost.
/// Returns what the calls inside cost.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as `counted`")]
fn pass_to_caller<P: HookParams, const N: usize, const IS_LEAF: bool>(
    plan: &Plan,
    frame: FrameRef,
    below: FrameRef,
    net: &[u64; N],
) -> [u64; N] {
    let (set, mut inside) = (plan.set(), [0; N]);
    if !IS_LEAF {
        inside = array::from_fn(|n| frame.inner_cost[slot_index::<P>(set, n)].get());
        frame.pass_early_on(&below);
        if P::IS_SINGLE_SET {
            // All that is there is in `net`.
            (0..N).for_each(|n| frame.inner_cost[n].set(0));
            below.inner_callers.set(below.inner_callers.get() + 1 + frame.inner_callers.take());
        } else {
            for n in 0..FAST_EVENT_SLOTS {
                below.add_inner_cost(n, frame.inner_cost[n].take());
            }
        }
    }
    // All loads before the first store: so the compiler takes several at once.
    let sums: [u64; N] = array::from_fn(|n| below.inner_cost[slot_index::<P>(set, n)].get());
    for n in 0..N {
        let cost = if P::IS_WEIGHTED {
            plan.weight().wrapping_mul(net[n].wrapping_sub(inside[n]))
        } else if P::IS_SINGLE_SET {
            net[n]
        } else {
            net[n].wrapping_sub(inside[n])
        };
        below.inner_cost[slot_index::<P>(set, n)].set(sums[n].wrapping_add(cost));
    }
    if !P::IS_SINGLE_SET {
        let overhead = &set.overhead;
        let mut sums: [u64; FAST_EVENT_SLOTS] =
            array::from_fn(|n| below.inner_overhead[n].get().wrapping_add(overhead.total[n].get()));
        if !IS_LEAF {
            for (n, sums) in sums.iter_mut().enumerate() {
                *sums = sums.wrapping_add(overhead.caller_extra[n].get()).wrapping_add(frame.inner_overhead[n].take());
            }
            if frame.inner_callers.take() != 0 {
                add(&plan.cells.estimated, 1);
            }
        }
        for (sum, sums) in below.inner_overhead.iter().zip(sums) {
            sum.set(sums);
        }
        if P::IS_WEIGHTED {
            below.inner_callers.set(below.inner_callers.get() + u64::from(plan.weight() > 1));
        }
    }
    inside
}

/// Adds a call to its cells, which have room for it. Where it began, so many calls of the mark were open.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as `counted`")]
fn add_call<const N: usize, const IS_LEAF: bool>(
    open_before: u64,
    cells: &[&EventCells; N],
    net: &[u64; N],
    inside: &[u64; N],
) {
    // As `MarkCells::is_nested`, by what is at hand.
    if open_before != 0 && open_before > cells[0].elsewhere.load(Relaxed) {
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
