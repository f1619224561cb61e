//! Calls that are made of polls: those of async functions. Each poll has a frame on the thread that it runs on, as a call has; what it cost waits in
//! the future for the last poll, which adds the call to the cells of its own thread.
#![allow(unsafe_code, reason = "frames and plans are found by pointers that live as long as the thread's recorder")]

use std::sync::atomic::Ordering::{Relaxed, Release};

use perfmark_rdpmc::clock::fence;

use super::account::{Account, Boxed, NOTHING};
use super::frames::{Frame, Header, NO_FRAME, SERIAL, Token};
use super::long::{self, Part};
use super::options;
use super::plan::{Begin, Plan, SHORT};
use super::probe::PAID;
use super::sources::SLOTS;
use super::thread::{
    Call, Recorder, begin_unusual, enter_poll, leave_elsewhere, own_work, put_back, take, with_recorder,
};
use crate::cells::MarkCells;
use crate::histogram::add;
use crate::mark::{self, Mark};
use crate::registry::registry;
use crate::start;

/// What a future keeps of its call between polls, in 64 bytes of no alignment: a future that is marked grows by no more than these.
#[derive(Debug, Default)]
pub(crate) enum Polls {
    /// There was none yet.
    #[default]
    None,
    /// `every` leaves the call out.
    Skipped(Begun),
    /// What they cost, in calls of few events.
    Few(Begun, [Account; FEW]),
    Many(Begun, Boxed),
    /// The call is over, or none of this process's.
    Over,
}

const FEW: usize = SHORT;

const _: () = assert!(size_of::<Polls>() <= 64 && align_of::<Polls>() == 1);

/// What is known of a call that goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// The process's.
    generation: u8,
    /// Whether the first poll had another call of the mark around it; and, in the other bits, how many calls it counts as, told apart.
    manner: u8,
}

impl Begun {
    fn new(generation: u8, is_nested: bool, weight: u32) -> Self {
        Self { generation, manner: u8::from(is_nested) | Self::tag(weight) << 1 }
    }

    fn is_nested(self) -> bool {
        self.manner & 1 != 0
    }

    /// Whether the call counts as so many.
    fn counts_as(self, weight: u32) -> bool {
        self.manner >> 1 == Self::tag(weight)
    }

    /// 0 for 1, and for nothing else. Of others, 1 in 127 are the same.
    fn tag(weight: u32) -> u8 {
        match weight {
            0 | 1 => 0,
            _ => 1 + (weight % 127) as u8,
        }
    }
}

impl Part {
    fn plus(self, other: Self) -> Self {
        Self {
            net: self.net.wrapping_add(other.net),
            inside: self.inside.wrapping_add(other.inside),
            is_scaled: self.is_scaled || other.is_scaled,
        }
    }
}

/// Which poll of its call begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Poll {
    First,
    Later,
    /// Of a call that is left out.
    Skipped,
}

/// How a poll ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pending,
    Ready,
    /// By a panic.
    Unwound,
}

/// The token of a poll whose call is left out: no serial number.
const SKIPPED: Token = SERIAL;

/// Begins a poll of a call of the mark.
#[inline]
pub(crate) fn begin_poll(mark: &'static Mark, polls: &mut Polls) -> Call {
    let poll = match polls {
        Polls::None => Poll::First,
        Polls::Few(..) | Polls::Many(..) => Poll::Later,
        Polls::Skipped(_) => Poll::Skipped,
        Polls::Over => return Call::NONE,
    };
    let place = mark.place();
    let call = if mark::is_off(place) { Call::NONE } else { enter_poll(place, poll) };
    if call.is_none() { begin_rarely(mark, polls, poll) } else { call }
}

/// Begins a poll where that is unusual. A first one that cannot be recorded ends its call, which is counted already, or is to do nothing.
#[cold]
#[inline(never)]
fn begin_rarely(mark: &'static Mark, polls: &mut Polls, poll: Poll) -> Call {
    let call = if mark::is_off(mark.place()) { Call::NONE } else { begin_unusual(mark, Some(poll)) };
    if call.is_none() && poll == Poll::First {
        *polls = Polls::Over;
    }
    call
}

/// Begins a poll, by the mark's own way to begin.
///
/// # Safety
///
/// As [`Begin`] has it.
pub(super) unsafe fn begin(recorder: *mut Recorder, plan: *const Plan, begin: Begin, poll: Poll) -> Call {
    // SAFETY: the caller's word.
    let (plan_, sums) = unsafe { (&*plan, &(*recorder).sums) };
    let is_skipped = match poll {
        // SAFETY: the caller's word.
        Poll::First => !plan_.is_poll_drawn(unsafe { &(*recorder).random }),
        Poll::Later => false,
        Poll::Skipped => true,
    };
    add(&plan_.cells.begun, u64::from(poll == Poll::First));
    if is_skipped {
        // SAFETY: the caller's word.
        return unsafe {
            (*recorder).stack.skip();
            put_back(recorder, SKIPPED)
        };
    }
    options::pay_draw(sums, plan_);
    // SAFETY: the caller's word.
    unsafe { begin(recorder, plan) }
}

/// Ends a poll of a call of the mark.
#[inline(never)]
pub(crate) fn end_poll(mark: &'static Mark, polls: &mut Polls, call: &Call, outcome: Outcome) {
    // SAFETY: this thread's.
    let is_taken = !call.is_none() && call.is_own() && unsafe { take(call.recorder()) };
    if !is_taken {
        return end_untaken(mark, polls, call, outcome);
    }
    // SAFETY: taken.
    unsafe {
        match innermost(call) {
            Some(frame) => end(call.recorder(), frame, polls, outcome),
            // Left out, deeper than the stack, or lost by a jump.
            None => end_unmeasured(call, mark, polls, outcome),
        }
        put_back(call.recorder(), NO_FRAME);
    }
}

/// The poll's frame, which is the innermost one.
///
/// # Safety
///
/// The recorder is this thread's, taken.
#[inline]
unsafe fn innermost(call: &Call) -> Option<Frame> {
    // SAFETY: the caller's word; the innermost frame's, or the one below the first, whose number is no call's.
    unsafe {
        let stack = &mut (*call.recorder()).stack;
        let header = stack.end.cast::<Header>().sub(1);
        if (*header).serial & SERIAL == call.token & SERIAL && call.is_open() {
            return Some(Frame::ending_at(stack.end));
        }
        if !call.is_open() || call.token == SKIPPED {
            return None;
        }
        long::find(call.recorder(), call.token)
    }
}

/// Takes the poll's frame off, and adds what it cost to the call, or the call to the cells.
///
/// # Safety
///
/// The recorder is this thread's, taken, and the frame is its innermost.
#[inline]
unsafe fn end(recorder: *mut Recorder, frame: Frame, polls: &mut Polls, outcome: Outcome) {
    // SAFETY: the caller's word; plans live as long as the recorder.
    unsafe {
        let (header, set) = (*frame.header, (*(*frame.header).plan).set());
        if set.manner.is_fenced {
            fence();
        }
        let mut parts = [None; FEW];
        let ends = (*header.plan).unfenced.get();
        let is_leaf = (*recorder).stack.serial == header.serial & SERIAL;
        let close = if is_leaf { ends.close_leaf } else { ends.close };
        if close(recorder, frame.header, &mut parts) {
            add_poll::<PAID>(&*recorder, header, &mut parts[..set.len()], polls, outcome);
        } else {
            end_long(recorder, frame, polls, outcome);
        }
    }
}

/// The same by the long way.
///
/// # Safety
///
/// As [`end`].
#[cold]
#[inline(never)]
unsafe fn end_long(recorder: *mut Recorder, frame: Frame, polls: &mut Polls, outcome: Outcome) {
    let mut parts = [None; SLOTS];
    // SAFETY: the caller's word.
    unsafe {
        let (header, set) = (*frame.header, (*(*frame.header).plan).set());
        long::read_ends(frame, false);
        let node = (*recorder).node_of(&header);
        long::close(&mut *recorder, frame, |_, planned, part| parts[planned.n] = part);
        if let Some(node) = node {
            if outcome != Outcome::Pending {
                node.add_call();
            }
            if outcome != Outcome::Unwound {
                for (n, part) in parts.iter().enumerate() {
                    if let Some(part) = part {
                        part.add_to_node(node, n, (*header.plan).weight());
                    }
                }
            }
        }
        add_poll::<SLOTS>(&*recorder, header, &mut parts[..set.len()], polls, outcome);
    }
}

/// Adds what a poll cost to its call, or the call to the cells.
fn add_poll<const PAID: usize>(
    recorder: &Recorder,
    header: Header,
    parts: &mut [Option<Part>],
    polls: &mut Polls,
    outcome: Outcome,
) {
    // SAFETY: plans live as long as the recorder.
    let plan = unsafe { &*header.plan };
    let cells = &plan.cells;
    let begun = match polls.begun() {
        // It began in the process that this one was forked from.
        Some(begun) if begun.generation != recorder.generation => return polls.set(Polls::Over),
        Some(begun) => {
            if begun.counts_as(cells.weight) {
                add_accounts(parts, polls.accounts(), cells);
            } else {
                // Another share of calls is measured since it began: what it counts as is not known any more.
                parts.fill(None);
            }
            begun
        }
        None => Begun::new(recorder.generation, cells.is_nested(header.before), cells.weight),
    };
    add(&cells.polls, 1);
    match outcome {
        Outcome::Pending => {
            recorder.sums.pay::<PAID>(&plan.set().costs.suspend);
            return polls.keep(begun, parts, cells);
        }
        Outcome::Ready => {
            for (part, cells) in parts.iter().zip(&cells.events).rev() {
                if let Some(part) = part {
                    part.add_call(cells, begun.is_nested(), recorder.arena());
                } else {
                    cells.stand_in(begun.is_nested());
                    cells.add_unmeasured(1, begun.is_nested());
                }
            }
        }
        Outcome::Unwound => {
            add(&cells.unwound, 1);
            for (part, cells) in parts.iter().zip(&cells.events) {
                if let Some(part) = part {
                    part.add_unwound(cells, begun.is_nested());
                }
            }
        }
    }
    polls.close(cells);
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

impl Polls {
    /// What is known of a call that began and has not ended.
    #[inline]
    fn begun(&self) -> Option<Begun> {
        match self {
            Self::None | Self::Over => None,
            Self::Skipped(begun) | Self::Few(begun, _) | Self::Many(begun, _) => Some(*begun),
        }
    }

    /// What it cost so far.
    #[inline]
    fn accounts(&self) -> &[Account] {
        match self {
            Self::Few(_, accounts) => accounts,
            Self::Many(_, accounts) => accounts,
            Self::None | Self::Skipped(_) | Self::Over => &[],
        }
    }

    /// Keeps what was counted so far for the next poll.
    fn keep(&mut self, begun: Begun, parts: &[Option<Part>], cells: &MarkCells) {
        let account = |(part, event): (&Option<Part>, Option<u8>)| Account::new(event?, (*part)?);
        let events = cells.events.iter().map(|cells| cells.event.below(NOTHING));
        let new = parts.iter().zip(events).map(|one| account(one).unwrap_or(Account::NOTHING));
        if let Self::Many(_, accounts) = self
            && accounts.len() == parts.len()
        {
            accounts.iter_mut().zip(new).for_each(|(account, new)| *account = new);
        } else if parts.len() <= FEW {
            let mut few = [Account::NOTHING; FEW];
            few.iter_mut().zip(new).for_each(|(account, new)| *account = new);
            self.set(Self::Few(begun, few));
        } else if let Some(many) = own_work(|| new.collect()) {
            self.set(Self::Many(begun, many));
        }
    }

    /// The call ends on this thread.
    fn close(&mut self, cells: &MarkCells) {
        self.set(Self::Over);
        // Behind the call itself: a reader who finds it ended finds its figures.
        cells.ended.store(cells.ended.load(Relaxed) + 1, Release);
    }

    fn set(&mut self, to: Self) {
        if let Self::Many(..) = self {
            return free(std::mem::replace(self, to));
        }
        *self = to;
    }
}

/// The program's allocator may be marked, and what is freed here is not the program's.
#[cold]
fn free(polls: Polls) {
    own_work(|| drop(polls));
}

/// Ends a poll that has no frame: its call is left out, or unmeasured.
///
/// # Safety
///
/// The recorder is this thread's, taken.
#[cold]
#[inline(never)]
unsafe fn end_unmeasured(call: &Call, mark: &'static Mark, polls: &mut Polls, outcome: Outcome) {
    // SAFETY: the caller's word.
    let (plan, generation) = unsafe { ((*call.recorder()).plan_of(mark), (*call.recorder()).generation) };
    let Some(Plan { cells, .. }) = plan else { return end_unrecorded(mark, polls, outcome) };
    let is_nested = cells.is_nested(cells.open.load(Relaxed));
    let begun = polls.begun().unwrap_or_else(|| Begun::new(generation, is_nested, cells.weight));
    if begun.generation != generation {
        return polls.set(Polls::Over);
    }
    add(&cells.polls, 1);
    let is_skipped = call.token == SKIPPED;
    match outcome {
        Outcome::Pending if is_skipped => return polls.set(Polls::Skipped(begun)),
        Outcome::Pending => return polls.set(Polls::Few(begun, [Account::NOTHING; FEW])),
        Outcome::Ready if is_skipped => add(&cells.skipped, 1),
        Outcome::Ready => cells.add_unmeasured(1, begun.is_nested()),
        Outcome::Unwound => add(&cells.unwound, 1),
    }
    polls.close(cells);
}

/// Ends a poll whose recorder cannot be taken, or is another thread's.
#[cold]
#[inline(never)]
fn end_untaken(mark: &'static Mark, polls: &mut Polls, call: &Call, outcome: Outcome) {
    if !call.is_none() && !call.is_own() {
        end_elsewhere(mark, polls, call);
    }
    end_unrecorded(mark, polls, outcome);
}

/// A poll ends that began on another thread, which may have ended: nothing is known of what it cost, and its call goes on unmeasured.
fn end_elsewhere(mark: &'static Mark, polls: &mut Polls, call: &Call) {
    let is_skipped = call.token == SKIPPED;
    if call.is_open() && !is_skipped {
        leave_elsewhere(mark, call.token);
    }
    let generation = || Some(own_work(registry)?.ok()?.generation);
    if polls.begun().is_none()
        && let Some(generation) = generation()
    {
        let begun = Begun::new(generation, false, 1);
        polls.set(if is_skipped { Polls::Skipped(begun) } else { Polls::Few(begun, [Account::NOTHING; FEW]) });
    }
}

/// Ends a poll on a thread that has no recorder, or none any more: if its call ends, it is counted only.
#[cold]
#[inline(never)]
fn end_unrecorded(mark: &'static Mark, polls: &mut Polls, outcome: Outcome) {
    let begun = polls.begun().filter(|_| !start::is_off());
    let Some(begun) = begun else { return *polls = Polls::Over };
    match (outcome, &polls) {
        (Outcome::Pending, Polls::Skipped(_)) => return,
        (Outcome::Pending, _) => return polls.set(Polls::Few(begun, [Account::NOTHING; FEW])),
        _ => polls.set(Polls::Over),
    }
    if is_here(begun) {
        mark.unrecorded.fetch_add(1, Relaxed);
        mark.gone.fetch_add(1, Relaxed);
    }
}

/// A future that is dropped: its call of the mark ends here, if it had begun.
#[inline]
pub(crate) fn cancel(mark: impl FnOnce() -> &'static Mark, polls: &mut Polls) {
    if let Some(begun) = polls.begun() {
        cancel_begun(mark(), polls, begun);
        polls.set(Polls::Over);
    }
}

#[cold]
#[inline(never)]
fn cancel_begun(mark: &'static Mark, polls: &Polls, begun: Begun) {
    if start::is_off() || !is_here(begun) {
        return;
    }
    mark.cancelled.fetch_add(1, Relaxed);
    mark.gone.fetch_add(1, Relaxed);
    // What its polls cost can be added on a thread that knows the mark.
    with_recorder(|recorder| {
        for cells in recorder.plan_of(mark).iter().flat_map(|plan| &plan.cells.events) {
            let part = |event| polls.accounts().iter().find_map(|account| account.part(event));
            if let Some(part) = cells.event.below(NOTHING).and_then(part) {
                part.add_unwound(cells, begun.is_nested());
            }
        }
    });
}

/// Whether the call began in this process.
fn is_here(begun: Begun) -> bool {
    own_work(registry).is_some_and(|registry| registry.is_ok_and(|registry| registry.generation == begun.generation))
}
