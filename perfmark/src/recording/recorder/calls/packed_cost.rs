//! The cost of an async call so far, as its future keeps it between polls: in bytes without alignment, so that the
//! future keeps its own alignment.
#![allow(unsafe_code, reason = "a box without alignment, which is a pointer")]

use std::fmt::{self, Debug, Formatter};
use std::ops::{Deref, DerefMut};

use crate::recording::cells::EventCost;

/// What a call cost so far in one event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedCost {
    /// The event's index in the process's table, possibly with [`SCALED`]; or [`NO_EVENT`].
    event: u8,
    net: I56,
    inner: I56,
}

/// Flag in `event`: a part of the cost is scaled.
const SCALED: u8 = 1 << 7;
/// No event, or an event that was unmeasured in some poll. Events from this index on are unmeasured, too.
pub(crate) const NO_EVENT: u8 = SCALED - 1;

impl PackedCost {
    pub(crate) const NONE: Self = Self { event: NO_EVENT, net: I56([0; 7]), inner: I56([0; 7]) };

    fn event(self) -> u8 {
        self.event & !SCALED
    }

    /// The cost, if it is of the event with this index.
    pub(crate) fn cost(self, event: u8) -> Option<EventCost> {
        let is_it = event != NO_EVENT && self.event() == event;
        is_it.then(|| EventCost { net: self.net.get(), inner: self.inner.get(), is_scaled: self.event & SCALED != 0 })
    }

    /// `None` if the cost does not fit into 56 bits.
    pub(crate) fn new(event: u8, cost: EventCost) -> Option<Self> {
        let scaled = if cost.is_scaled { SCALED } else { 0 };
        Some(Self { event: event | scaled, net: I56::new(cost.net)?, inner: I56::new(cost.inner)? })
    }
}

/// A signed number of 56 bits. In ticks of 3 GHz, it holds 138 days.
#[derive(Clone, Copy, Debug)]
struct I56([u8; 7]);

impl I56 {
    fn new(number: u64) -> Option<Self> {
        let [low @ .., _] = number.to_le_bytes();
        let packed = Self(low);
        (packed.get() == number).then_some(packed)
    }

    fn get(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[1..].copy_from_slice(&self.0);
        (i64::from_le_bytes(bytes) >> 8).cast_unsigned()
    }
}

/// A boxed slice of costs, without alignment. The compiler moves the box to an aligned place before it drops it.
#[repr(Rust, packed)]
pub(crate) struct PackedCosts(pub(crate) Box<[PackedCost]>);

impl PackedCosts {
    fn as_ptr(&self) -> *mut [PackedCost] {
        // SAFETY: a box has the layout of its pointer.
        unsafe { (&raw const self.0).cast::<*mut [PackedCost]>().read_unaligned() }
    }
}

impl Deref for PackedCosts {
    type Target = [PackedCost];

    fn deref(&self) -> &[PackedCost] {
        // SAFETY: the box is borrowed with `self`.
        unsafe { &*self.as_ptr() }
    }
}

impl DerefMut for PackedCosts {
    fn deref_mut(&mut self) -> &mut [PackedCost] {
        // SAFETY: the box is borrowed exclusively with `self`.
        unsafe { &mut *self.as_ptr() }
    }
}

impl Debug for PackedCosts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_keep_their_sign_and_refuse_what_they_cannot_hold() {
        for number in [0, 1, -1, 1 << 54, (1 << 55) - 1, -(1 << 55)] {
            assert_eq!(I56::new(i64::cast_unsigned(number)).map(I56::get), Some(number.cast_unsigned()));
        }
        for number in [1 << 55, -(1 << 55) - 1, i64::MAX, i64::MIN] {
            assert!(I56::new(i64::cast_unsigned(number)).is_none(), "{number}");
        }
    }

    #[test]
    fn packed_costs_are_a_slice_wherever_they_are() {
        let cost = || PackedCost::new(3, EventCost { net: 7, inner: 5, is_scaled: false }).expect("it fits");
        let costs = || (0_u8, PackedCosts([cost(), cost()].into()));
        for (_, costs) in &mut [costs(), costs()] {
            costs[1] = PackedCost::new(4, EventCost { net: 9, inner: 0, is_scaled: true }).expect("it fits");
            assert_eq!([costs[0].cost(3), costs[1].cost(4)].map(|cost| cost.map(|cost| cost.net)), [Some(7), Some(9)]);
            assert!(format!("{costs:?}").starts_with('['));
        }
    }
}
