//! What a future keeps of its call between polls.

use super::event_cost::EventCost;
use super::packed_cost::{NO_EVENT, PackedCost, PackedCosts};
use super::stack::FRAME_EVENTS;
use super::state::own_work;
use crate::cells::MarkCells;

/// What a future keeps of its call between polls, in 64 bytes of no alignment: a future that is marked grows by no more
/// than these.
#[derive(Debug, Default)]
pub(crate) enum PolledCall {
    /// There was none yet.
    #[default]
    NotBegun,
    /// `every` leaves the call out.
    Skipped(CallInfo),
    /// What they cost, in calls of few events.
    Inline(CallInfo, [PackedCost; INLINE_EVENTS]),
    Boxed(CallInfo, PackedCosts),
    /// The call is over, or none of this process's.
    Over,
}

pub(super) const INLINE_EVENTS: usize = FRAME_EVENTS;

const _: () = assert!(size_of::<PolledCall>() <= 64 && align_of::<PolledCall>() == 1);

/// What is known of a call that goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallInfo {
    /// The process's.
    pub(super) generation: u8,
    /// Whether the first poll had another call of the mark around it; and, in the other bits, a tag of
    /// how many calls it counts as.
    flags: u8,
}

impl CallInfo {
    pub(super) fn new(generation: u8, is_nested: bool, weight: u32) -> Self {
        Self { generation, flags: u8::from(is_nested) | Self::tag(weight) << 1 }
    }

    pub(super) fn is_nested(self) -> bool {
        self.flags & 1 != 0
    }

    /// Whether the call counts as so many.
    pub(super) fn has_weight(self, weight: u32) -> bool {
        self.flags >> 1 == Self::tag(weight)
    }

    /// 0 for 1, and for nothing else. Of others, 1 in 127 are the same.
    fn tag(weight: u32) -> u8 {
        match weight {
            0 | 1 => 0,
            _ => 1 + (weight % 127) as u8,
        }
    }
}

impl PolledCall {
    /// What is known of a call that began and has not ended.
    #[inline]
    pub(super) fn info(&self) -> Option<CallInfo> {
        match self {
            Self::NotBegun | Self::Over => None,
            Self::Skipped(info) | Self::Inline(info, _) | Self::Boxed(info, _) => Some(*info),
        }
    }

    /// What it cost so far.
    #[inline]
    pub(super) fn costs(&self) -> &[PackedCost] {
        match self {
            Self::Inline(_, costs) => costs,
            Self::Boxed(_, costs) => costs,
            Self::NotBegun | Self::Skipped(_) | Self::Over => &[],
        }
    }

    /// Of a call that goes on, and is not measured.
    pub(super) fn unmeasured(info: CallInfo) -> Self {
        Self::Inline(info, [PackedCost::NONE; INLINE_EVENTS])
    }

    /// Keeps what was counted so far for the next poll.
    pub(super) fn keep(&mut self, info: CallInfo, measured: &[Option<EventCost>], cells: &MarkCells) {
        let packed = |(cost, event): (&Option<EventCost>, Option<u8>)| PackedCost::new(event?, (*cost)?);
        let events = cells.events.iter().map(|cells| cells.event.below(NO_EVENT));
        let new = measured.iter().zip(events).map(|one| packed(one).unwrap_or(PackedCost::NONE));
        if let Self::Boxed(_, costs) = self
            && costs.len() == measured.len()
        {
            costs.iter_mut().zip(new).for_each(|(packed, new)| *packed = new);
        } else if measured.len() <= INLINE_EVENTS {
            let mut inline = [PackedCost::NONE; INLINE_EVENTS];
            inline.iter_mut().zip(new).for_each(|(packed, new)| *packed = new);
            self.set(Self::Inline(info, inline));
        } else if let Some(boxed) = own_work(|| new.collect()) {
            self.set(Self::Boxed(info, boxed));
        }
    }

    pub(super) fn set(&mut self, to: Self) {
        if let Self::Boxed(..) = self {
            return free(std::mem::replace(self, to));
        }
        *self = to;
    }
}

/// The program's allocator may be marked, and what is freed here is not the program's.
#[cold]
fn free(call: PolledCall) {
    own_work(|| drop(call));
}
