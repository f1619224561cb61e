//! The long way of a marked call's ends: whatever is not as usual, and marks of many events or with events that read(2) alone tells.
#![allow(unsafe_code, reason = "frames and plans are found by pointers that live as long as the thread's recorder")]

use std::sync::atomic::Ordering::Relaxed;
use std::thread::panicking;

use perfmark_rdpmc::Delta;

use super::frames::{Frame, Header, Inside, NO_FRAME, PANICKING, SERIAL, SLOW, Span, Token};
use super::plan::{Ends, Net, Plan, Planned};
use super::thread::{Call, Recorder, put_back};
use crate::histogram::add;

/// The two ends where everything takes the long way.
pub(super) const ENDS: Ends = Ends { begin, end_leaf: end, end };

/// Opens a frame.
///
/// # Safety
///
/// As [`Begin`](super::plan::Begin) has it.
#[inline(never)]
pub(super) unsafe fn begin(recorder: *mut Recorder, plan: *const Plan) -> Call {
    // SAFETY: the caller's word.
    let (recorder_, plan_) = unsafe { (&mut *recorder, &*plan) };
    // SAFETY: cells live as long as the thread's recorder.
    let cells = unsafe { &*plan_.cells };
    let stack = &mut recorder_.stack;
    if stack.is_full(plan_.events.len()) {
        // Deeper than the stack: counted, and unmeasured.
        cells.add_unmeasured(1);
        // SAFETY: the caller's word.
        return unsafe { put_back(recorder, NO_FRAME) };
    }
    let frame = Frame::above(stack.end, plan_.events.len());
    stack.serial += 1;
    let panicking = if panicking() { PANICKING } else { 0 };
    // SAFETY: there is room for it.
    unsafe { frame.header.write(Header { callers: stack.callers, serial: stack.serial | panicking, plan }) };
    stack.end = frame.end();
    cells.open.store(cells.open.load(Relaxed) + 1, Relaxed);
    if recorder_.keeps_costs() {
        recorder_.pay(plan_, |(whole, _)| whole);
    }
    let stack = &mut recorder_.stack;
    // SAFETY: the frame is open, and its spans are no one else's.
    for (planned, span) in unsafe { frame.events() } {
        (span.inside, span.cost) = (planned.slot().inside.get(), planned.slot().cost.get());
    }
    // SAFETY: as above.
    let is_short = |(planned, span): (&Planned, &mut Span)| planned.begin(span);
    // SAFETY: as above.
    unsafe {
        if !frame.events().all(is_short) {
            look(frame);
            read(frame);
        }
    }
    // A header with a note in it is no token: so the call ends by the long way.
    let token = if panicking == 0 { stack.serial } else { stack.serial | SLOW };
    // SAFETY: the caller's word.
    unsafe { put_back(recorder, token) }
}

/// Looks at the counters anew, as the kernel touched them since they were read last. True if the call is to be begun once more, by the short
/// way, so that its beginning is followed by the same instructions always; else it is begun.
///
/// # Safety
///
/// The recorder is this thread's, and its innermost frame is the plan's.
#[cold]
#[inline(never)]
pub(super) unsafe fn look_again(recorder: *mut Recorder, plan: *const Plan) -> bool {
    // SAFETY: the caller's word.
    let (stack, cells) = unsafe { (&mut (*recorder).stack, &*(*plan).cells) };
    let Some(frame) = stack.innermost() else { return false };
    // SAFETY: the caller's word.
    if unsafe { look(frame) } {
        stack.end = frame.spans;
        stack.serial -= 1;
        cells.open.store(cells.open.load(Relaxed) - 1, Relaxed);
        return true;
    }
    // SAFETY: the caller's word.
    unsafe { read(frame) };
    false
}

/// Looks at the counters' pages, and begins with what they say now. Whether all can be read the short way from now on.
///
/// # Safety
///
/// The frame is on this thread's stack.
unsafe fn look(frame: Frame) -> bool {
    let mut is_short = true;
    // SAFETY: the caller's word.
    for (planned, span) in unsafe { frame.events() } {
        if let Some(counter) = planned.slot().counter() {
            counter.begin(&mut span.region);
            is_short &= counter.begin_unchanged(&mut span.region);
        }
    }
    is_short
}

/// Reads once more what can be read the short way, so that the look at the other events' pages is not counted.
///
/// # Safety
///
/// As [`look`].
unsafe fn read(frame: Frame) {
    // SAFETY: the caller's word.
    for (planned, span) in unsafe { frame.events() } {
        _ = planned.begin(span);
    }
}

/// Closes the innermost frame.
///
/// # Safety
///
/// As [`End`](super::plan::End) has it.
#[inline(never)]
pub(super) unsafe fn end(recorder: *mut Recorder, header: *mut Header) {
    // SAFETY: the caller's word.
    unsafe { end_from(recorder, header, false) };
}

/// Closes the innermost frame. If it `is_read`, the spans hold what was counted.
///
/// # Safety
///
/// As [`End`](super::plan::End) has it.
#[cold]
#[inline(never)]
pub(super) unsafe fn end_from(recorder: *mut Recorder, header: *mut Header, is_read: bool) {
    // SAFETY: the caller's word.
    let frame = unsafe { Frame::ending_at(header.add(1).cast()) };
    // The ones that are read the short way first, so that the others' reading is not in them.
    // SAFETY: the caller's word.
    for (planned, span) in unsafe { frame.events() } {
        span.delta = if is_read { Some(span.value) } else { planned.end(span) }.map(Delta::Exact);
    }
    // SAFETY: the caller's word.
    for (planned, span) in unsafe { frame.events() } {
        let long = || planned.slot().counter().map_or(Delta::Unmeasured, |counter| counter.end(&span.region));
        span.delta = span.delta.or_else(|| Some(long()));
    }
    // SAFETY: the caller's word.
    unsafe {
        close(&mut *recorder, frame, panicking());
        put_back(recorder, NO_FRAME);
    }
}

/// Adds a call to its cells, and to what the call around it has inside, and takes its frame off. `delta` is set in all its spans.
///
/// # Safety
///
/// It is the recorder's innermost frame.
unsafe fn close(recorder: &mut Recorder, frame: Frame, panicking: bool) {
    // SAFETY: the caller's word; plans and cells live as long as the recorder.
    let (serial, plan) = unsafe { ((*frame.header).serial, &*(*frame.header).plan) };
    // SAFETY: as above.
    let cells = unsafe { &*plan.cells };
    let unwound = panicking && serial & PANICKING == 0;
    // SAFETY: as above.
    let probes = Inside::of(&recorder.stack, unsafe { &*frame.header });
    let open = cells.open.load(Relaxed).saturating_sub(1);
    cells.open.store(open, Relaxed);
    // SAFETY: the caller's word. The first event last: who sees a call there sees it in all.
    for (n, (planned, span)) in unsafe { frame.events() }.enumerate().rev() {
        let (slot, cells) = (planned.slot(), &cells.events[n]);
        let (counted, is_scaled) = match span.delta {
            Some(Delta::Exact(counted)) => (counted, false),
            Some(Delta::Scaled { estimate, .. }) => (estimate, true),
            Some(Delta::Unmeasured) | None => {
                // What was measured inside stays inside of the call around.
                if !unwound {
                    add(&cells.unmeasured, 1);
                }
                continue;
            }
        };
        let overhead = if probes.is_none() {
            planned.own.get()
        } else if recorder.keeps_costs() {
            planned.own_caller.get().wrapping_add(slot.cost.get().wrapping_sub(span.cost))
        } else {
            probes.overhead(planned)
        };
        let net = Net::of(counted, overhead);
        let inside = net.leave(slot, span.inside);
        if unwound {
            continue;
        }
        // Where there is no memory for the histogram to grow the call is unmeasured.
        let Some(bucket) = cells.values.grow(net.shown(), recorder.arena()) else {
            add(&cells.unmeasured, 1);
            continue;
        };
        add(&cells.inside, inside.wrapping_add(net.lost()));
        if open != 0 {
            add(&cells.nested, net.shown());
        }
        if is_scaled {
            add(&cells.scaled, 1);
        }
        bucket.add();
    }
    if unwound {
        add(&cells.unwound, 1);
    }
    if !probes.is_none() {
        recorder.stack.callers += 1;
        if recorder.keeps_costs() {
            recorder.pay(plan, |(_, extra)| extra);
        }
    }
    recorder.stack.end = frame.spans;
}

/// A guard whose frame is not the innermost, or that ends by the long way. The frames above its own were never ended: they are counted, and
/// unmeasured. Where its own frame is gone, there is nothing to do.
///
/// # Safety
///
/// The recorder is this thread's, taken out.
#[cold]
#[inline(never)]
pub(super) unsafe fn leave(recorder: *mut Recorder, token: Token) {
    // SAFETY: the caller's word.
    let stack = unsafe { &mut (*recorder).stack };
    // SAFETY: frames on the stack.
    let is_its = |frame: &Frame| unsafe { (*frame.header).serial } & SERIAL == token & SERIAL;
    if stack.iter().any(|frame| is_its(&frame)) {
        let mut is_innermost = true;
        while let Some(frame) = stack.innermost() {
            if is_its(&frame) {
                if !is_innermost {
                    // So that none of the tokens above it is the last one any more.
                    stack.serial += 1;
                }
                // SAFETY: the caller's word; it is the innermost.
                return unsafe { end(recorder, frame.header) };
            }
            is_innermost = false;
            // SAFETY: frames, plans and cells live as long as the recorder.
            let cells = unsafe { &*(*(*frame.header).plan).cells };
            cells.open.store(cells.open.load(Relaxed).saturating_sub(1), Relaxed);
            cells.add_unmeasured(1);
            stack.end = frame.spans;
        }
    }
    // SAFETY: the caller's word.
    unsafe { put_back(recorder, NO_FRAME) };
}
