//! Calls that are made of polls: those of async functions. Each poll has a frame on the thread that it runs on, as a
//! call has. A call of one poll is like any other. What a poll cost that does not finish its call waits in the future
//! for the last poll, which adds the call to the cells of its own thread.

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use super::account::{Account, NOTHING};
use super::calibrate::Kinds;
use super::cost::PAID;
use super::counters::SLOTS;
use super::enter::{self, began_here, begin_unusual, leave_elsewhere};
use super::options;
use super::part::Part;
use super::plan::{Plan, node_of, place_of};
use super::polls::{FEW, Ongoing, Polls};
use super::slow;
use super::stack::{FULL, FrameRef, NO_FRAME, SKIPPED, Token, has_frame};
use super::state::{Recorder, Taken, own_work, with_recorder};
use crate::cells::MarkCells;
use crate::histogram::add;
use crate::mark::{self, Mark};
use crate::registry::registry;
use crate::start;

impl Part {
    fn plus(self, other: Self) -> Self {
        Self {
            net: self.net.wrapping_add(other.net),
            inside: self.inside.wrapping_add(other.inside),
            is_scaled: self.is_scaled || other.is_scaled,
        }
    }
}

/// How a poll ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Pending,
    Ready,
    /// By a panic.
    Unwound,
}

/// Begins a poll of a call of the mark. The token is [`NO_FRAME`] if the poll is not recorded.
#[inline]
fn begin_poll(mark: &'static Mark, polls: &mut Polls, kinds: &'static Kinds) -> Token {
    if !matches!(polls, Polls::None) {
        return begin_later(mark, polls, kinds);
    }
    let place = mark.slot();
    let token = if mark::is_off(place) { None } else { Some(enter::enter(place)) };
    match token {
        Some(token) if !enter::is_unusual(token) => token,
        token => begin_first(mark, polls, kinds, token.is_none()),
    }
}

/// Begins a first poll where that is unusual. If it is not recorded its call is over here: it is counted already, or is
/// to do nothing.
#[cold]
#[inline(never)]
fn begin_first(mark: &'static Mark, polls: &mut Polls, kinds: &'static Kinds, is_off: bool) -> Token {
    let token = if is_off { None } else { enter::enter_unusual(mark, kinds) };
    token.unwrap_or_else(|| {
        *polls = Polls::Over;
        NO_FRAME
    })
}

/// Begins a poll of a call that was suspended.
#[inline(never)]
fn begin_later(mark: &'static Mark, polls: &mut Polls, kinds: &'static Kinds) -> Token {
    let place = mark.slot();
    if matches!(polls, Polls::Over) || mark::is_off(place) {
        return NO_FRAME;
    }
    #[allow(unsafe_code, reason = "finds the thread's plan of the mark")]
    // SAFETY: this thread's recorder.
    let plan = |recorder| unsafe { place_of(recorder, place) }.get().plan();
    let found = Taken::take_if(plan).map(|(recorder, plan)| (plan, recorder));
    let Some((plan, recorder)) = found.or_else(|| begin_unusual(mark, kinds, false)) else { return NO_FRAME };
    if polls.ongoing().is_some_and(|ongoing| ongoing.generation != recorder.generation.get()) {
        // It began in the process that this one was forked from.
        recorder.put_back();
        polls.set(Polls::Over);
        return NO_FRAME;
    }
    let token = if matches!(polls, Polls::Skipped(_)) {
        recorder.stack.skip();
        recorder.put_back();
        SKIPPED
    } else {
        options::pay_draw(plan, &recorder);
        (options::measured(plan).begin)(plan, recorder)
    };
    if token != NO_FRAME {
        let suspended = &plan.cells.suspended;
        suspended.store(suspended.load(Relaxed).wrapping_sub(1), Relaxed);
    }
    token
}

/// A poll that runs; it ends when it is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    mark: &'static Mark,
    polls: &'a mut Polls,
    token: Token,
    outcome: Outcome,
}

impl<'a> Running<'a> {
    /// Begins a poll of a call of the mark.
    #[inline]
    pub(crate) fn begin(mark: &'static Mark, polls: &'a mut Polls, kinds: &'static Kinds) -> Self {
        let token = begin_poll(mark, polls, kinds);
        Self { mark, polls, token, outcome: Outcome::Unwound }
    }

    /// Ends it without a panic.
    #[inline]
    pub(crate) fn end(mut self, is_ready: bool) {
        self.outcome = if is_ready { Outcome::Ready } else { Outcome::Pending };
    }
}

impl Drop for Running<'_> {
    #[inline]
    fn drop(&mut self) {
        // A call of one poll.
        if self.outcome == Outcome::Ready && matches!(self.polls, Polls::None) && has_frame(self.token) {
            enter::leave(self.token, self.mark);
            *self.polls = Polls::Over;
        } else {
            end_part(self);
        }
    }
}

/// Ends a poll that is a part of its call, or a panic's end of it. As in [`enter::leave`], little comes before the
/// counters are read.
#[inline(never)]
#[allow(unsafe_code, reason = "finds the innermost frame")]
fn end_part(poll: &mut Running<'_>) {
    let Some(recorder) = Taken::take() else { return end_untaken(poll.mark, poll.polls, poll.token, poll.outcome) };
    // SAFETY: no other token is the number of the call begun last.
    let (frame, is_closed) = if let Some(frame) = unsafe { recorder.stack.begun_last(poll.token) } {
        let plan = Plan::of(frame);
        (frame, (plan.hooks.get().close_leaf)(plan, frame, &recorder))
    } else if let Some(frame) = recorder.stack.top().filter(|frame| frame.serial.get() == poll.token) {
        let plan = Plan::of(frame);
        (frame, (plan.hooks.get().close)(plan, frame, &recorder))
    } else {
        return end_rarely(recorder, poll.mark, poll.polls, poll.token, poll.outcome);
    };
    if is_closed {
        add_closed(&recorder, Plan::of(frame), frame, poll.polls, poll.outcome);
    } else {
        end_slow(&recorder, Plan::of(frame), frame, poll.polls, poll.outcome);
    }
    recorder.put_back();
}

/// Ends a poll whose frame is not the innermost, or which has none here.
#[cold]
#[inline(never)]
fn end_rarely(recorder: Taken, mark: &'static Mark, polls: &mut Polls, token: Token, outcome: Outcome) {
    if let Some(frame) = has_frame(token).then(|| slow::find(&recorder, token)).flatten() {
        end_slow(&recorder, Plan::of(frame), frame, polls, outcome);
    } else if token == SKIPPED || token == FULL || has_frame(token) && began_here(token) {
        // Left out, deeper than the stack, or lost by a jump.
        end_unmeasured(&recorder, mark, polls, token, outcome);
    } else {
        recorder.put_back();
        return end_untaken(mark, polls, token, outcome);
    }
    recorder.put_back();
}

/// Adds what a poll cost, as its frame holds it that was just closed, to its call, or the call to the cells.
fn add_closed(recorder: &Recorder, plan: &Plan, frame: FrameRef, polls: &mut Polls, outcome: Outcome) {
    let mut parts = [None; FEW];
    for (n, part) in parts.iter_mut().enumerate().take(plan.set().len()) {
        *part = Some(Part { net: frame.begun[n].get(), inside: frame.at[n].get(), is_scaled: false });
    }
    let before = frame.before.get();
    add_poll::<PAID>(recorder, plan, before, &mut parts[..plan.set().len()], polls, outcome);
}

/// The same on the slow path.
#[cold]
#[inline(never)]
fn end_slow(recorder: &Taken, plan: &Plan, frame: FrameRef, polls: &mut Polls, outcome: Outcome) {
    let (before, set) = (frame.before.get(), plan.set());
    let node = recorder.graph().and_then(|_| node_of(&frame));
    slow::read_ends(set, frame);
    let mut parts = [None; SLOTS];
    slow::close(plan, frame, recorder, |planned, part| parts[planned.n] = part);
    if let Some(node) = node {
        if outcome != Outcome::Pending {
            node.add_call();
        }
        for (n, part) in parts.iter().enumerate().take(set.len()) {
            match part {
                Some(part) if outcome != Outcome::Unwound => part.add_to_node(node, n, plan.weight()),
                _ if outcome != Outcome::Pending => node.add_unmeasured(n),
                _ => {}
            }
        }
    }
    add_poll::<SLOTS>(recorder, plan, before, &mut parts[..set.len()], polls, outcome);
}

/// Adds what a poll cost to its call, or the call to the cells. Where it began, so many calls of the mark were open.
fn add_poll<const PAID: usize>(
    recorder: &Recorder,
    plan: &Plan,
    before: u64,
    parts: &mut [Option<Part>],
    polls: &mut Polls,
    outcome: Outcome,
) {
    let (cells, generation) = (&plan.cells, recorder.generation.get());
    let ongoing = match polls.ongoing() {
        // It began in the process that this one was forked from.
        Some(ongoing) if ongoing.generation != generation => return polls.set(Polls::Over),
        Some(ongoing) => {
            if ongoing.counts_as(cells.weight) {
                add_accounts(parts, polls.accounts(), cells);
            } else {
                // Another share of calls is measured since it began: what it counts as is not known any more.
                parts.fill(None);
            }
            ongoing
        }
        None => Ongoing::new(generation, cells.is_nested(before), cells.weight),
    };
    match outcome {
        Outcome::Pending => {
            if let Some(around) = recorder.stack.innermost() {
                around.add_first_costs::<PAID>(&plan.set().costs.suspend);
            }
            cells.suspend();
            return polls.keep(ongoing, parts, cells);
        }
        Outcome::Ready => {
            for (part, cells) in parts.iter().zip(&cells.events).rev() {
                if let (Some(part), Some(arena)) = (part, recorder.arena()) {
                    part.add_call(cells, ongoing.is_nested(), arena);
                } else {
                    cells.impute(ongoing.is_nested());
                    cells.add_unmeasured(1, ongoing.is_nested());
                }
            }
        }
        Outcome::Unwound => {
            add(&cells.unwound, 1);
            for (part, cells) in parts.iter().zip(&cells.events) {
                if let Some(part) = part {
                    part.add_unwound(cells, ongoing.is_nested());
                }
            }
        }
    }
    polls.set(Polls::Over);
}

/// Adds what the polls before cost to what this one did. What was not measured in one of them is not in the call.
fn add_accounts(parts: &mut [Option<Part>], accounts: &[Account], cells: &MarkCells) {
    for (n, (part, cells)) in parts.iter_mut().zip(&cells.events).enumerate() {
        let event = cells.event.below(NOTHING).unwrap_or(NOTHING);
        // At the same place, unless this thread counts other events than the one before.
        let at_its_place = accounts.get(n).and_then(|account| account.part(event));
        let before = at_its_place.or_else(|| accounts.iter().find_map(|account| account.part(event)));
        *part = part.zip(before).map(|(part, before)| part.plus(before));
    }
}

/// The mark's cells on this thread, wherever they are.
fn cells_of<'a>(recorder: &'a Recorder, mark: &'static Mark) -> Option<&'a MarkCells> {
    recorder.cells()?.iter().find(|cells| ptr::eq(cells.mark, mark))
}

/// Ends a poll that has no frame: its call is left out, or unmeasured.
#[cold]
#[inline(never)]
fn end_unmeasured(recorder: &Taken, mark: &'static Mark, polls: &mut Polls, token: Token, outcome: Outcome) {
    let generation = recorder.generation.get();
    let Some(cells) = cells_of(recorder, mark) else { return end_untaken(mark, polls, token, outcome) };
    let is_nested = cells.is_nested(cells.open.load(Relaxed));
    let ongoing = polls.ongoing().unwrap_or_else(|| Ongoing::new(generation, is_nested, cells.weight));
    if ongoing.generation != generation || matches!(polls, Polls::Over) {
        return polls.set(Polls::Over);
    }
    let is_skipped = token == SKIPPED;
    match outcome {
        Outcome::Pending => {
            cells.suspend();
            return polls.set(if is_skipped { Polls::Skipped(ongoing) } else { Polls::unmeasured(ongoing) });
        }
        Outcome::Ready if is_skipped => add(&cells.skipped, 1),
        Outcome::Ready => cells.add_unmeasured(1, ongoing.is_nested()),
        Outcome::Unwound => add(&cells.unwound, 1),
    }
    polls.set(Polls::Over);
}

/// Ends a poll whose recorder cannot be taken, or is another thread's: nothing is known of what it cost, and its call
/// goes on unmeasured.
#[cold]
#[inline(never)]
fn end_untaken(mark: &'static Mark, polls: &mut Polls, token: Token, outcome: Outcome) {
    if has_frame(token) {
        leave_elsewhere(token, mark, false);
    }
    let generation = || Some(own_work(registry)?.ok()?.generation);
    if token != NO_FRAME && !matches!(polls, Polls::Over) {
        // It was not counted as suspended, or no longer, so that its end here is not the end of a suspended call.
        mark.gone.fetch_sub(1, Relaxed);
        if polls.ongoing().is_none()
            && let Some(generation) = generation()
        {
            let ongoing = Ongoing::new(generation, false, 1);
            polls.set(if token == SKIPPED { Polls::Skipped(ongoing) } else { Polls::unmeasured(ongoing) });
        }
    }
    end_unrecorded(mark, polls, outcome);
}

/// Ends a poll on a thread that has no recorder, or none any more: if its call ends, it is counted only.
#[cold]
#[inline(never)]
fn end_unrecorded(mark: &'static Mark, polls: &mut Polls, outcome: Outcome) {
    let ongoing = polls.ongoing().filter(|_| !start::is_off());
    let Some(ongoing) = ongoing else { return *polls = Polls::Over };
    match (outcome, &polls) {
        (Outcome::Pending, Polls::Skipped(_)) => return,
        (Outcome::Pending, _) => return polls.set(Polls::unmeasured(ongoing)),
        _ => polls.set(Polls::Over),
    }
    if is_here(ongoing) {
        mark.unrecorded.fetch_add(1, Relaxed);
        mark.gone.fetch_add(1, Relaxed);
    }
}

/// A future that is dropped: its call of the mark ends here, if it had begun.
#[inline]
pub(crate) fn cancel(mark: impl FnOnce() -> &'static Mark, polls: &mut Polls) {
    if let Some(ongoing) = polls.ongoing() {
        cancel_ongoing(mark(), polls, ongoing);
        polls.set(Polls::Over);
    }
}

#[cold]
#[inline(never)]
fn cancel_ongoing(mark: &'static Mark, polls: &Polls, ongoing: Ongoing) {
    if start::is_off() || !is_here(ongoing) {
        return;
    }
    mark.cancelled.fetch_add(1, Relaxed);
    mark.gone.fetch_add(1, Relaxed);
    // What its polls cost can be added on a thread that knows the mark.
    with_recorder(|recorder| {
        for cells in cells_of(recorder, mark).iter().flat_map(|cells| &cells.events) {
            let part = |event| polls.accounts().iter().find_map(|account| account.part(event));
            if let Some(part) = cells.event.below(NOTHING).and_then(part) {
                part.add_unwound(cells, ongoing.is_nested());
            }
        }
    });
}

/// Whether the call began in this process.
fn is_here(ongoing: Ongoing) -> bool {
    own_work(registry).is_some_and(|registry| registry.is_ok_and(|registry| registry.generation == ongoing.generation))
}
