//! What an async call cost so far, as its future keeps it between polls: in bytes of no alignment, so that the future
//! keeps its own.
#![allow(unsafe_code, reason = "a box at any place, which is a pointer")]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::part::Part;

/// What a call cost so far in one event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    /// The event's place, with [`SCALED`]; or [`NOTHING`].
    event: u8,
    net: Narrow,
    inside: Narrow,
}

/// In an account's event: some of it is scaled.
const SCALED: u8 = 1 << 7;
/// No event, or one that was not measured in all polls.
pub(super) const NOTHING: u8 = SCALED - 1;

impl Account {
    pub(super) const NOTHING: Self = Self { event: NOTHING, net: Narrow([0; 7]), inside: Narrow([0; 7]) };

    fn event(self) -> u8 {
        self.event & !SCALED
    }

    /// What was counted, for the event at that place.
    pub(super) fn part(self, event: u8) -> Option<Part> {
        let is_it = event != NOTHING && self.event() == event;
        is_it.then(|| Part { net: self.net.get(), inside: self.inside.get(), is_scaled: self.event & SCALED != 0 })
    }

    /// None if it is more than there is room for.
    pub(super) fn new(event: u8, part: Part) -> Option<Self> {
        let scaled = if part.is_scaled { SCALED } else { 0 };
        Some(Self { event: event | scaled, net: Narrow::new(part.net)?, inside: Narrow::new(part.inside)? })
    }
}

/// A number of 56 bits with its sign: in ticks of 3 GHz, 138 days.
#[derive(Clone, Copy, Debug)]
struct Narrow([u8; 7]);

impl Narrow {
    fn new(number: u64) -> Option<Self> {
        let [low @ .., _] = number.to_le_bytes();
        let narrow = Self(low);
        (narrow.get() == number).then_some(narrow)
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
pub(crate) struct Boxed(NonNull<[Account]>);

// SAFETY: it is a box, and these are plain data.
unsafe impl Send for Boxed {}
// SAFETY: as above.
unsafe impl Sync for Boxed {}

impl FromIterator<Account> for Boxed {
    fn from_iter<I: IntoIterator<Item = Account>>(accounts: I) -> Self {
        Self(NonNull::from(Box::leak(accounts.into_iter().collect())))
    }
}

impl Deref for Boxed {
    type Target = [Account];

    fn deref(&self) -> &[Account] {
        // SAFETY: the box's, which lives as long.
        unsafe { { self.0 }.as_ref() }
    }
}

impl DerefMut for Boxed {
    fn deref_mut(&mut self) -> &mut [Account] {
        // SAFETY: as above.
        unsafe { { self.0 }.as_mut() }
    }
}

impl Drop for Boxed {
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
            assert_eq!(Narrow::new(i64::cast_unsigned(number)).map(Narrow::get), Some(number.cast_unsigned()));
        }
        for number in [1 << 55, -(1 << 55) - 1, i64::MAX, i64::MIN] {
            assert!(Narrow::new(i64::cast_unsigned(number)).is_none(), "{number}");
        }
    }
}
