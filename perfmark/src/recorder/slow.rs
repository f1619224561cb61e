//! The slow path of entry and exit: whatever is not as usual, and marks of many events or with events that are read by
//! read(2) alone.

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::Delta;

use super::call_token::{FULL, NO_FRAME, PANICKING, SERIAL, SLOW, Token};
use super::event_cost::EventCost;
use super::overhead::InnerCalls;
use super::plan::{EventSet, Hooks, Plan, SetEvent, node_of};
use super::stack::{FrameRef, LOCKS_SPLIT, Stack};
use super::state::{HeldRecorder, Recorder};
use crate::graph::Known;
use crate::histogram::add;
use crate::start;

/// The hooks where everything takes the slow path.
pub(super) const HOOKS: Hooks = Hooks { begin, end_leaf: end, end, close_leaf: never_close, close: never_close };

/// No poll is closed on the fast path.
fn never_close(_: &Plan, _: FrameRef, _: &Recorder) -> bool {
    false
}

/// Begins a call.
#[inline(never_close)]
pub(super) fn begin(plan: &Plan, recorder: HeldRecorder) -> Token {
    let set = plan.set();
    let Some(frame) = recorder.stack.next_for(set.len()) else { return begin_on_full_stack(plan, recorder) };
    let open_before = plan.cells.open.load(Relaxed);
    let token = recorder.stack.open(frame, plan.pointer(), open_before);
    find_node(plan, frame, &recorder);
    plan.cells.open.store(open_before + 1, Relaxed);
    frame.locks.set(LOCKS_SPLIT);
    let (mut is_fast, mut is_touched) = (true, false);
    for event in set.events() {
        if event.slot().is_read_by_kernel() {
            is_fast = false;
        } else if !event.begin(frame) {
            (is_fast, is_touched) = (false, true);
        }
    }
    if is_touched {
        detach(recorder.stack.iter().filter(|around| *around != frame));
    }
    if !is_fast {
        begin_via_pages(set, frame);
        if set.has_group() {
            begin_group(set, frame);
        }
        reread_user_counters(set, frame);
    }
    recorder.release();
    token
}

/// Finds the call's node, where there is a call graph.
pub(super) fn find_node(plan: &Plan, frame: FrameRef, recorder: &Recorder) {
    let (Some(graph), Some(arena)) = (recorder.graph(), recorder.arena()) else { return };
    let caller = frame.below().node.get();
    let [last_caller, last] = &plan.last_nodes;
    if !ptr::eq(last_caller.get(), caller) {
        let events = &plan.cells.events;
        let event = |n: usize| events[n].event;
        let mark = Known { key: plan.pointer(), mark: plan.cells.mark, events: events.len(), event: &event };
        last.set(graph.callee(caller, mark, arena));
        last_caller.set(caller);
    }
    frame.node.set(last.get());
}

/// Takes note in the frame of the call begun last that a panic is in progress, and gives the call's token from now on.
pub(super) fn note_panic(recorder: &Recorder, token: Token) -> Token {
    let Some(frame) = recorder.stack.innermost() else { return token };
    frame.serial.set(frame.serial.get() | PANICKING);
    // The frame's number is not the token any more: so the call ends here.
    token | SLOW
}

/// Begins a call where the stack is full. Deeper than that, it is counted and unmeasured.
#[cold]
#[inline(never_close)]
fn begin_on_full_stack(plan: &Plan, recorder: HeldRecorder) -> Token {
    remove_ended_elsewhere(&recorder);
    if recorder.stack.next_for(plan.set().len()).is_some() {
        return (plan.base_hooks.get().begin)(plan, recorder);
    }
    let cells = &plan.cells;
    cells.abandon(1, cells.is_nested(cells.open.load(Relaxed)));
    if let Some(graph) = recorder.graph() {
        graph.lose();
    }
    // The call around has it inside all the same, with what was paid for it.
    recorder.stack.skip();
    recorder.release();
    if plan.set().manner.is_polled { FULL } else { NO_FRAME }
}

/// Begins a call whose frame is open once more, as the kernel touched a counter since it was read last: looks at it
/// anew, then goes the fast path again if it can, so that the beginning is followed by the same instructions always.
///
/// The frame is the innermost, and was opened on the fast path, but for the call being counted as open.
#[cold]
#[inline(never_close)]
pub(super) fn begin_again(plan: &Plan, recorder: HeldRecorder, frame: FrameRef) -> Token {
    let (set, stack) = (plan.set(), &recorder.stack);
    frame.locks.set(LOCKS_SPLIT);
    if refresh_counters(set, stack, frame) {
        stack.pop(frame);
        stack.serial.set(stack.serial.get() - 1);
        return (plan.base_hooks.get().begin)(plan, recorder);
    }
    reread_user_counters(set, frame);
    add(&plan.cells.open, 1);
    let token = frame.serial.get();
    recorder.release();
    token
}

/// Looks at the counters' pages, and lets the fast path begin with what they say now. Whether it can.
// Whatever is put on the stack is put there here: so that `begin_again` ends by a jump to the fast path, and nothing of
// it is behind the reading.
#[inline(never_close)]
fn refresh_counters(set: &EventSet, stack: &Stack, innermost: FrameRef) -> bool {
    detach(stack.iter().filter(|around| *around != innermost));
    begin_via_pages(set, innermost) && set.remember_counters()
}

/// Lets these open calls not depend on what their counters remember: that is little, and the calls may be long.
pub(super) fn detach(open: impl Iterator<Item = FrameRef>) {
    for frame in open {
        let set = Plan::of(frame).set();
        set.split_locks(frame);
        for event in set.events() {
            if let Some(counter) = event.slot().counter() {
                let mut region = frame.region(event.n);
                counter.keep(&mut region);
                frame.set_region(event.n, region);
            }
        }
    }
}

/// Looks at the counters' pages, and begins with what they say now; those without a page are read, but for the thread's
/// group. Whether all can be read on the fast path from now on.
fn begin_via_pages(set: &EventSet, frame: FrameRef) -> bool {
    let mut is_fast = true;
    for event in set.events().filter(|event| !event.is_grouped()) {
        if let Some(counter) = event.slot().counter() {
            let mut region = frame.region(event.n);
            counter.begin(&mut region);
            is_fast &= counter.begin_unchanged(&mut region);
            frame.set_region(event.n, region);
        }
    }
    is_fast
}

/// Begins with one reading of the thread's group.
#[inline(never_close)]
fn begin_group(set: &EventSet, frame: FrameRef) {
    let Some(group) = set.read_group() else { return };
    for event in set.events().filter(|event| event.is_grouped()) {
        if let Some(counter) = event.slot().counter() {
            frame.set_region(event.n, group.begin(counter));
        }
    }
}

/// Reads once more what can be read on the fast path, so that the look at the other events' pages is not counted.
fn reread_user_counters(set: &EventSet, frame: FrameRef) {
    for event in set.events().filter(|event| !event.slot().is_read_by_kernel()) {
        _ = event.begin(frame);
    }
}

/// Ends the innermost call.
#[inline(never_close)]
pub(super) fn end(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    store_counts(plan.set(), frame);
    close_call(plan, frame, &recorder, false);
    recorder.release();
}

/// The same where the frame holds what was counted, instead of where that began.
#[cold]
#[inline(never_close)]
pub(super) fn end_counted(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    discard_if_off(plan.set(), frame);
    close_call(plan, frame, &recorder, false);
    recorder.release();
}

/// When recording has ended neither a reading nor a histogram that grows may take a system call. Whether it has.
fn discard_if_off(set: &EventSet, frame: FrameRef) -> bool {
    let is_off = start::is_off();
    if is_off {
        set.events().for_each(|event| frame.set_counted(event.n, Delta::Unmeasured));
    }
    is_off
}

/// Lets the innermost call's frame hold what each event counted.
pub(super) fn store_counts(set: &EventSet, frame: FrameRef) {
    if discard_if_off(set, frame) {
        return;
    }
    set.split_locks(frame);
    // The ones that are read in user space first, so that the others' reading is not in them.
    for event in set.events() {
        if let Some(value) = event.end(frame) {
            frame.set_counted(event.n, Delta::Exact(value));
        } else if event.slot().counter().is_none() {
            frame.set_counted(event.n, Delta::Unmeasured);
        }
    }
    if set.has_group() {
        end_group(set, frame);
    }
    for event in set.events().filter(|event| frame.is_unread(event.n)) {
        if let Some(counter) = event.slot().counter() {
            frame.set_counted(event.n, counter.end(&frame.region(event.n)));
        }
    }
}

/// Lets the frame hold what the events counted that are read by one reading of the thread's group.
#[inline(never_close)]
fn end_group(set: &EventSet, frame: FrameRef) {
    let Some(group) = set.read_group() else { return };
    for event in set.events().filter(|event| event.is_grouped()) {
        if let Some(counter) = event.slot().counter() {
            frame.set_counted(event.n, group.end(counter, &frame.region(event.n)));
        }
    }
}

/// Adds the innermost call to its cells, and removes its frame.
fn close_call(plan: &Plan, frame: FrameRef, recorder: &Recorder, panicking: bool) {
    let cells = &plan.cells;
    let (is_unwound, is_nested) = (panicking && !frame.began_in_panic(), cells.is_nested(frame.open_before.get()));
    let (below, weight) = (frame.below(), plan.weight());
    let node = recorder.graph().and_then(|_| node_of(&frame));
    if let Some(node) = node {
        node.add_call();
    }
    close(plan, frame, recorder, |event, cost| {
        let events = &cells.events[event.n];
        match cost {
            Some(cost) if !is_unwound => {
                if let Some(arena) = recorder.arena() {
                    cost.add_call(events, is_nested, arena);
                    plan.update_span(event.n);
                }
                if let Some(node) = node {
                    cost.add_to_node(node, event.n, weight);
                }
                return;
            }
            Some(cost) => cost.add_unwound(events, is_nested),
            None if is_unwound => {}
            None => {
                below.add_inner_cost(event.slot_index, weight.wrapping_mul(events.stand_in(is_nested)));
                events.add_unmeasured(1, is_nested);
            }
        }
        if let Some(node) = node {
            node.add_unmeasured(event.n);
        }
    });
    if is_unwound {
        add(&cells.unwound, 1);
    }
}

/// Removes the innermost frame, which holds what was counted, and gives what each of its events cost to `add`, and to
/// the call around. `None` for what was not measured. The first event last: who sees a call there sees it in all.
pub(super) fn close(
    plan: &Plan,
    frame: FrameRef,
    recorder: &Recorder,
    mut add: impl FnMut(SetEvent<'_>, Option<EventCost>),
) {
    let (set, below, tracks_overhead) = (plan.set(), frame.below(), recorder.tracks_overhead.get());
    let inner = InnerCalls::of(&frame, recorder.stack.serial.get());
    plan.cells.open.store(frame.open_before.get(), Relaxed);
    for event in set.events().rev() {
        let Some((counted, is_scaled)) = frame.counted(event.n) else {
            add(event, None);
            continue;
        };
        let overhead = set.overhead.of_call(&frame, event.n, event.slot_index, inner, tracks_overhead);
        let (net, inner_cost) = (counted.wrapping_sub(overhead), frame.inner_cost[event.slot_index].get());
        // What calls cost inside one another adds up to their selfs: a call's own part is its self as often as it
        // counts.
        below.add_inner_cost(event.slot_index, plan.weight().wrapping_mul(net.wrapping_sub(inner_cost)));
        add(event, Some(EventCost { net, inner: inner_cost, is_scaled }));
    }
    pass_to_caller(plan, frame, below, tracks_overhead, !inner.is_empty());
    recorder.stack.pop(frame);
}

/// Gives what is inside a call that ends to the one around, and what its own probe costs.
fn pass_to_caller(plan: &Plan, frame: FrameRef, below: FrameRef, tracks_overhead: bool, is_caller: bool) {
    let overhead = &plan.set().overhead;
    if tracks_overhead {
        below.add_overhead(&overhead.total);
        if is_caller {
            below.add_overhead(&overhead.caller_extra);
        }
        // Only those directly inside make the call's self an estimate: what is further inside adds up to their cost.
        if frame.inner_callers.take() != 0 && is_caller {
            add(&plan.cells.estimated, 1);
        }
        below.inner_callers.set(below.inner_callers.get() + u64::from(plan.weight() > 1));
    } else if is_caller {
        below.inner_callers.set(below.inner_callers.get() + 1);
    }
    frame.pass_on(&below);
}

/// Ends a call whose frame is not the innermost, or that ends on the slow path for another reason. If it has no frame
/// here, nothing is done, and the answer is `false`.
#[cold]
#[inline(never_close)]
pub(super) fn leave(token: Token, recorder: HeldRecorder, panicking: bool) -> bool {
    let found = find_frame(&recorder, token);
    if let Some(frame) = found {
        let plan = Plan::of(frame);
        store_counts(plan.set(), frame);
        close_call(plan, frame, &recorder, panicking);
    }
    recorder.release();
    found.is_some()
}

/// The frame of that token, which is the innermost one then. The frames above it were never ended: they are counted,
/// and unmeasured.
pub(super) fn find_frame(recorder: &Recorder, token: Token) -> Option<FrameRef> {
    let (cells, stack) = (recorder.cells()?, &recorder.stack);
    let found = stack.iter().find(|frame| frame.number() == token & SERIAL)?;
    if stack.innermost() == Some(found) {
        return Some(found);
    }
    let mut switched = cells.switched.lock();
    for frame in stack.above(found) {
        let (plan, open_before) = (Plan::of(frame), frame.open_before.get());
        plan.cells.open.store(open_before, Relaxed);
        if !switched.take(frame.number()) {
            plan.cells.abandon(1, plan.cells.is_nested(open_before));
        }
        pass_to_caller(plan, frame, frame.below(), recorder.tracks_overhead.get(), false);
        stack.pop(frame);
    }
    // So that none of the tokens above it is the last one any more.
    stack.skip();
    switched.detach(stack.serial.get(), stack.iter().map(|frame| frame.number()), &cells.arena);
    Some(found)
}

/// Removes the frames of calls that ended on other threads.
#[inline]
pub(super) fn remove_ended_elsewhere(recorder: &Recorder) {
    if recorder.cells().is_some_and(|cells| cells.switched.has_ended()) {
        remove_frames_ended_elsewhere(recorder);
    }
}

#[cold]
#[inline(never_close)]
fn remove_frames_ended_elsewhere(recorder: &Recorder) {
    let (Some(cells), stack) = (recorder.cells(), &recorder.stack) else { return };
    let mut state = cells.switched.lock();
    let remove = |frame: FrameRef, below: FrameRef| {
        let plan = Plan::of(frame);
        let open = &plan.cells.open;
        open.store(open.load(Relaxed) - 1, Relaxed);
        for above in stack.above(frame).filter(|above| above.plan() == frame.plan()) {
            above.open_before.set(above.open_before.get() - 1);
        }
        pass_to_caller(plan, frame, below, recorder.tracks_overhead.get(), false);
    };
    stack.retain(|frame| !state.take(frame.number()), remove);
    cells.switched.forget(&mut state);
}
