//! The probe: what a marked call executes between finding its thread's state and returning to the program, while nothing is unusual.
//!
//! Each function here ends by returning, or by calling one of `long` at its very end: so it saves no registers for what seldom happens.
#![allow(unsafe_code, reason = "frames and plans are found by pointers that live as long as the thread's recorder")]

use std::array;
use std::hint::assert_unchecked;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::{Counter, clock};

use super::frames::{Frame, Header, Inside, NO_FRAME, Span, Stack};
use super::long::{self, Part};
use super::plan::{Ends, Parts, Plan, Set, Sums, shown};
use super::sources::{SLOTS, Slot};
use super::thread::{Call, Recorder, put_back};
use crate::histogram::add;

/// Where a thread keeps costs, the short way is for so many slots at most.
pub(super) const PAID: usize = 8;

/// The two ends for marks of a set, in which `time` is the first event if it is among them, on a thread of so many slots. Of marks whose calls count as
/// several, costs are always kept.
pub(super) fn ends(set: &Set, slots: usize, keeps_costs: bool, is_weighted: bool) -> Ends {
    macro_rules! ends {
        ($($count:literal)*) => {
            match (set.len(), set.events().any(|event| event.slot().counter().is_none()), keeps_costs, is_weighted) {
                $(
                    ($count, false, false, _) => ends_of::<$count, false, false, false>(),
                    ($count, true, false, _) => ends_of::<$count, true, false, false>(),
                    ($count, false, true, false) => ends_of::<$count, false, true, false>(),
                    ($count, true, true, false) => ends_of::<$count, true, true, false>(),
                    ($count, false, true, true) => ends_of::<$count, false, true, true>(),
                    ($count, true, true, true) => ends_of::<$count, true, true, true>(),
                )*
                _ => long::ENDS,
            }
        };
    }
    let is_long = set.events().any(|event| event.slot().is_kernels())
        || set.len() > 1 && !Counter::may_be_next()
        || keeps_costs && slots > PAID;
    if is_long { long::ENDS } else { ends!(1 2 3 4) }
}

fn ends_of<const N: usize, const TIMED: bool, const COSTS: bool, const WEIGHTED: bool>() -> Ends {
    Ends {
        begin: begin::<N, TIMED, COSTS>,
        end_leaf: end::<N, TIMED, COSTS, WEIGHTED, true>,
        end: end::<N, TIMED, COSTS, WEIGHTED, false>,
        close_leaf: close::<N, TIMED, COSTS, WEIGHTED, true>,
        close: close::<N, TIMED, COSTS, WEIGHTED, false>,
    }
}

/// Where a set's event `n` is among its thread's slots: where these are all of one set, at the same place.
#[inline]
fn place<const COSTS: bool>(set: &Set, n: usize) -> usize {
    let at = if COSTS { set.at[n] } else { n };
    // SAFETY: as every slot's place.
    unsafe { assert_unchecked(at < SLOTS) };
    at
}

/// Reads event `n` at the beginning of a call; false where that takes the long way.
///
/// # Safety
///
/// The first event is time if `TIMED`, the others are counters, and the events before `n` were just read.
#[inline]
unsafe fn begin_event<const TIMED: bool>(slot: &Slot, n: usize, span: &mut Span) -> bool {
    if TIMED && n == 0 {
        span.value = clock::ticks();
        return true;
    }
    // SAFETY: the caller's word; the first counter is checked, the others are right behind it.
    unsafe {
        let counter = slot.counter().unwrap_unchecked();
        if n == usize::from(TIMED) {
            counter.begin_unchanged(&mut span.region)
        } else {
            counter.begin_next(&mut span.region)
        }
    }
}

/// What event `n` counted since; None where that takes the long way.
///
/// # Safety
///
/// As [`begin_event`].
#[inline]
unsafe fn end_event<const TIMED: bool>(slot: &Slot, n: usize, span: &Span) -> Option<u64> {
    if TIMED && n == 0 {
        let begun = span.value;
        return clock::ticks().checked_sub(begun);
    }
    // SAFETY: as in `begin_event`.
    unsafe {
        let counter = slot.counter().unwrap_unchecked();
        if n == usize::from(TIMED) { counter.end_own(&span.region) } else { counter.end_next(&span.region) }
    }
}

/// Opens a frame; the counters are read last.
///
/// # Safety
///
/// As [`Begin`](super::plan::Begin) has it; the plan has `N` events.
unsafe fn begin<const N: usize, const TIMED: bool, const COSTS: bool>(
    recorder: *mut Recorder,
    plan: *const Plan,
) -> Call {
    // SAFETY: the caller's word.
    let (stack, sums, plan_) = unsafe { (&mut (*recorder).stack, &(*recorder).sums, &*plan) };
    if stack.is_full(N) {
        // SAFETY: the caller's word.
        return unsafe { long::begin(recorder, plan) };
    }
    let frame = Frame::above(stack.end, N);
    let serial = stack.serial + 1;
    let before = plan_.cells.open.load(Relaxed);
    // SAFETY: there is room for it.
    let spans = unsafe { &mut *frame.spans.cast::<[Span; N]>() };
    // SAFETY: as above.
    unsafe { frame.header.write(Header { callers: stack.callers, serial, plan, before }) };
    (stack.end, stack.serial) = (frame.end(), serial);
    let set = plan_.set();
    if COSTS {
        sums.pay::<PAID>(&set.costs.whole);
    }
    let mut inside = [0; N];
    for (n, inside) in inside.iter_mut().enumerate() {
        *inside = sums.inside[place::<COSTS>(set, n)].get();
    }
    for (n, span) in spans.iter_mut().enumerate() {
        span.inside = inside[n];
        if COSTS {
            span.cost = sums.cost[place::<COSTS>(set, n)].get();
        }
    }
    // SAFETY: the caller's word.
    let slots: [&Slot; N] = unsafe { set.first_slots() };
    for (n, span) in spans.iter_mut().enumerate() {
        // SAFETY: the events are read in their order.
        if !unsafe { begin_event::<TIMED>(slots[n], n, span) } {
            // SAFETY: the frame is open.
            return unsafe { long::begin_again(recorder, plan) };
        }
    }
    // Behind the reading, which on x86-64 waits for what stands before it.
    plan_.cells.open.store(before + 1, Relaxed);
    // SAFETY: the caller's word.
    unsafe { put_back(recorder, serial) }
}

/// What a call counted, and how much of that probes are.
struct Counted<const N: usize> {
    counted: [u64; N],
    overhead: [u64; N],
}

/// Reads the counters of the innermost call. None where that takes the long way.
///
/// # Safety
///
/// As [`end`].
#[inline(always)]
#[allow(clippy::inline_always, reason = "nothing may stand between the program and the readings but what is measured")]
unsafe fn count<const N: usize, const TIMED: bool, const COSTS: bool, const IS_LEAF: bool>(
    recorder: *mut Recorder,
    header: *mut Header,
    spans: &[Span; N],
) -> Option<Counted<N>> {
    // SAFETY: the caller's word.
    let set = unsafe { (*(*header).plan).set() };
    // SAFETY: the caller's word.
    let slots: [&Slot; N] = unsafe { set.first_slots() };
    // SAFETY: the caller's word.
    let (stack, sums) = unsafe { (&(*recorder).stack, &(*recorder).sums) };
    // SAFETY: the caller's word.
    let inside = if IS_LEAF { Inside::default() } else { unsafe { Inside::of(stack, &*header) } };
    // Before the readings, as on x86-64 the processor goes on behind one only when it is done.
    let mut overhead = [0; N];
    for n in 0..N {
        overhead[n] = if IS_LEAF {
            set.own[n].get()
        } else if COSTS {
            set.own_caller[n].get().wrapping_add(cost_since(sums, place::<COSTS>(set, n), &spans[n]))
        } else {
            set.overhead(n, n, inside)
        };
    }
    let mut counted = [0; N];
    for n in 0..N {
        // SAFETY: the events are read in their order.
        counted[n] = unsafe { end_event::<TIMED>(slots[n], n, &spans[n]) }?;
    }
    Some(Counted { counted, overhead })
}

/// Adds what a call cost that ends, `net` of probes, to what the call around it has inside; and gives what the calls inside it cost.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as `count`")]
fn leave<const N: usize, const COSTS: bool, const WEIGHTED: bool, const IS_LEAF: bool>(
    sums: &Sums,
    plan: &Plan,
    spans: &[Span; N],
    net: &[u64; N],
) -> [u64; N] {
    let set = plan.set();
    // Loaded and stored together, so that they are in pairs.
    let (mut so_far, mut inside) = ([0; N], [0; N]);
    for n in 0..N {
        so_far[n] = sums.inside[place::<COSTS>(set, n)].get();
        inside[n] = if IS_LEAF { 0 } else { so_far[n].wrapping_sub(spans[n].inside) };
    }
    for n in 0..N {
        // As `Sums::leave`.
        let now = if WEIGHTED {
            so_far[n].wrapping_add(plan.weight().wrapping_mul(net[n].wrapping_sub(inside[n])))
        } else {
            (if IS_LEAF { so_far[n] } else { spans[n].inside }).wrapping_add(net[n])
        };
        sums.inside[place::<COSTS>(set, n)].set(now);
    }
    inside
}

/// Takes a frame off.
#[inline(always)]
#[allow(clippy::inline_always, reason = "as `count`")]
fn pop<const COSTS: bool, const WEIGHTED: bool, const IS_LEAF: bool>(
    stack: &mut Stack,
    sums: &Sums,
    plan: &Plan,
    header: &Header,
    spans: *mut Span,
) {
    stack.end = spans;
    if COSTS && !IS_LEAF {
        if header.callers != stack.callers {
            add(&plan.cells.estimated, 1);
            stack.callers = header.callers;
        }
        sums.pay::<PAID>(&plan.set().costs.extra);
    } else if !IS_LEAF {
        stack.callers += 1;
    }
    if WEIGHTED {
        stack.callers += 1;
    }
}

/// Closes the innermost frame; the counters are read first.
///
/// # Safety
///
/// As [`End`](super::plan::End) has it; the call has `N` events, and is a leaf if it says so: no marked call is inside it.
unsafe fn end<const N: usize, const TIMED: bool, const COSTS: bool, const WEIGHTED: bool, const IS_LEAF: bool>(
    recorder: *mut Recorder,
    header: *mut Header,
) {
    let frame = Frame { spans: header.cast::<Span>().wrapping_sub(N), header };
    // SAFETY: the caller's word.
    let (spans, header_) = unsafe { (&mut *frame.spans.cast::<[Span; N]>(), &*header) };
    let &Header { plan, before, .. } = header_;
    // SAFETY: the caller's word.
    let (cells, plan_) = unsafe { ((*plan).event_cells::<N>(), &*plan) };
    // SAFETY: the caller's word.
    let Some(Counted { counted, overhead }) = (unsafe { count::<N, TIMED, COSTS, IS_LEAF>(recorder, header, spans) })
    else {
        // SAFETY: the caller's word.
        return unsafe { long::end(recorder, header) };
    };
    let mut net = [0; N];
    for n in 0..N {
        net[n] = counted[n].wrapping_sub(overhead[n]);
        if !cells[n].values.spans(shown(net[n])) {
            for (span, counted) in spans.iter_mut().zip(counted) {
                span.value = counted;
            }
            // SAFETY: the caller's word.
            return unsafe { long::end_from(recorder, header, true, false) };
        }
    }
    plan_.cells.open.store(before, Relaxed);
    // SAFETY: the caller's word.
    let (stack, sums) = unsafe { (&mut (*recorder).stack, &(*recorder).sums) };
    let inside = leave::<N, COSTS, WEIGHTED, IS_LEAF>(sums, plan_, spans, &net);
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
        // SAFETY: as was just seen.
        let bucket = unsafe { cells[n].values.bucket(shown(net[n])) };
        if n > 0 { bucket.add() } else { bucket.publish() }
    }
    pop::<COSTS, WEIGHTED, IS_LEAF>(stack, sums, plan_, header_, frame.spans);
    // SAFETY: the caller's word.
    unsafe { put_back(recorder, NO_FRAME) };
}

/// Closes the innermost frame, which is of a poll, and gives what it cost; the counters are read first. False where that takes the long way: then
/// nothing is done.
///
/// # Safety
///
/// As [`end`], but that the recorder is not put back.
unsafe fn close<const N: usize, const TIMED: bool, const COSTS: bool, const WEIGHTED: bool, const IS_LEAF: bool>(
    recorder: *mut Recorder,
    header: *mut Header,
    parts: &mut Parts,
) -> bool {
    let spans = header.cast::<Span>().wrapping_sub(N);
    // SAFETY: the caller's word.
    let (spans_, header_, plan) = unsafe { (&*spans.cast::<[Span; N]>(), &*header, &*(*header).plan) };
    // SAFETY: the caller's word.
    let Some(Counted { counted, overhead }) = (unsafe { count::<N, TIMED, COSTS, IS_LEAF>(recorder, header, spans_) })
    else {
        return false;
    };
    let net: [u64; N] = array::from_fn(|n| counted[n].wrapping_sub(overhead[n]));
    plan.cells.open.store(header_.before, Relaxed);
    // SAFETY: the caller's word.
    let (stack, sums) = unsafe { (&mut (*recorder).stack, &(*recorder).sums) };
    let inside = leave::<N, COSTS, WEIGHTED, IS_LEAF>(sums, plan, spans_, &net);
    for n in 0..N {
        parts[n] = Some(Part { net: net[n], inside: inside[n], is_scaled: false });
    }
    pop::<COSTS, WEIGHTED, IS_LEAF>(stack, sums, plan, header_, spans);
    true
}

/// What probes cost in the slot at `at` since the call began.
#[inline]
fn cost_since(sums: &Sums, at: usize, span: &Span) -> u64 {
    sums.cost[at].get().wrapping_sub(span.cost)
}
