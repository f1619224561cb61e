//! The state of an async call between polls, which its future keeps.

use super::packed_cost::{NO_EVENT, PackedCost, PackedCosts};
use crate::recording::cells::{EventCost, MarkCells};
use crate::recording::recorder::thread::{FRAME_EVENTS, own_work};
use crate::settings::recording::is_off;

/// The state of an async call between polls. It takes 64 bytes at most and has no alignment, so a marked future grows
/// by no more than that. The variant is in a byte of its own, because entry and exit then take fewer instructions.
#[derive(Debug, Default)]
#[repr(u8)]
pub(crate) enum PolledCall {
    /// No poll has begun.
    #[default]
    NotBegun,
    /// The cost of the polls so far, for marks with few events.
    Inline(CallInfo, [PackedCost; INLINE_EVENTS]),
    /// The same for marks with more events.
    Boxed(CallInfo, PackedCosts),
    /// The call is over, or began in another process.
    Over,
}

/// The most events whose cost is kept in the future itself.
pub(crate) const INLINE_EVENTS: usize = FRAME_EVENTS;

const _: () = assert!(size_of::<PolledCall>() <= 64 && align_of::<PolledCall>() == 1);

/// What is known about a call that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallInfo {
    /// The generation of the process in which the call began.
    pub(crate) generation: u8,
    /// Whether the first poll had another call of the mark around it.
    pub(crate) is_nested: bool,
    /// Whether calls inside were skipped.
    pub(crate) has_skipped: bool,
}

impl PolledCall {
    /// What is known about the call, if it has begun and not ended.
    #[inline]
    pub(crate) fn info(&self) -> Option<CallInfo> {
        match self {
            Self::NotBegun | Self::Over => None,
            Self::Inline(info, _) | Self::Boxed(info, _) => Some(*info),
        }
    }

    /// The cost of the polls so far.
    #[inline]
    pub(crate) fn costs(&self) -> &[PackedCost] {
        match self {
            Self::Inline(_, costs) => costs,
            Self::Boxed(_, costs) => costs,
            Self::NotBegun | Self::Over => &[],
        }
    }

    /// The state of a suspended call that is unmeasured.
    pub(crate) fn unmeasured(info: CallInfo) -> Self {
        Self::Inline(info, [PackedCost::NONE; INLINE_EVENTS])
    }

    /// Keeps the cost so far for the next poll.
    pub(crate) fn keep(&mut self, info: CallInfo, measured: &[Option<EventCost>], cells: &MarkCells) {
        let packed = |(cost, event): (&Option<EventCost>, Option<u8>)| PackedCost::new(event?, (*cost)?);
        let events = cells.events.iter().map(|cells| cells.event.below(NO_EVENT));
        let new = measured.iter().zip(events).map(|one| packed(one).unwrap_or(PackedCost::NONE));
        if let Self::Boxed(known, costs) = self
            && costs.len() == measured.len()
        {
            *known = info;
            costs.iter_mut().zip(new).for_each(|(packed, new)| *packed = new);
        } else if measured.len() <= INLINE_EVENTS {
            let mut inline = [PackedCost::NONE; INLINE_EVENTS];
            inline.iter_mut().zip(new).for_each(|(packed, new)| *packed = new);
            self.set(Self::Inline(info, inline));
        } else if is_off() {
            self.set(Self::Over);
        } else if let Some(boxed) = own_work(|| PackedCosts(new.collect())) {
            self.set(Self::Boxed(info, boxed));
        }
    }

    pub(crate) fn set(&mut self, to: Self) {
        if let Self::Boxed(..) = self {
            return free(std::mem::replace(self, to));
        }
        *self = to;
    }
}

/// Frees a box as perfmark's own work, because the program's allocator may be marked.
#[cold]
fn free(call: PolledCall) {
    // After recording has ended, no system call is allowed, and marks do nothing.
    if is_off() {
        return drop(call);
    }
    own_work(|| drop(call));
}
