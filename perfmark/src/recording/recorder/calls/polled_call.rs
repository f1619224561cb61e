//! The state of an async call between polls, which its future keeps.

use super::packed_cost::{NO_EVENT, PackedCost, PackedCosts};
use crate::recording::cells::{EventCost, MarkCells};
use crate::recording::recorder::thread::{FRAME_EVENTS, own_work};
use crate::settings::recording::is_off;

/// The state of an async call between polls. It takes 64 bytes at most and has no alignment, so a marked future grows
/// by no more than that.
#[derive(Debug, Default)]
pub(crate) enum PolledCall {
    /// No poll has begun.
    #[default]
    NotBegun,
    /// `every` leaves the call out.
    Skipped(CallInfo),
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
    /// In bit 0, whether the first poll had another call of the mark around it. In bit 1, whether calls inside were
    /// skipped. In the other bits, a tag of the call's weight.
    flags: u8,
}

const NESTED: u8 = 1;
const HAS_SKIPPED: u8 = 2;

impl CallInfo {
    pub(crate) fn new(generation: u8, is_nested: bool, weight: u32) -> Self {
        Self { generation, flags: if is_nested { NESTED } else { 0 } | Self::tag(weight) << 2 }
    }

    pub(crate) fn is_nested(self) -> bool {
        self.flags & NESTED != 0
    }

    pub(crate) fn with_skipped(self) -> Self {
        Self { flags: self.flags | HAS_SKIPPED, ..self }
    }

    pub(crate) fn has_skipped(self) -> bool {
        self.flags & HAS_SKIPPED != 0
    }

    /// Whether the call counts as this many calls. It may be wrong for one in 61 weights, but not among those of
    /// budgets.
    pub(crate) fn has_weight(self, weight: u32) -> bool {
        self.flags >> 2 == Self::tag(weight)
    }

    /// 0 for the weight 1 only. One in 61 of the other weights have the same tag; those of budgets, which are powers
    /// of 4, have different ones.
    fn tag(weight: u32) -> u8 {
        match weight {
            0 | 1 => 0,
            _ => 1 + (weight % 61) as u8,
        }
    }
}

impl PolledCall {
    /// What is known about the call, if it has begun and not ended.
    #[inline]
    pub(crate) fn info(&self) -> Option<CallInfo> {
        match self {
            Self::NotBegun | Self::Over => None,
            Self::Skipped(info) | Self::Inline(info, _) | Self::Boxed(info, _) => Some(*info),
        }
    }

    /// The cost of the polls so far.
    #[inline]
    pub(crate) fn costs(&self) -> &[PackedCost] {
        match self {
            Self::Inline(_, costs) => costs,
            Self::Boxed(_, costs) => costs,
            Self::NotBegun | Self::Skipped(_) | Self::Over => &[],
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
        } else if let Some(boxed) = own_work(|| new.collect()) {
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

#[cfg(all(test, not(perfmark_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_weights_of_budgets_are_told_apart() {
        let weights = || (0..15).map(|power| 4_u32.pow(power));
        for weight in weights() {
            let info = CallInfo::new(0, true, weight);
            assert!(weights().filter(|&other| info.has_weight(other)).eq([weight]), "{weight}");
        }
    }
}
