//! The probe: what a marked call executes between finding its thread's state and returning to the program, while nothing is unusual.
//!
//! Each function here ends by returning, or by calling one of `long` at its very end: so it saves no registers for what seldom happens.
#![allow(unsafe_code, reason = "frames and plans are found by pointers that live as long as the thread's recorder")]

use std::array;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::panicking;

use perfmark_rdpmc::{Counter, clock};

use super::frames::{Frame, Header, Inside, NO_FRAME, Span};
use super::long;
use super::plan::{Ends, Net, Plan, Planned};
use super::thread::{Call, Recorder, put_back};
use crate::cells::EventCells;
use crate::histogram::{Bucket, add};

/// The two ends for a mark of these events, of which `time` is the first if it is among them.
pub(super) fn ends(events: &[Planned]) -> Ends {
    macro_rules! ends {
        ($($count:literal)*) => {
            match (events.len(), events.first().is_some_and(|first| first.slot().counter().is_none())) {
                $(
                    ($count, false) => ends_of::<$count, false>(),
                    ($count, true) => ends_of::<$count, true>(),
                )*
                _ => long::ENDS,
            }
        };
    }
    if events.len() > 1 && !Counter::may_be_next() {
        return long::ENDS;
    }
    ends!(1 2 3 4)
}

fn ends_of<const N: usize, const TIMED: bool>() -> Ends {
    Ends { begin: begin::<N, TIMED>, end_leaf: end::<N, TIMED, true>, end: end::<N, TIMED, false> }
}

/// Reads event `n` at the beginning of a call; false where that takes the long way.
///
/// # Safety
///
/// The first event is time if `TIMED`, the others are counters, and the events before `n` were just read.
#[inline]
unsafe fn begin_event<const TIMED: bool>(events: &[Planned], n: usize, span: &mut Span) -> bool {
    if TIMED && n == 0 {
        span.value = clock::ticks();
        return true;
    }
    // SAFETY: the caller's word; the first counter is checked, the others are right behind it.
    unsafe {
        let counter = events[n].known_counter();
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
unsafe fn end_event<const TIMED: bool>(events: &[Planned], n: usize, span: &Span) -> Option<u64> {
    if TIMED && n == 0 {
        return clock::ticks().checked_sub(span.value);
    }
    // SAFETY: as in `begin_event`.
    unsafe {
        let counter = events[n].known_counter();
        if n == usize::from(TIMED) { counter.end_unchanged(&span.region) } else { counter.end_next(&span.region) }
    }
}

/// Opens a frame; the counters are read last.
///
/// # Safety
///
/// As [`Begin`](super::plan::Begin) has it; the plan has `N` events.
unsafe fn begin<const N: usize, const TIMED: bool>(recorder: *mut Recorder, plan: *const Plan) -> Call {
    loop {
        // First of all, where little has to be kept over the call that this can be.
        if panicking() {
            // SAFETY: the caller's word.
            return unsafe { long::begin(recorder, plan) };
        }
        // SAFETY: the caller's word.
        let (stack, events, cells) =
            unsafe { (&mut (*recorder).stack, &*(&raw const *(*plan).events).cast::<[Planned; N]>(), &*(*plan).cells) };
        if stack.is_full(N) {
            // SAFETY: the caller's word.
            return unsafe { long::begin(recorder, plan) };
        }
        let frame = Frame::above(stack.end, N);
        // SAFETY: there is room for it.
        let spans = unsafe { &mut *frame.spans.cast::<[Span; N]>() };
        let serial = stack.serial + 1;
        // SAFETY: as above.
        unsafe { frame.header.write(Header { callers: stack.callers, serial, plan }) };
        (stack.end, stack.serial) = (frame.end(), serial);
        cells.open.store(cells.open.load(Relaxed) + 1, Relaxed);
        let is_read = spans.iter_mut().enumerate().all(|(n, span)| {
            span.inside = events[n].slot().inside.get();
            // SAFETY: the events are read in their order.
            unsafe { begin_event::<TIMED>(events, n, span) }
        });
        // SAFETY: the frame is open.
        if is_read || !unsafe { long::look_again(recorder, plan) } {
            // SAFETY: the caller's word.
            return unsafe { put_back(recorder, serial) };
        }
    }
}

/// Closes the innermost frame; the counters are read first.
///
/// # Safety
///
/// As [`End`](super::plan::End) has it; the call has `N` events, and is a leaf if it says so.
unsafe fn end<const N: usize, const TIMED: bool, const IS_LEAF: bool>(recorder: *mut Recorder, header: *mut Header) {
    if panicking() {
        // SAFETY: the caller's word.
        return unsafe { long::end(recorder, header) };
    }
    let frame = Frame { spans: header.cast::<Span>().wrapping_sub(N), header };
    // SAFETY: the caller's word.
    let (spans, plan) = unsafe { (&mut *frame.spans.cast::<[Span; N]>(), &*(*header).plan) };
    // SAFETY: the caller's word.
    let events = unsafe { &*(&raw const *plan.events).cast::<[Planned; N]>() };
    let mut counted = [0; N];
    for n in 0..N {
        // SAFETY: the events are read in their order.
        match unsafe { end_event::<TIMED>(events, n, &spans[n]) } {
            Some(value) => counted[n] = value,
            // SAFETY: the caller's word.
            None => return unsafe { long::end(recorder, header) },
        }
    }
    // SAFETY: the caller's word.
    let inside = if IS_LEAF { Inside::default() } else { unsafe { Inside::of(&(*recorder).stack, &*header) } };
    // SAFETY: the caller's word.
    let is_accounted = unsafe { account::<N, IS_LEAF>(plan, spans, &counted, inside) };
    if !is_accounted {
        for (span, counted) in spans.iter_mut().zip(counted) {
            span.value = counted;
        }
        // SAFETY: the caller's word.
        return unsafe { long::end_from(recorder, header, true) };
    }
    // SAFETY: the caller's word.
    unsafe {
        (*recorder).stack.end = frame.spans;
        if !IS_LEAF {
            (*recorder).stack.callers += 1;
        }
    }
    // SAFETY: the caller's word.
    unsafe { put_back(recorder, NO_FRAME) };
}

/// Adds a call to its cells, and to what the call around it has inside. False, and nothing is changed, if a histogram has to grow first.
///
/// # Safety
///
/// The plan has `N` events and is of a thread that is alive. A leaf is a call without marked calls inside: `inside` is how many there were.
#[inline(always)]
#[allow(clippy::inline_always, reason = "a part of `end`")]
unsafe fn account<const N: usize, const IS_LEAF: bool>(
    plan: &Plan,
    spans: &[Span; N],
    counted: &[u64; N],
    inside: Inside,
) -> bool {
    // SAFETY: the caller's word.
    let (events, cells) = unsafe { (&*(&raw const *plan.events).cast::<[Planned; N]>(), &*plan.cells) };
    // SAFETY: the caller's word.
    let event_cells = unsafe { &*(&raw const *cells.events).cast::<[EventCells; N]>() };
    let net: [Net; N] = array::from_fn(|n| {
        Net::of(counted[n], if IS_LEAF { events[n].own.get() } else { inside.overhead(&events[n]) })
    });
    let buckets: [Option<Bucket<'_>>; N] = array::from_fn(|n| event_cells[n].values.bucket(net[n].shown()));
    if buckets.iter().any(Option::is_none) {
        return false;
    }
    let open = cells.open.load(Relaxed) - 1;
    cells.open.store(open, Relaxed);
    // The first event last: who sees a call there sees it in all.
    for n in (0..N).rev() {
        let (net, slot, cells) = (net[n], events[n].slot(), &event_cells[n]);
        if IS_LEAF {
            net.leave(slot, slot.inside.get());
            if net.is_less_than_nothing() {
                add(&cells.inside, net.lost());
            }
        } else {
            let inside = net.leave(slot, spans[n].inside);
            add(&cells.inside, inside.wrapping_add(net.lost()));
        }
        if open != 0 {
            add(&cells.nested, net.shown());
        }
        if let Some(bucket) = buckets[n] {
            bucket.add();
        }
    }
    true
}
