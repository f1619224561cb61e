//! The long way of a marked call's ends: whatever is not as usual, and marks of many events or with events that read(2) alone tells.
#![allow(unsafe_code, reason = "frames and plans are found by pointers that live as long as the thread's recorder")]

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::Delta;

use super::frames::{Frame, Header, Inside, NO_FRAME, PANICKING, SERIAL, SLOW, Stack, Token};
use super::plan::{Ends, Plan, Planned, shown};
use super::sources::SLOTS;
use super::thread::{Call, Recorder, put_back};
use crate::arena::Arena;
use crate::cells::EventCells;
use crate::graph::Node;
use crate::histogram::add;
use crate::start;

/// The two ends where everything takes the long way.
pub(super) const ENDS: Ends = Ends { begin, end_leaf: end, end, close_leaf: |_, _, _| false, close: |_, _, _| false };

/// Opens a frame.
///
/// # Safety
///
/// As [`Begin`](super::plan::Begin) has it.
#[inline(never)]
pub(super) unsafe fn begin(recorder: *mut Recorder, plan: *const Plan) -> Call {
    // SAFETY: the caller's word.
    let (recorder_, plan_) = unsafe { (&mut *recorder, &*plan) };
    let (stack, events, cells) = (&mut recorder_.stack, plan_.set().len(), &plan_.cells);
    if stack.is_full(events) {
        // SAFETY: the caller's word.
        return unsafe { begin_full(recorder, plan) };
    }
    let frame = Frame::above(stack.end, events);
    stack.serial += 1;
    let before = cells.open.load(Relaxed);
    // SAFETY: there is room for it.
    unsafe { frame.header.write(Header { callers: stack.callers, serial: stack.serial, plan, before }) };
    stack.end = frame.end();
    cells.open.store(before + 1, Relaxed);
    if recorder_.keeps_costs() {
        recorder_.sums.pay::<SLOTS>(&plan_.set().costs.whole);
    }
    let (stack, sums) = (&mut recorder_.stack, &recorder_.sums);
    // SAFETY: the frame is open, and its spans are no one else's.
    for (planned, span) in unsafe { frame.events() } {
        (span.inside, span.cost) = (sums.inside[planned.at].get(), sums.cost[planned.at].get());
    }
    let (mut is_short, mut is_touched) = (true, false);
    // SAFETY: as above.
    for (planned, span) in unsafe { frame.events() } {
        let is_begun = planned.begin(span);
        is_short &= is_begun;
        is_touched |= !is_begun && !planned.slot().is_kernels();
    }
    // SAFETY: as above.
    unsafe {
        if is_touched {
            keep(stack);
        }
        if !is_short {
            look(frame);
            read(frame);
        }
    }
    let token = stack.serial;
    // SAFETY: the caller's word.
    unsafe { put_back(recorder, token) }
}

/// Takes note in the header of the call just begun that a panic was under way, and gives the call's token from now on.
///
/// # Safety
///
/// The recorder is this thread's, taken, and the token is of its innermost frame.
pub(super) unsafe fn note_panic(recorder: *mut Recorder, token: Token) -> Token {
    // SAFETY: the caller's word.
    unsafe { (*(*recorder).stack.end.cast::<Header>().sub(1)).serial |= PANICKING };
    // The number in the header is not the token any more: so the call ends here.
    token | SLOW
}

/// Begins a call where the stack is full. Deeper than that, it is counted and unmeasured.
///
/// # Safety
///
/// As [`Begin`](super::plan::Begin) has it.
#[cold]
#[inline(never)]
unsafe fn begin_full(recorder: *mut Recorder, plan: *const Plan) -> Call {
    // SAFETY: the caller's word; plans live as long as the recorder.
    unsafe {
        forget_ended(recorder);
        if !(*recorder).stack.is_full((*plan).set().len()) {
            return begin(recorder, plan);
        }
        let cells = &(*plan).cells;
        cells.abandon(1, cells.is_nested(cells.open.load(Relaxed)));
        put_back(recorder, NO_FRAME)
    }
}

/// Begins a call whose frame is open once more, as the kernel touched a counter since it was read last: looks at it anew, then goes the short way
/// again if it can, so that the beginning is followed by the same instructions always.
///
/// # Safety
///
/// The recorder is this thread's, taken, and its innermost frame is the plan's, begun the short way, but for being counted as open.
#[cold]
#[inline(never)]
pub(super) unsafe fn begin_again(recorder: *mut Recorder, plan: *const Plan) -> Call {
    // SAFETY: the caller's word.
    let (stack, sums, plan_) = unsafe { (&mut (*recorder).stack, &(*recorder).sums, &*plan) };
    let serial = stack.serial;
    if let Some(frame) = stack.innermost() {
        // SAFETY: frames on the stack, which are at nothing else.
        unsafe { keep(stack) };
        // SAFETY: the caller's word.
        if unsafe { look(frame) } {
            stack.end = frame.spans;
            stack.serial -= 1;
            sums.take_back(&plan_.set().costs.whole);
            // SAFETY: the caller's word.
            return unsafe { (plan_.unfenced.get().begin)(recorder, plan) };
        }
        // SAFETY: the caller's word.
        unsafe { read(frame) };
    }
    add(&plan_.cells.open, 1);
    // SAFETY: the caller's word.
    unsafe { put_back(recorder, serial) }
}

/// Lets the calls around the innermost one not depend on what its counters remember: that is little, and the calls may be long.
///
/// # Safety
///
/// Nothing else refers to the stack's frames.
unsafe fn keep(stack: &mut Stack) {
    for frame in stack.iter().skip(1) {
        // SAFETY: the caller's word.
        for (planned, span) in unsafe { frame.events() } {
            if let Some(counter) = planned.slot().counter() {
                counter.keep(&mut span.region);
            }
        }
    }
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
    unsafe { end_from(recorder, header, false, false) };
}

/// Closes the innermost frame. If it `is_read`, the spans hold what was counted.
///
/// # Safety
///
/// As [`End`](super::plan::End) has it.
#[inline(never)]
pub(super) unsafe fn end_from(recorder: *mut Recorder, header: *mut Header, is_read: bool, panicking: bool) {
    // SAFETY: the caller's word.
    unsafe {
        let frame = Frame::ending_at(header.add(1).cast());
        read_ends(frame, is_read);
        close_call(&mut *recorder, frame, panicking);
        put_back(recorder, NO_FRAME);
    }
}

/// Sets what was counted in all the frame's spans. If it `is_read`, they hold that already.
///
/// # Safety
///
/// The frame is on this thread's stack.
pub(super) unsafe fn read_ends(frame: Frame, is_read: bool) {
    // When recording has ended neither a reading nor a histogram that grows may take a system call.
    if start::is_off() {
        // SAFETY: the caller's word.
        unsafe { frame.events() }.for_each(|(_, span)| span.delta = Some(Delta::Unmeasured));
        return;
    }
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
}

/// What a call, or one of the polls that it is made of, cost in one event; without probes.
#[derive(Clone, Copy, Default)]
pub(super) struct Part {
    /// Less than nothing where probes cost less than they usually do; it wraps.
    pub(super) net: u64,
    /// What marked calls inside cost.
    pub(super) inside: u64,
    pub(super) is_scaled: bool,
}

impl Part {
    /// Adds it to a node, as that many.
    #[inline]
    pub(super) fn add_to_node(self, node: &Node, n: usize, weight: u64) {
        node.add_cost(n, self.net.wrapping_mul(weight), self.inside.wrapping_mul(weight));
    }

    /// Adds it to the cells as a call that a panic ended, which is in no distribution.
    #[cold]
    pub(super) fn add_unwound(self, cells: &EventCells, is_nested: bool) {
        cells.unwound.add(self.net, self.net.wrapping_sub(self.inside), is_nested);
    }

    /// Adds it to the cells as a whole call. Where there is no memory for the histogram to grow the call is unmeasured.
    pub(super) fn add_call(self, cells: &EventCells, is_nested: bool, arena: &Arena) {
        let Some(bucket) = cells.values.grow(shown(self.net), arena) else {
            return cells.add_unmeasured(1, is_nested);
        };
        add(&cells.inside, self.inside);
        if is_nested {
            add(&cells.nested, self.net);
        }
        if self.is_scaled {
            add(&cells.scaled, 1);
        }
        cells.values.add_to_sum(self.net);
        bucket.publish();
    }
}

impl Recorder {
    /// The node of the innermost call, whose header it is, if it has one: asked for once, when it ends.
    ///
    /// The node outlives every borrow of the recorder, as long as its thread's memory does.
    pub(super) fn node_of<'a>(&self, header: &Header) -> Option<&'a Node> {
        let node = self.graph()?.leave(header.serial & SERIAL)?;
        // SAFETY: it lies in the thread's arena, which lives as long as calls are made.
        Some(unsafe { &*ptr::from_ref(node) })
    }
}

/// Adds a call to its cells, and takes its frame off.
///
/// # Safety
///
/// As [`close`].
unsafe fn close_call(recorder: &mut Recorder, frame: Frame, panicking: bool) {
    // SAFETY: the caller's word; plans live as long as the recorder.
    let (header, cells) = unsafe { (*frame.header, &(*(*frame.header).plan).cells) };
    let (is_unwound, is_nested) = (panicking && header.serial & PANICKING == 0, cells.is_nested(header.before));
    let weight = u64::from(cells.weight);
    let node = recorder.node_of(&header);
    if let Some(node) = node {
        node.add_call();
    }
    // SAFETY: the caller's word.
    unsafe {
        close(recorder, frame, |recorder, planned, part| {
            let events = &cells.events[planned.n];
            match part {
                Some(part) if is_unwound => part.add_unwound(events, is_nested),
                Some(part) => {
                    part.add_call(events, is_nested, recorder.arena());
                    if let Some(node) = node {
                        part.add_to_node(node, planned.n, weight);
                    }
                }
                None if is_unwound => {}
                None => {
                    recorder.sums.stand_in(planned.at, events.stand_in(is_nested), weight);
                    events.add_unmeasured(1, is_nested);
                }
            }
        });
    }
    if is_unwound {
        add(&cells.unwound, 1);
    }
}

/// Takes a frame off, and gives what each of its events cost to `add`, and to what the call around it has inside. None for what was not
/// measured. The first event last: who sees a call there sees it in all.
///
/// # Safety
///
/// It is the recorder's innermost frame, and `delta` is set in all its spans.
pub(super) unsafe fn close(
    recorder: &mut Recorder,
    frame: Frame,
    mut add: impl FnMut(&Recorder, Planned<'_>, Option<Part>),
) {
    // SAFETY: the caller's word; plans live as long as the recorder.
    let (header, plan) = unsafe { (&*frame.header, &*(*frame.header).plan) };
    let (probes, keeps_costs, weight) = (Inside::of(&recorder.stack, header), recorder.keeps_costs(), plan.weight());
    let sums = &recorder.sums;
    plan.cells.open.store(header.before, Relaxed);
    // SAFETY: the caller's word.
    for (planned, span) in unsafe { frame.events() }.rev() {
        let (counted, is_scaled) = match span.delta {
            Some(Delta::Exact(counted)) => (counted, false),
            Some(Delta::Scaled { estimate, .. }) => (estimate, true),
            Some(Delta::Unmeasured) | None => {
                add(recorder, planned, None);
                continue;
            }
        };
        let overhead = planned.overhead(sums, span, probes, keeps_costs);
        let net = counted.wrapping_sub(overhead);
        let inside = sums.leave(planned.at, net, span.inside, weight);
        add(recorder, planned, Some(Part { net, inside, is_scaled }));
    }
    let stack = &mut recorder.stack;
    if keeps_costs {
        if !probes.is_none() {
            if header.callers != stack.callers {
                crate::histogram::add(&plan.cells.estimated, 1);
            }
            recorder.sums.pay::<SLOTS>(&plan.set().costs.extra);
        }
        stack.callers = header.callers + u64::from(weight > 1);
    } else if !probes.is_none() {
        stack.callers += 1;
    }
    recorder.stack.end = frame.spans;
}

/// Ends a call whose frame is not the innermost, or that ends by the long way. If its own frame is gone, there is
/// nothing to do.
///
/// # Safety
///
/// The recorder is this thread's, taken out.
#[cold]
#[inline(never)]
pub(super) unsafe fn leave(recorder: *mut Recorder, token: Token, panicking: bool) {
    // SAFETY: the caller's word.
    unsafe {
        match find(recorder, token) {
            Some(frame) => end_from(recorder, frame.header, false, panicking),
            None => _ = put_back(recorder, NO_FRAME),
        }
    }
}

/// The frame of that token, which is the innermost one then. The frames above it were never ended: they are counted, and unmeasured.
///
/// # Safety
///
/// The recorder is this thread's, taken, and nothing else refers to its frames.
pub(super) unsafe fn find(recorder: *mut Recorder, token: Token) -> Option<Frame> {
    // SAFETY: the caller's word; the thread's cells live as long as its recorder.
    let (cells, stack) = unsafe { (&*ptr::from_ref((*recorder).cells()), &mut (*recorder).stack) };
    // SAFETY: frames on the stack.
    let number = |frame: &Frame| unsafe { (*frame.header).serial } & SERIAL;
    let is_its = |frame: &Frame| number(frame) == token & SERIAL;
    if !stack.iter().any(|frame| is_its(&frame)) {
        return None;
    }
    if let Some(frame) = stack.innermost().filter(is_its) {
        return Some(frame);
    }
    let mut switched = cells.switched.lock();
    while let Some(frame) = stack.innermost().filter(|frame| !is_its(frame)) {
        let is_counted = switched.take(number(&frame));
        // SAFETY: frames and plans live as long as the recorder.
        let (cells, before) = unsafe { (&(*(*frame.header).plan).cells, (*frame.header).before) };
        cells.open.store(before, Relaxed);
        if !is_counted {
            cells.abandon(1, cells.is_nested(before));
        }
        stack.end = frame.spans;
    }
    // So that none of the tokens above it is the last one any more.
    stack.serial += 1;
    switched.keep(stack.serial, stack.iter().map(|frame| number(&frame)), &cells.arena);
    stack.innermost()
}

/// Takes off the frames of calls that ended on other threads.
///
/// # Safety
///
/// As [`find`].
#[inline]
pub(super) unsafe fn forget_ended(recorder: *mut Recorder) {
    // SAFETY: the caller's word.
    unsafe {
        if (*recorder).cells().switched.has_ended() {
            forget_those(recorder);
        }
    }
}

/// # Safety
///
/// As [`forget_ended`].
#[cold]
#[inline(never)]
unsafe fn forget_those(recorder: *mut Recorder) {
    // SAFETY: as in `find`.
    let (switched, stack) = unsafe { (&(*ptr::from_ref((*recorder).cells())).switched, &mut (*recorder).stack) };
    let mut state = switched.lock();
    // SAFETY: the caller's word.
    unsafe { stack.retain(|header| !state.take(header.serial & SERIAL)) };
    switched.forget(&mut state);
}
