//! Entry and exit of polls. A call of an async function is made of polls.
//!
//! Each poll has a frame on the thread that it runs on, like a call. A call with one poll is recorded like any other.
//! The future keeps the cost of polls that do not finish their call. The last poll adds the call to the cells of its
//! thread.

use std::sync::atomic::Ordering::Relaxed;

use super::enter::{self, began_here, began_in_parent, leave_elsewhere, set_up_call};
use super::packed_cost::{NO_EVENT, PackedCost};
use super::polled_call::{CallInfo, INLINE_EVENTS, PolledCall};
use crate::recording::cells::{EventCells, EventCost, MarkCells, add, registry::registry};
use crate::recording::events::{Events, events};
use crate::recording::mark::Mark;
use crate::recording::mark::entry;
use crate::recording::recorder::event_slots::EVENT_SLOTS;
use crate::recording::recorder::hooks::reached::reach;
use crate::recording::recorder::hooks::slow;
use crate::recording::recorder::thread::{
    CalibrationCalls, FAST_EVENT_SLOTS, FrameRef, HeldRecorder, NO_FRAME, Plan, Recorder, SetEvent, Token, has_frame,
    own_work,
};
use crate::recording::start;
use crate::settings::recording::is_off;

/// How a poll ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Pending,
    Ready,
    /// A panic ended it.
    Unwound,
}

/// Begins a first poll that needs setup, or whose mark is off. If the poll is not recorded, its call is over for
/// perfmark: it was counted, or the mark is off.
#[cold]
#[inline(never)]
fn begin_first(
    mark: &'static Mark,
    call: &mut PolledCall,
    calibration_calls: &'static CalibrationCalls,
    is_off: bool,
) -> Token {
    let token = if is_off { None } else { enter::enter_with_setup(mark, calibration_calls) };
    token.unwrap_or_else(|| {
        *call = PolledCall::Over;
        NO_FRAME
    })
}

/// Begins a poll of a call that was suspended.
#[inline(never)]
fn begin_later(mark: &'static Mark, call: &mut PolledCall, calibration_calls: &'static CalibrationCalls) -> Token {
    let entry = mark.entry();
    if matches!(call, PolledCall::Over) || entry::is_off(entry) {
        return NO_FRAME;
    }
    let found = enter::acquire(entry.cast_unsigned()).or_else(|| set_up_call(mark, calibration_calls, false));
    let Some((recorder, plan)) = found else { return NO_FRAME };
    if call.info().is_some_and(|info| info.generation != recorder.generation.get()) {
        // The call began in the process that this one was forked from.
        recorder.release();
        call.set(PolledCall::Over);
        return NO_FRAME;
    }
    let token = plan.hooks().begin(recorder);
    if token != NO_FRAME {
        let suspended = &plan.cells.suspended;
        suspended.store(suspended.load(Relaxed).wrapping_sub(1), Relaxed);
    }
    token
}

/// A running poll. It ends when it is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct RunningPoll<'a> {
    mark: &'static Mark,
    call: &'a mut PolledCall,
    /// [`NO_FRAME`] if the poll is not recorded.
    token: Token,
    outcome: Outcome,
}

impl<'a> RunningPoll<'a> {
    /// Begins a poll of a call of the mark.
    #[inline]
    pub(crate) fn begin(
        mark: &'static Mark,
        call: &'a mut PolledCall,
        calibration_calls: &'static CalibrationCalls,
    ) -> Self {
        let token = if matches!(call, PolledCall::NotBegun) {
            // Calls made of polls are never skipped, so the entry is a slot.
            let entry = mark.entry();
            let token = if entry::is_off(entry) { None } else { Some(enter::enter(entry.cast_unsigned())) };
            match token {
                Some(token) if !enter::needs_setup(token) => token,
                token => begin_first(mark, call, calibration_calls, token.is_none()),
            }
        } else {
            begin_later(mark, call, calibration_calls)
        };
        Self { mark, call, token, outcome: Outcome::Unwound }
    }

    /// Ends the poll without a panic.
    #[inline]
    pub(crate) fn end(mut self, is_ready: bool) {
        self.outcome = if is_ready { Outcome::Ready } else { Outcome::Pending };
    }
}

impl Drop for RunningPoll<'_> {
    #[inline]
    fn drop(&mut self) {
        // The only poll of its call.
        if self.outcome == Outcome::Ready && matches!(self.call, PolledCall::NotBegun) && has_frame(self.token) {
            enter::leave(self.token, self.mark);
            *self.call = PolledCall::Over;
        } else {
            self.end_part();
        }
    }
}

impl RunningPoll<'_> {
    /// Ends a poll that is only a part of its call, or that a panic ends. As in [`enter::leave`], few instructions come
    /// before the counters are read.
    #[inline(never)]
    #[allow(unsafe_code, reason = "finds the innermost frame")]
    fn end_part(&mut self) {
        let Some(recorder) = HeldRecorder::acquire() else { return self.end_without_recorder() };
        // SAFETY: the token came from `begin`: it is a frame's serial number, or one without a frame.
        let begun_last = unsafe { recorder.stack.begun_last(self.token) };
        let Some(frame) = begun_last.or_else(|| enter::innermost(&recorder, self.token)) else {
            return self.end_other(recorder);
        };
        if frame.plan().hooks().close(frame, &recorder) {
            self.add_closed(&recorder, frame);
        } else {
            self.end_on_slow_path(&recorder, frame);
        }
        recorder.release();
    }

    /// Ends a poll whose frame is not the innermost, or that has no frame on this thread.
    #[cold]
    #[inline(never)]
    fn end_other(&mut self, recorder: HeldRecorder) {
        let token = self.token;
        if let Some(frame) = has_frame(token).then(|| slow::find_frame(&recorder, token)).flatten() {
            self.end_on_slow_path(&recorder, frame);
        } else if token != NO_FRAME && (!has_frame(token) || began_here(token)) {
            // The stack was full, or a jump removed the frame.
            self.end_unmeasured(&recorder);
        } else {
            recorder.release();
            return self.end_without_recorder();
        }
        recorder.release();
    }

    /// Adds the cost of a poll, which its closed frame still holds, to its call; or a finished call to the cells.
    fn add_closed(&mut self, recorder: &Recorder, frame: FrameRef) {
        let (events, mut costs) = (frame.plan().set().len(), [None; INLINE_EVENTS]);
        // After recording has ended, no histogram can grow.
        for (n, cost) in costs.iter_mut().enumerate().take(if is_off() { 0 } else { events }) {
            let (net, inner) = frame.poll_cost(n);
            *cost = Some(EventCost { net, inner, is_scaled: false });
        }
        self.add::<FAST_EVENT_SLOTS>(recorder, frame.plan(), frame.open_before.get(), &mut costs[..events], false);
    }

    /// Ends a poll on the slow path, and adds its cost in the same way.
    #[cold]
    #[inline(never)]
    fn end_on_slow_path(&mut self, recorder: &HeldRecorder, frame: FrameRef) {
        let (plan, open_before, below, outcome) = (frame.plan(), frame.open_before.get(), frame.below(), self.outcome);
        let set = plan.set();
        reach(recorder, || "end a poll on the slow path".into());
        let suspended = set.suspended().map(|event| (event, self.suspended_around(event, frame)));
        let (node, has_skipped) = (frame.graph_node(), recorder.skipped_inside(frame) > 0);
        slow::store_counts(set, frame, &recorder.stack);
        let ended = set.emulated_counts();
        let mut costs = [None; EVENT_SLOTS];
        slow::close(plan, frame, recorder, |event, cost| costs[event.n] = cost);
        if let Some(node) = node {
            let ends = outcome != Outcome::Pending;
            if ends {
                node.add_call();
            }
            for (n, cost) in costs.iter().enumerate().take(set.len()) {
                slow::add_to_node(node, n, cost.filter(|_| outcome != Outcome::Unwound), plan.weight(), ends);
            }
        }
        if let Some((event, ticks)) = suspended
            && let Some(cost) = &mut costs[event.n]
        {
            cost.net = ticks;
        }
        self.add::<EVENT_SLOTS>(recorder, plan, open_before, &mut costs[..set.len()], has_skipped);
        // Before the call's end, its sum over the polls includes the moment at which it was suspended last, which means
        // nothing to the call around and to the call graph.
        if let Some((event, _)) = suspended
            && let Some(cost) = costs[event.n].filter(|_| outcome != Outcome::Pending)
        {
            slow::add_inner_cost(plan, recorder, below, event.slot_index, cost.net);
            if let Some(node) = node.filter(|_| outcome == Outcome::Ready) {
                node.add_cost(event.n, cost.net, 0);
            }
        }
        set.exclude_emulated_since(ended);
    }

    /// What a poll adds to the time between its call's polls: it ends the time since the poll before it, and begins the
    /// time until the next one. The sum over all polls of a call is the time between them. It wraps.
    fn suspended_around(&self, event: SetEvent<'_>, frame: FrameRef) -> u64 {
        let ended = if self.call.info().is_some() { frame.raw(event.n).get() } else { 0 };
        let begun = if self.outcome == Outcome::Pending { start::ticks() } else { 0 };
        ended.wrapping_sub(begun)
    }

    /// Adds the cost of a poll to its call, or a finished call to the cells. `costs` is then the call's cost so far.
    /// When the poll began, `open_before` calls of the mark were open. If calls inside it were skipped, the call's self
    /// is an estimate.
    fn add<const COUNT: usize>(
        &mut self,
        recorder: &Recorder,
        plan: &Plan,
        open_before: u64,
        costs: &mut [Option<EventCost>],
        has_skipped: bool,
    ) {
        let (cells, generation) = (&plan.cells, recorder.generation.get());
        let mut info = match self.call.info() {
            // The call began in the process that this one was forked from.
            Some(info) if info.generation != generation => {
                costs.fill(None);
                return self.call.set(PolledCall::Over);
            }
            Some(info) => {
                add_earlier_polls(costs, self.call.costs(), cells);
                info
            }
            None => CallInfo { generation, is_nested: cells.is_nested(open_before), has_skipped: false },
        };
        info.has_skipped |= has_skipped;
        if self.outcome == Outcome::Pending {
            if let Some(around) = recorder.stack.innermost() {
                let overhead = &plan.set().overhead;
                let is_first = matches!(self.call, PolledCall::NotBegun);
                let extra = if is_first { &overhead.first_suspend_extra } else { &overhead.suspend_extra };
                around.add_overhead::<COUNT>(extra);
            }
            cells.suspend();
            return self.call.keep(info, costs, cells);
        }
        let is_unwound = self.outcome == Outcome::Unwound;
        slow::count_kind(cells, is_unwound, info.has_skipped);
        for (n, &cost) in costs.iter().enumerate().rev() {
            // The imputed cost is of all polls, of which the call around has the last one only.
            slow::add_ended(plan, recorder, n, cost, info.is_nested, is_unwound);
        }
        self.call.set(PolledCall::Over);
    }

    /// Ends a poll without a frame. Its call is unmeasured.
    #[cold]
    #[inline(never)]
    fn end_unmeasured(&mut self, recorder: &HeldRecorder) {
        // After recording has ended, no system call is allowed.
        if is_off() {
            return *self.call = PolledCall::Over;
        }
        let (token, generation) = (self.token, recorder.generation.get());
        let Some(cells) = recorder.cells_in_use(self.mark) else { return self.end_without_recorder() };
        let is_nested = cells.is_nested(cells.open.load(Relaxed));
        let is_ours = || recorder.stack.numbered(token) || !began_in_parent(token);
        let info = match self.call.info() {
            Some(info) if info.generation == generation => info,
            None if matches!(self.call, PolledCall::NotBegun) && is_ours() => {
                CallInfo { generation, is_nested, has_skipped: false }
            }
            // It is over, or a forked child ends its parent's call.
            _ => return self.call.set(PolledCall::Over),
        };
        match self.outcome {
            Outcome::Pending => {
                cells.suspend();
                return self.call.set(PolledCall::unmeasured(info));
            }
            Outcome::Ready => cells.add_unmeasured(1, info.is_nested),
            Outcome::Unwound => add(&cells.unwound, 1),
        }
        self.call.set(PolledCall::Over);
    }

    /// Ends a poll whose recorder cannot be acquired, or belongs to another thread. The poll's cost is unknown, so its
    /// call is unmeasured. If the call ends, it is counted.
    #[cold]
    #[inline(never)]
    fn end_without_recorder(&mut self) {
        let Self { mark, ref mut call, token, outcome } = *self;
        // After recording has ended, no system call is allowed.
        if is_off() {
            return **call = PolledCall::Over;
        }
        // A forked child does not record its parent's calls.
        let is_parents = match call.info() {
            _ if token == NO_FRAME => false,
            Some(info) => generation().is_some_and(|generation| generation != info.generation),
            None => began_in_parent(token),
        };
        if is_parents {
            return call.set(PolledCall::Over);
        }
        if has_frame(token) {
            leave_elsewhere(token, mark, false);
        }
        if token != NO_FRAME && !matches!(call, PolledCall::Over) {
            // The call is not counted as suspended at the moment. So `gone` must not subtract it from the suspended
            // calls.
            mark.gone.fetch_sub(1, Relaxed);
            if call.info().is_none()
                && let Some(generation) = generation()
            {
                call.set(PolledCall::unmeasured(CallInfo { generation, is_nested: false, has_skipped: false }));
            }
        }
        let Some(info) = call.info() else { return **call = PolledCall::Over };
        if outcome == Outcome::Pending {
            return call.set(PolledCall::unmeasured(info));
        }
        call.set(PolledCall::Over);
        if generation() == Some(info.generation) {
            mark.unrecorded.fetch_add(1, Relaxed);
            mark.gone.fetch_add(1, Relaxed);
        }
    }
}

/// Adds the cost of earlier polls to that of the last one. An event that was unmeasured in one poll is unmeasured in
/// the call.
fn add_earlier_polls(costs: &mut [Option<EventCost>], earlier: &[PackedCost], cells: &MarkCells) {
    for (n, (cost, cells)) in costs.iter_mut().zip(&cells.events).enumerate() {
        let event = cells.event.below(NO_EVENT).unwrap_or(NO_EVENT);
        // The index is the same, unless the earlier poll ran on a thread with other events.
        let at_same_index = earlier.get(n).and_then(|packed| packed.cost(event));
        let earlier = at_same_index.or_else(|| earlier.iter().find_map(|packed| packed.cost(event)));
        *cost = cost.zip(earlier).map(|(cost, earlier)| EventCost {
            net: cost.net.wrapping_add(earlier.net),
            inner: cost.inner.wrapping_add(earlier.inner),
            is_scaled: cost.is_scaled || earlier.is_scaled,
        });
    }
}

/// Ends the call of a future that is dropped, if it has begun.
#[inline]
pub(crate) fn cancel(mark: impl FnOnce() -> &'static Mark, call: &mut PolledCall) {
    if let Some(info) = call.info() {
        cancel_begun(mark(), call, info);
        call.set(PolledCall::Over);
    }
}

#[cold]
#[inline(never)]
fn cancel_begun(mark: &'static Mark, call: &PolledCall, info: CallInfo) {
    if is_off() {
        return;
    }
    let count = || {
        mark.cancelled.fetch_add(1, Relaxed);
        mark.gone.fetch_add(1, Relaxed);
    };
    // The cost of its polls can be added only on a thread that knows the mark.
    let Some(recorder) = HeldRecorder::acquire() else {
        if generation() == Some(info.generation) {
            count();
        }
        return;
    };
    // In a forked child, the recorder is wiped.
    if recorder.is_set_up() && recorder.generation.get() == info.generation {
        count();
        add_cancelled(mark, call.costs(), info, &recorder);
    }
    recorder.release();
}

/// Adds the cost of the polls of a call that is cancelled.
fn add_cancelled(mark: &'static Mark, costs: &[PackedCost], info: CallInfo, recorder: &Recorder) {
    let suspended = events().ok().and_then(Events::suspended);
    for packed in costs {
        let cost = |cells: &EventCells| packed.cost(cells.event.below(NO_EVENT)?);
        let mut all = recorder.cells_of(mark).flat_map(|cells| &cells.events);
        let found = all.find_map(|cells| Some((cells, cost(cells)?)));
        if let Some((cells, mut cost)) = found {
            if Some(cells.event) == suspended {
                cost.net = cost.net.wrapping_add(start::ticks());
            }
            cost.add_unwound(cells, info.is_nested);
        }
    }
}

/// The generation of this process. `None` if there is no registry, or during perfmark's own work.
fn generation() -> Option<u8> {
    Some(own_work(registry)?.ok()?.generation)
}
