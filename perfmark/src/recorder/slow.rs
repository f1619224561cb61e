//! The slow path of entry and exit: whatever is not as usual, and marks of many events or with events that are read by
//! read(2) alone.

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::Delta;

use super::cost::Inside;
use super::part::Part;
use super::plan::{EventSet, Hooks, Plan, Planned, node_of};
use super::stack::{APART, FULL, FrameRef, NO_FRAME, PANICKING, SERIAL, SLOW, Stack, Token};
use super::state::{Recorder, Taken};
use crate::graph::Known;
use crate::histogram::add;
use crate::start;

/// The hooks where everything takes the slow path.
pub(super) const HOOKS: Hooks = Hooks { begin, end_leaf: end, end, close_leaf: never, close: never };

/// No poll is closed on the fast path.
fn never(_: &Plan, _: FrameRef, _: &Recorder) -> bool {
    false
}

/// Begins a call.
#[inline(never)]
pub(super) fn begin(plan: &Plan, recorder: Taken) -> Token {
    let set = plan.set();
    let Some(frame) = recorder.stack.next_of(set.len()) else { return begin_full(plan, recorder) };
    let before = plan.cells.open.load(Relaxed);
    let token = recorder.stack.open(frame, plan.pointer(), before);
    find_node(plan, frame, &recorder);
    plan.cells.open.store(before + 1, Relaxed);
    frame.locks.set(APART);
    let (mut is_fast, mut is_touched) = (true, false);
    for planned in set.events() {
        if planned.slot().is_kernels() {
            is_fast = false;
        } else if !planned.begin(frame) {
            (is_fast, is_touched) = (false, true);
        }
    }
    if is_touched {
        keep(recorder.stack.iter().filter(|around| *around != frame));
    }
    if !is_fast {
        look(set, frame);
        if set.has_group() {
            begin_group(set, frame);
        }
        read(set, frame);
    }
    recorder.put_back();
    token
}

/// Finds the call's node, where there is a call graph.
pub(super) fn find_node(plan: &Plan, frame: FrameRef, recorder: &Recorder) {
    let (Some(graph), Some(arena)) = (recorder.graph(), recorder.arena()) else { return };
    let caller = frame.below().node.get();
    let [last_caller, last] = &plan.last;
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
#[inline(never)]
fn begin_full(plan: &Plan, recorder: Taken) -> Token {
    forget_ended(&recorder);
    if recorder.stack.next_of(plan.set().len()).is_some() {
        return (plan.plain.get().begin)(plan, recorder);
    }
    let cells = &plan.cells;
    cells.abandon(1, cells.is_nested(cells.open.load(Relaxed)));
    if let Some(graph) = recorder.graph() {
        graph.lose();
    }
    // The call around has it inside all the same, with what was paid for it.
    recorder.stack.skip();
    recorder.put_back();
    if plan.set().manner.is_polled { FULL } else { NO_FRAME }
}

/// Begins a call whose frame is open once more, as the kernel touched a counter since it was read last: looks at it
/// anew, then goes the fast path again if it can, so that the beginning is followed by the same instructions always.
///
/// The frame is the innermost, and was opened on the fast path, but for the call being counted as open.
#[cold]
#[inline(never)]
pub(super) fn begin_again(plan: &Plan, recorder: Taken, frame: FrameRef) -> Token {
    let (set, stack) = (plan.set(), &recorder.stack);
    frame.locks.set(APART);
    if look_again(set, stack, frame) {
        stack.pop(frame);
        stack.serial.set(stack.serial.get() - 1);
        return (plan.plain.get().begin)(plan, recorder);
    }
    read(set, frame);
    add(&plan.cells.open, 1);
    let token = frame.serial.get();
    recorder.put_back();
    token
}

/// Looks at the counters' pages, and lets the fast path begin with what they say now. Whether it can.
// Whatever is put on the stack is put there here: so that `begin_again` ends by a jump to the fast path, and nothing of
// it is behind the reading.
#[inline(never)]
fn look_again(set: &EventSet, stack: &Stack, innermost: FrameRef) -> bool {
    keep(stack.iter().filter(|around| *around != innermost));
    look(set, innermost) && set.remember()
}

/// Lets these open calls not depend on what their counters remember: that is little, and the calls may be long.
pub(super) fn keep(open: impl Iterator<Item = FrameRef>) {
    for frame in open {
        let set = Plan::of(frame).set();
        set.take_apart(frame);
        for planned in set.events() {
            if let Some(counter) = planned.slot().counter() {
                let mut region = frame.region(planned.n);
                counter.keep(&mut region);
                frame.set_region(planned.n, region);
            }
        }
    }
}

/// Looks at the counters' pages, and begins with what they say now; those without a page are read, but for the thread's
/// group. Whether all can be read on the fast path from now on.
fn look(set: &EventSet, frame: FrameRef) -> bool {
    let mut is_fast = true;
    for planned in set.events().filter(|planned| !planned.is_grouped()) {
        if let Some(counter) = planned.slot().counter() {
            let mut region = frame.region(planned.n);
            counter.begin(&mut region);
            is_fast &= counter.begin_unchanged(&mut region);
            frame.set_region(planned.n, region);
        }
    }
    is_fast
}

/// Begins with one reading of the thread's group.
#[inline(never)]
fn begin_group(set: &EventSet, frame: FrameRef) {
    let Some(group) = set.read_group() else { return };
    for planned in set.events().filter(|planned| planned.is_grouped()) {
        if let Some(counter) = planned.slot().counter() {
            frame.set_region(planned.n, group.begin(counter));
        }
    }
}

/// Reads once more what can be read on the fast path, so that the look at the other events' pages is not counted.
fn read(set: &EventSet, frame: FrameRef) {
    for planned in set.events().filter(|planned| !planned.slot().is_kernels()) {
        _ = planned.begin(frame);
    }
}

/// Ends the innermost call.
#[inline(never)]
pub(super) fn end(plan: &Plan, frame: FrameRef, recorder: Taken) {
    read_ends(plan.set(), frame);
    close_call(plan, frame, &recorder, false);
    recorder.put_back();
}

/// The same where the frame holds what was counted, instead of where that began.
#[cold]
#[inline(never)]
pub(super) fn end_read(plan: &Plan, frame: FrameRef, recorder: Taken) {
    forget_if_over(plan.set(), frame);
    close_call(plan, frame, &recorder, false);
    recorder.put_back();
}

/// When recording has ended neither a reading nor a histogram that grows may take a system call. Whether it has.
fn forget_if_over(set: &EventSet, frame: FrameRef) -> bool {
    let is_over = start::is_off();
    if is_over {
        set.events().for_each(|planned| frame.set_counted(planned.n, Delta::Unmeasured));
    }
    is_over
}

/// Lets the innermost call's frame hold what each event counted.
pub(super) fn read_ends(set: &EventSet, frame: FrameRef) {
    if forget_if_over(set, frame) {
        return;
    }
    set.take_apart(frame);
    // The ones that are read in user space first, so that the others' reading is not in them.
    for planned in set.events() {
        if let Some(value) = planned.end(frame) {
            frame.set_counted(planned.n, Delta::Exact(value));
        } else if planned.slot().counter().is_none() {
            frame.set_counted(planned.n, Delta::Unmeasured);
        }
    }
    if set.has_group() {
        end_group(set, frame);
    }
    for planned in set.events().filter(|planned| frame.is_unread(planned.n)) {
        if let Some(counter) = planned.slot().counter() {
            frame.set_counted(planned.n, counter.end(&frame.region(planned.n)));
        }
    }
}

/// Lets the frame hold what the events counted that are read by one reading of the thread's group.
#[inline(never)]
fn end_group(set: &EventSet, frame: FrameRef) {
    let Some(group) = set.read_group() else { return };
    for planned in set.events().filter(|planned| planned.is_grouped()) {
        if let Some(counter) = planned.slot().counter() {
            frame.set_counted(planned.n, group.end(counter, &frame.region(planned.n)));
        }
    }
}

/// Adds the innermost call to its cells, and removes its frame.
fn close_call(plan: &Plan, frame: FrameRef, recorder: &Recorder, panicking: bool) {
    let cells = &plan.cells;
    let (is_unwound, is_nested) = (panicking && !frame.began_in_panic(), cells.is_nested(frame.before.get()));
    let (below, weight) = (frame.below(), plan.weight());
    let node = recorder.graph().and_then(|_| node_of(&frame));
    if let Some(node) = node {
        node.add_call();
    }
    close(plan, frame, recorder, |planned, part| {
        let events = &cells.events[planned.n];
        match part {
            Some(part) if !is_unwound => {
                if let Some(arena) = recorder.arena() {
                    part.add_call(events, is_nested, arena);
                    plan.note_span(planned.n);
                }
                if let Some(node) = node {
                    part.add_to_node(node, planned.n, weight);
                }
                return;
            }
            Some(part) => part.add_unwound(events, is_nested),
            None if is_unwound => {}
            None => {
                below.add_inner(planned.at, weight.wrapping_mul(events.impute(is_nested)));
                events.add_unmeasured(1, is_nested);
            }
        }
        if let Some(node) = node {
            node.add_unmeasured(planned.n);
        }
    });
    if is_unwound {
        add(&cells.unwound, 1);
    }
}

/// Removes the innermost frame, which holds what was counted, and gives what each of its events cost to `add`, and to
/// the call around. `None` for what was not measured. The first event last: who sees a call there sees it in all.
pub(super) fn close(plan: &Plan, frame: FrameRef, recorder: &Recorder, mut add: impl FnMut(Planned<'_>, Option<Part>)) {
    let (set, below, keeps_costs) = (plan.set(), frame.below(), recorder.keeps_costs.get());
    let inside = Inside::of(&frame, recorder.stack.serial.get());
    plan.cells.open.store(frame.before.get(), Relaxed);
    for planned in set.events().rev() {
        let Some((counted, is_scaled)) = frame.counted(planned.n) else {
            add(planned, None);
            continue;
        };
        let overhead = set.costs.overhead(&frame, planned.n, planned.at, inside, keeps_costs);
        let (net, inner) = (counted.wrapping_sub(overhead), frame.inner[planned.at].get());
        // What calls cost inside one another adds up to their selfs: a call's own part is its self as often as it
        // counts.
        below.add_inner(planned.at, plan.weight().wrapping_mul(net.wrapping_sub(inner)));
        add(planned, Some(Part { net, inside: inner, is_scaled }));
    }
    pass_on(plan, frame, below, keeps_costs, !inside.is_none());
    recorder.stack.pop(frame);
}

/// Gives what is inside a call that ends to the one around, and what its own probe costs.
fn pass_on(plan: &Plan, frame: FrameRef, below: FrameRef, keeps_costs: bool, is_caller: bool) {
    let costs = &plan.set().costs;
    if keeps_costs {
        below.add_cost(&costs.whole);
        if is_caller {
            below.add_cost(&costs.extra);
        }
        // Only those directly inside make the call's self an estimate: what is further inside adds up to their cost.
        if frame.callers.take() != 0 && is_caller {
            add(&plan.cells.estimated, 1);
        }
        below.callers.set(below.callers.get() + u64::from(plan.weight() > 1));
    } else if is_caller {
        below.callers.set(below.callers.get() + 1);
    }
    frame.pass_on(&below);
}

/// Ends a call whose frame is not the innermost, or that ends on the slow path for another reason. If it has no frame
/// here, nothing is done, and the answer is `false`.
#[cold]
#[inline(never)]
pub(super) fn leave(token: Token, recorder: Taken, panicking: bool) -> bool {
    let found = find(&recorder, token);
    if let Some(frame) = found {
        let plan = Plan::of(frame);
        read_ends(plan.set(), frame);
        close_call(plan, frame, &recorder, panicking);
    }
    recorder.put_back();
    found.is_some()
}

/// The frame of that token, which is the innermost one then. The frames above it were never ended: they are counted,
/// and unmeasured.
pub(super) fn find(recorder: &Recorder, token: Token) -> Option<FrameRef> {
    let (cells, stack) = (recorder.cells()?, &recorder.stack);
    let found = stack.iter().find(|frame| frame.number() == token & SERIAL)?;
    if stack.innermost() == Some(found) {
        return Some(found);
    }
    let mut switched = cells.switched.lock();
    for frame in stack.above(found) {
        let (plan, before) = (Plan::of(frame), frame.before.get());
        plan.cells.open.store(before, Relaxed);
        if !switched.take(frame.number()) {
            plan.cells.abandon(1, plan.cells.is_nested(before));
        }
        pass_on(plan, frame, frame.below(), recorder.keeps_costs.get(), false);
        stack.pop(frame);
    }
    // So that none of the tokens above it is the last one any more.
    stack.skip();
    switched.keep(stack.serial.get(), stack.iter().map(|frame| frame.number()), &cells.arena);
    Some(found)
}

/// Removes the frames of calls that ended on other threads.
#[inline]
pub(super) fn forget_ended(recorder: &Recorder) {
    if recorder.cells().is_some_and(|cells| cells.switched.has_ended()) {
        forget_those(recorder);
    }
}

#[cold]
#[inline(never)]
fn forget_those(recorder: &Recorder) {
    let (Some(cells), stack) = (recorder.cells(), &recorder.stack) else { return };
    let mut state = cells.switched.lock();
    let remove = |frame: FrameRef, below: FrameRef| {
        let plan = Plan::of(frame);
        let open = &plan.cells.open;
        open.store(open.load(Relaxed) - 1, Relaxed);
        for above in stack.above(frame).filter(|above| above.plan() == frame.plan()) {
            above.before.set(above.before.get() - 1);
        }
        pass_on(plan, frame, below, recorder.keeps_costs.get(), false);
    };
    stack.retain(|frame| !state.take(frame.number()), remove);
    cells.switched.forget(&mut state);
}
