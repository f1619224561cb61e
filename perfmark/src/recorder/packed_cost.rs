//! What an async call cost so far, as its future keeps it between polls: in bytes of no alignment, so that the future
//! keeps its own.
#![allow(unsafe_code, reason = "a box at any place, which is a pointer")]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::event_cost::EventCost;

/// What a call cost so far in one event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedCost {
    /// The event's place, with [`SCALED`]; or [`NOTHING`].
    event: u8,
    net: I56,
    inner: I56,
}

/// In an account's event: some of it is scaled.
const SCALED: u8 = 1 << 7;
/// No event, or one that was not measured in all polls.
pub(super) const NO_EVENT: u8 = SCALED - 1;

impl PackedCost {
    pub(super) const NONE: Self = Self { event: NO_EVENT, net: I56([0; 7]), inner: I56([0; 7]) };

    fn event(self) -> u8 {
        self.event & !SCALED
    }

    /// What was counted, for the event at that place.
    pub(super) fn cost(self, event: u8) -> Option<EventCost> {
        let is_it = event != NO_EVENT && self.event() == event;
        is_it.then(|| EventCost { net: self.net.get(), inner: self.inner.get(), is_scaled: self.event & SCALED != 0 })
    }

    /// None if it is more than there is room for.
    pub(super) fn new(event: u8, cost: EventCost) -> Option<Self> {
        let scaled = if cost.is_scaled { SCALED } else { 0 };
        Some(Self { event: event | scaled, net: I56::new(cost.net)?, inner: I56::new(cost.inner)? })
    }
}

/// A number of 56 bits with its sign: in ticks of 3 GHz, 138 days.
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

/// A box of accounts, which may lie anywhere.
#[derive(Debug)]
#[repr(Rust, packed)]
pub(crate) struct PackedCosts(NonNull<[PackedCost]>);

// SAFETY: it is a box, and these are plain data.
unsafe impl Send for PackedCosts {}
// SAFETY: as above.
unsafe impl Sync for PackedCosts {}

impl FromIterator<PackedCost> for PackedCosts {
    fn from_iter<I: IntoIterator<Item = PackedCost>>(costs: I) -> Self {
        Self(NonNull::from(Box::leak(costs.into_iter().collect())))
    }
}

impl Deref for PackedCosts {
    type Target = [PackedCost];

    fn deref(&self) -> &[PackedCost] {
        // SAFETY: the box's, which lives as long.
        unsafe { { self.0 }.as_ref() }
    }
}

impl DerefMut for PackedCosts {
    fn deref_mut(&mut self) -> &mut [PackedCost] {
        // SAFETY: as above.
        unsafe { { self.0 }.as_mut() }
    }
}

impl Drop for PackedCosts {
    fn drop(&mut self) {
        // SAFETY: leaked by `from_iter`, and dropped once.
        drop(unsafe { Box::from_raw({ self.0 }.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_numbers_keep_their_sign_and_refuse_what_they_cannot_hold() {
        for number in [0, 1, -1, 1 << 54, (1 << 55) - 1, -(1 << 55)] {
            assert_eq!(I56::new(i64::cast_unsigned(number)).map(I56::get), Some(number.cast_unsigned()));
        }
        for number in [1 << 55, -(1 << 55) - 1, i64::MAX, i64::MIN] {
            assert!(I56::new(i64::cast_unsigned(number)).is_none(), "{number}");
        }
    }
}
