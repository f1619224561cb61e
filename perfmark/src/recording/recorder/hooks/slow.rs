//! The slow path of entry and exit: for uncommon cases, for marks with many events, and for events that only read(2)
//! reads.

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use perfmark_rdpmc::Delta;

use super::look::{begin_too_deep, look};
use super::reached::reach;
use crate::platform::signals::BlockedSignals;
use crate::recording::cells::{EventCost, Known, MarkCells, Node, add};
use crate::recording::recorder::event_slots::EVENT_SLOTS;
use crate::recording::recorder::thread::{
    EventSet, FrameRef, HeldRecorder, Hooks, InnerCalls, LOCKS_SPLIT, NO_FRAME, Plan, Recorder, SERIAL, STACK_FULL,
    SetEvent, Stack, Token, detach,
};
use crate::recording::recorder::values::exclude_work::{Moment, exclude_preemption, exclude_work};
use crate::recording::recorder::values::off_cpu::{store_off_cpu, with_off_cpu};
use crate::recording::recorder::values::self_estimate::Parts;
use crate::settings::recording::is_off;

/// The hooks of marks that always take the slow path.
pub(crate) const HOOKS: Hooks = Hooks { begin, end_leaf: end, end, close: |_, _, _| false };

/// Begins a call.
#[inline(never)]
pub(crate) fn begin(plan: &Plan, recorder: HeldRecorder) -> Token {
    let set = plan.set();
    let entered = set.emulated_counts();
    look(plan, &recorder);
    let Some(frame) = recorder.stack.next_for(set.len()) else { return begin_on_full_stack(plan, recorder) };
    let open_before = plan.cells.open.load(Relaxed);
    let token = recorder.stack.open(frame, plan, open_before);
    if recorder.has_thinned.get() {
        frame.skipped_before().set(recorder.bursts.gap.position());
    }
    find_node(plan, frame, &recorder);
    plan.cells.open.store(open_before + 1, Relaxed);
    frame.locks.set(LOCKS_SPLIT);
    set.exclude_emulated_since(entered);
    let is_unchanged = begin_in_user_space(set, frame, &recorder.stack);
    if !is_unchanged {
        detach(recorder.stack.iter().filter(|around| *around != frame));
    }
    if !is_unchanged || set.events().any(|event| event.slot().is_read_by_kernel()) {
        begin_via_pages(set, frame);
        if set.has_group() {
            begin_group(set, frame);
        }
        // Again, so that these events do not count the work for the others.
        begin_in_user_space(set, frame, &recorder.stack);
    }
    recorder.release();
    token
}

/// Begins a call of a sampled mark, after there was a sample.
#[cold]
#[inline(never)]
pub(crate) fn begin_after_sample(plan: &Plan, recorder: HeldRecorder) -> Token {
    look(plan, &recorder);
    plan.base_hooks().begin(recorder)
}

/// Finds the call's node in the call graph, if there is one.
pub(crate) fn find_node(plan: &Plan, frame: FrameRef, recorder: &Recorder) {
    let (Some(graph), Some(arena)) = (recorder.graph(), recorder.arena()) else { return };
    let caller = frame.below().node.get();
    let [last_caller, last] = &plan.last_nodes;
    if !ptr::eq(last_caller.get(), caller) {
        let event = |n: usize| plan.cells.events.get(n).map(|cells| cells.event);
        let mark = Known { key: plan.key(), mark: plan.cells.mark, event: &event };
        last.set(graph.callee(caller, mark, arena));
        last_caller.set(caller);
    }
    frame.node.set(last.get());
}

/// Begins a call when the stack is full. The call is counted but not measured.
#[cold]
#[inline(never)]
pub(crate) fn begin_on_full_stack(plan: &Plan, recorder: HeldRecorder) -> Token {
    let entered = plan.set().emulated_counts();
    remove_ended_elsewhere(&recorder);
    if recorder.stack.next_for(plan.set().len()).is_some() {
        return plan.base_hooks().begin(recorder);
    }
    begin_too_deep(plan, &recorder);
    let cells = &plan.cells;
    cells.abandon(1, cells.is_nested(cells.open.load(Relaxed)));
    if let Some(graph) = recorder.graph().filter(|_| !plan.is_of_skipped()) {
        graph.lose();
    }
    // It gets no number: its entry takes less than that of other calls, and stays in the calls around.
    plan.set().exclude_emulated_since(entered);
    let token = if plan.set().mode.is_polled { STACK_FULL | recorder.stack.serial.get() } else { NO_FRAME };
    recorder.release();
    token
}

/// Begins a call a second time, because the kernel touched a counter since the last reading. It reads the counters'
/// pages again, then takes the fast path if possible, so that the same instructions follow the reading at each entry.
///
/// The frame is the innermost one. The fast path opened it, but did not count the call as open yet.
#[cold]
#[inline(never)]
pub(crate) fn begin_again(plan: &Plan, recorder: HeldRecorder, frame: FrameRef) -> Token {
    reach(&recorder, || "begin again".into());
    let (set, stack) = (plan.set(), &recorder.stack);
    frame.locks.set(LOCKS_SPLIT);
    if refresh_counters(set, stack, frame) {
        stack.pop(frame);
        stack.serial.set(stack.serial.get() - 1);
        return plan.base_hooks().begin(recorder);
    }
    begin_in_user_space(set, frame, stack);
    add(&plan.cells.open, 1);
    let token = frame.serial.get();
    recorder.release();
    token
}

/// Reads the counters' pages, and lets the fast path use what they contain now. Returns whether it can.
// This is a function of its own so that `begin_again` needs no stack frame and ends by a jump to the fast path: none of
// its instructions follow the reading.
#[inline(never)]
fn refresh_counters(set: &EventSet, stack: &Stack, innermost: FrameRef) -> bool {
    detach(stack.iter().filter(|around| *around != innermost));
    // `remember_counters` and the fast path check whether the thread was switched since.
    with_off_cpu(set.switches(), stack, || ());
    begin_via_pages(set, innermost) && set.remember_counters()
}

/// Begins by the counters' pages, or by read(2) for counters without one. Leaves out events of the thread's group.
/// Returns whether the fast path can read all these counters from now on.
fn begin_via_pages(set: &EventSet, frame: FrameRef) -> bool {
    let mut is_fast = true;
    for (event, counter) in set.with_counters().filter(|(event, _)| !event.is_grouped()) {
        let mut region = frame.region(event.n);
        counter.begin(&mut region);
        is_fast &= counter.begin_unchanged(&mut region);
        frame.set_region(event.n, region);
    }
    is_fast
}

/// Begins the events of the thread's group by one reading.
#[inline(never)]
fn begin_group(set: &EventSet, frame: FrameRef) {
    let Some(group) = set.read_group_to_begin() else { return };
    for (event, counter) in set.with_counters().filter(|(event, _)| event.is_grouped()) {
        frame.set_region(event.n, group.begin(counter));
    }
}

/// Reads the events that need no system call. Returns `false` if the kernel touched one of their counters since the
/// last reading.
fn begin_in_user_space(set: &EventSet, frame: FrameRef, stack: &Stack) -> bool {
    with_off_cpu(set.switches(), stack, || {
        let mut is_unchanged = true;
        for event in set.events().filter(|event| !event.slot().is_read_by_kernel()) {
            is_unchanged &= event.begin(frame);
        }
        is_unchanged
    })
}

/// Ends the innermost call.
#[inline(never)]
pub(crate) fn end(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    reach(&recorder, || "end on the slow path".into());
    store_counts(plan.set(), frame, &recorder.stack);
    finish(plan, frame, recorder, false, true);
}

/// Removes the innermost frame, which holds what was counted. If it `is_long`, leaves the work for that out of the open
/// calls.
pub(crate) fn finish(plan: &Plan, frame: FrameRef, recorder: HeldRecorder, panicking: bool, is_long: bool) {
    let ended = plan.set().emulated_counts();
    // If calls of this plan usually end on the slow path, that path is part of the probe overhead.
    let before = if is_long && plan.set().is_fast.get() { Moment::at_end(&recorder, Some(frame)) } else { None };
    if plan.leaves_preemption_out() {
        exclude_preemption(frame, &recorder);
    }
    close_call(plan, frame, &recorder, panicking);
    exclude_work(before.as_ref(), &recorder, false);
    plan.set().exclude_emulated_since(ended);
    recorder.release();
}

/// Ends the innermost call, whose frame already holds what was counted. The thread was not switched in it.
#[cold]
#[inline(never)]
pub(crate) fn end_counted(plan: &Plan, frame: FrameRef, recorder: HeldRecorder) {
    reach(&recorder, || "end out of the range of the histogram".into());
    plan.set().off_cpu_events().for_each(|event| frame.set_counted(event.n, Delta::Exact(0)));
    discard_if_off(plan.set(), frame);
    let is_long = recorder.has_thinned.get();
    finish(plan, frame, recorder, false, is_long);
}

/// If recording has ended, makes the call unmeasured: readings and growing histograms take system calls, which are no
/// longer allowed. Returns whether it has ended.
fn discard_if_off(set: &EventSet, frame: FrameRef) -> bool {
    let has_ended = is_off();
    if has_ended {
        set.events().for_each(|event| frame.set_counted(event.n, Delta::Unmeasured));
    }
    has_ended
}

/// Reads the counters and stores in the innermost frame what each event counted.
pub(crate) fn store_counts(set: &EventSet, frame: FrameRef, stack: &Stack) {
    if discard_if_off(set, frame) {
        return;
    }
    set.split_locks(frame);
    // Counters in user space are read first, so that they do not count the other readings.
    let ticks = with_off_cpu(set.switches(), stack, || set.ticks());
    for event in set.events().filter(|event| !event.slot().reads_ticks()) {
        if let Some(value) = event.end(frame) {
            frame.set_counted(event.n, Delta::Exact(value));
        } else if event.slot().counter().is_none() {
            // Not an event that a counter may still give.
            frame.set_counted(event.n, Delta::Unmeasured);
        }
    }
    if set.has_group() {
        end_group(set, frame);
    }
    for event in set.events() {
        if let Some(counter) = event.slot().counter().filter(|_| frame.is_unread(event.n)) {
            frame.set_counted(event.n, counter.end_changed(frame.region(event.n)));
        } else if event.slot().reads_ticks() {
            let ticks = event.ticks_until(ticks, frame).map_or(Delta::Unmeasured, Delta::Exact);
            frame.set_counted(event.n, ticks);
        }
    }
}

/// Reads the thread's group and stores in the frame what its events counted.
#[inline(never)]
fn end_group(set: &EventSet, frame: FrameRef) {
    let Some(group) = set.read_group() else { return };
    for (event, counter) in set.with_counters().filter(|(event, _)| event.is_grouped()) {
        frame.set_counted(event.n, group.end(counter, &frame.region(event.n)));
    }
}

/// Adds the innermost call to its cells and removes its frame.
fn close_call(plan: &Plan, frame: FrameRef, recorder: &Recorder, panicking: bool) {
    let cells = &plan.cells;
    if recorder.is_unrecorded(frame) {
        add(&cells.skipped, 1);
        return close(plan, frame, recorder, |_, _| {});
    }
    let (is_unwound, is_nested) = (panicking && !frame.began_in_panic(), cells.is_nested(frame.open_before.get()));
    let (below, weight) = (frame.below(), plan.weight());
    let skipped = recorder.skipped_inside(frame);
    let is_skipped = plan.is_of_skipped();
    let node = frame.graph_node().filter(|_| !is_skipped);
    if let Some(node) = node {
        node.add_call();
    }
    count_kind(cells, is_unwound, skipped > 0 && !is_skipped);
    close(plan, frame, recorder, |event, cost| {
        if let Some(imputed) = add_ended(plan, recorder, event.n, cost, is_nested, is_unwound) {
            if event.slot().is_off_cpu() {
                // On the fast path, calls around would take it to be 0.
                store_off_cpu(&recorder.stack);
            }
            add_inner_cost(plan, recorder, below, event.slot_index, imputed);
        }
        if let Some(node) = node {
            add_to_node(node, event.n, cost.filter(|_| !is_unwound), weight, true);
        }
    });
}

/// Counts a call that ended among those that a panic ended, or else whose self is an estimate.
pub(crate) fn count_kind(cells: &MarkCells, is_unwound: bool, is_estimated: bool) {
    if is_unwound {
        add(&cells.unwound, 1);
    } else if is_estimated {
        add(&cells.estimated, 1);
    }
}

/// Adds what a call that ended cost in event `n` to its cells. If that is unknown, the call is unmeasured: it is
/// imputed the mean of others, whose self is returned. A call that a panic ended is neither.
pub(crate) fn add_ended(
    plan: &Plan,
    recorder: &Recorder,
    n: usize,
    cost: Option<EventCost>,
    is_nested: bool,
    is_unwound: bool,
) -> Option<u64> {
    let cells = &plan.cells.events[n];
    match cost {
        Some(cost) if is_unwound => cost.add_unwound(cells, is_nested),
        Some(cost) => {
            if let Some(arena) = recorder.arena() {
                cost.add_call(cells, is_nested, arena);
                plan.update_span(n, recorder);
            }
        }
        None if is_unwound => {}
        None => {
            let imputed = plan.cells.impute(n, is_nested);
            cells.add_unmeasured(1, is_nested);
            return Some(imputed);
        }
    }
    None
}

/// Adds what a call, or a poll of one, cost in event `n` to its node in the call graph, where it counts as `weight`
/// calls. If that is unknown, the call is unmeasured at its end.
pub(crate) fn add_to_node(node: &Node, n: usize, cost: Option<EventCost>, weight: u64, ends: bool) {
    match cost {
        Some(cost) => node.add_cost(n, cost.net.wrapping_mul(weight), cost.inner.wrapping_mul(weight)),
        None if ends => node.add_unmeasured(n),
        None => {}
    }
}

/// Removes the innermost frame, which holds what was counted. Passes the cost of each event to `add`, or `None` if it
/// is unmeasured, and adds it to the call around. The first event comes last: a reader that sees the call there sees it
/// in all events.
pub(crate) fn close(
    plan: &Plan,
    frame: FrameRef,
    recorder: &Recorder,
    mut add: impl FnMut(SetEvent<'_>, Option<EventCost>),
) {
    let (set, below, tracks_overhead) = (plan.set(), frame.below(), recorder.tracks_overhead.get());
    look(plan, recorder);
    let inner = InnerCalls::of(&frame, recorder.stack.serial.get());
    let skipped = recorder.skipped_inside(frame);
    let has_thinned = recorder.has_thinned.get() && frame.has_thinned_inside(recorder.stack.serial.get());
    let is_in_one = has_thinned && recorder.is_in_complete_burst(frame);
    plan.cells.open.store(frame.open_before.get(), Relaxed);
    for event in set.events().rev() {
        let Some((counted, is_scaled)) = frame.counted(event.n) else {
            add(event, None);
            continue;
        };
        let slot = event.slot_index;
        let of_skipped = skipped.wrapping_mul(set.overhead.skipped[slot].get());
        let overhead = set.overhead.of_call(&frame, event.n, slot, inner, tracks_overhead).wrapping_add(of_skipped);
        let (net, inner_cost) = (counted.wrapping_sub(overhead), frame.inner_cost[slot].get());
        // The cost of inner calls is the sum of their self values. Therefore the call around gets this call's self
        // value.
        let own = net.wrapping_sub(inner_cost);
        add_inner_cost(plan, recorder, below, slot, own);
        let thinned = if has_thinned { frame.thinned_inside(slot) } else { 0 };
        let parts = || Parts::new(plan, frame, recorder, event, [own, thinned], is_in_one);
        let of_skipped = if recorder.has_thinned.get() { parts().add() } else { 0 };
        add(event, Some(EventCost { net, inner: inner_cost.wrapping_add(of_skipped), is_scaled }));
    }
    if skipped > 0 {
        below.add_overhead::<EVENT_SLOTS>(&set.overhead.skipped_extra);
    }
    if inner.is_empty() && recorder.is_unrecorded(frame) {
        below.add_overhead::<EVENT_SLOTS>(&set.overhead.unrecorded_extra);
    }
    pass_to_caller(plan, frame, recorder, !inner.is_empty());
    recorder.stack.pop(frame);
}

/// Adds the cost of a call that ends to the call around.
pub(crate) fn add_inner_cost(plan: &Plan, recorder: &Recorder, below: FrameRef, slot: usize, cost: u64) {
    below.add_inner_cost(slot, cost);
    if recorder.has_thinned.get() && !plan.passes_thinned_on() {
        below.add_unthinned(slot, cost);
    }
}

/// Adds the cost of inner calls and the probe overhead of a call that ends to the call around.
fn pass_to_caller(plan: &Plan, frame: FrameRef, recorder: &Recorder, is_caller: bool) {
    let (overhead, below, tracks_overhead) = (&plan.set().overhead, frame.below(), recorder.tracks_overhead.get());
    if tracks_overhead {
        below.add_overhead::<EVENT_SLOTS>(&overhead.total);
        if is_caller {
            below.add_overhead::<EVENT_SLOTS>(&overhead.caller_extra);
        }
    } else {
        below.inner_callers().set(below.inner_callers().get() + u64::from(is_caller) + frame.inner_callers().take());
    }
    if recorder.has_thinned.get() {
        frame.end_unthinned::<EVENT_SLOTS>(plan.passes_thinned_on(), recorder.stack.serial.get());
    }
    frame.move_all_to::<EVENT_SLOTS>(&below);
}

/// Finds the frame with this token and makes it the innermost. Frames above it belong to calls that never ended; they
/// are counted as unmeasured.
pub(crate) fn find_frame(recorder: &Recorder, token: Token) -> Option<FrameRef> {
    let (cells, stack) = (recorder.cells()?, &recorder.stack);
    let found = stack.iter().find(|frame| frame.number() == token & SERIAL)?;
    if stack.innermost() == Some(found) {
        return Some(found);
    }
    // Samples belong to the call that is the innermost one until now.
    if let Some(innermost) = stack.innermost() {
        look(innermost.plan(), recorder);
    }
    // After recording has ended, no system call is allowed, and no other thread takes the lock.
    let _signals = (!is_off()).then(BlockedSignals::new);
    let mut switched = cells.switched.lock();
    for frame in stack.above(found) {
        let (plan, open_before) = (frame.plan(), frame.open_before.get());
        plan.cells.open.store(open_before, Relaxed);
        let was_counted = switched.take(frame.number());
        if !was_counted && !recorder.is_unrecorded(frame) {
            plan.cells.abandon(1, plan.cells.is_nested(open_before));
        } else if !was_counted {
            add(&plan.cells.skipped, 1);
        }
        pass_to_caller(plan, frame, recorder, false);
        stack.pop(frame);
    }
    // So that no token of a removed frame is the number of the call that began last.
    stack.serial.set(stack.serial.get() + 1);
    if recorder.has_thinned.get() {
        found.count_unthinned(1);
    }
    if !is_off() {
        switched.keep(stack.serial.get(), stack.iter().map(|frame| frame.number()), &cells.arena);
    }
    Some(found)
}

/// Removes the frames of calls that ended on other threads.
#[inline]
pub(crate) fn remove_ended_elsewhere(recorder: &Recorder) {
    if recorder.cells().is_some_and(|cells| cells.switched.has_ended()) {
        remove_frames_ended_elsewhere(recorder);
    }
}

#[cold]
#[inline(never)]
fn remove_frames_ended_elsewhere(recorder: &Recorder) {
    let (Some(cells), stack) = (recorder.cells(), &recorder.stack) else { return };
    let _signals = (!is_off()).then(BlockedSignals::new);
    let mut state = cells.switched.lock();
    let remove = |frame: FrameRef| {
        let plan = frame.plan();
        let open = &plan.cells.open;
        open.store(open.load(Relaxed) - 1, Relaxed);
        for above in stack.above(frame).filter(|above| above.plan_ptr() == frame.plan_ptr()) {
            above.open_before.set(above.open_before.get() - 1);
        }
        pass_to_caller(plan, frame, recorder, false);
    };
    stack.retain(|frame| !state.take(frame.number()), remove);
    cells.switched.forget(&mut state);
}
