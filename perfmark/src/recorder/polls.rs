//! What a future keeps of its call between polls.

use super::account::{Account, Boxed, NOTHING};
use super::part::Part;
use super::stack::EVENTS;
use super::state::own_work;
use crate::cells::MarkCells;

/// What a future keeps of its call between polls, in 64 bytes of no alignment: a future that is marked grows by no more
/// than these.
#[derive(Debug, Default)]
pub(crate) enum Polls {
    /// There was none yet.
    #[default]
    None,
    /// `every` leaves the call out.
    Skipped(Ongoing),
    /// What they cost, in calls of few events.
    Few(Ongoing, [Account; FEW]),
    Many(Ongoing, Boxed),
    /// The call is over, or none of this process's.
    Over,
}

pub(super) const FEW: usize = EVENTS;

const _: () = assert!(size_of::<Polls>() <= 64 && align_of::<Polls>() == 1);

/// What is known of a call that goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ongoing {
    /// The process's.
    pub(super) generation: u8,
    /// Whether the first poll had another call of the mark around it; and, in the other bits, a tag of
    /// how many calls it counts as.
    manner: u8,
}

impl Ongoing {
    pub(super) fn new(generation: u8, is_nested: bool, weight: u32) -> Self {
        Self { generation, manner: u8::from(is_nested) | Self::tag(weight) << 1 }
    }

    pub(super) fn is_nested(self) -> bool {
        self.manner & 1 != 0
    }

    /// Whether the call counts as so many.
    pub(super) fn counts_as(self, weight: u32) -> bool {
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

impl Polls {
    /// What is known of a call that began and has not ended.
    #[inline]
    pub(super) fn ongoing(&self) -> Option<Ongoing> {
        match self {
            Self::None | Self::Over => None,
            Self::Skipped(ongoing) | Self::Few(ongoing, _) | Self::Many(ongoing, _) => Some(*ongoing),
        }
    }

    /// What it cost so far.
    #[inline]
    pub(super) fn accounts(&self) -> &[Account] {
        match self {
            Self::Few(_, accounts) => accounts,
            Self::Many(_, accounts) => accounts,
            Self::None | Self::Skipped(_) | Self::Over => &[],
        }
    }

    /// Of a call that goes on, and is not measured.
    pub(super) fn unmeasured(ongoing: Ongoing) -> Self {
        Self::Few(ongoing, [Account::NOTHING; FEW])
    }

    /// Keeps what was counted so far for the next poll.
    pub(super) fn keep(&mut self, ongoing: Ongoing, parts: &[Option<Part>], cells: &MarkCells) {
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
            self.set(Self::Few(ongoing, few));
        } else if let Some(many) = own_work(|| new.collect()) {
            self.set(Self::Many(ongoing, many));
        }
    }

    pub(super) fn set(&mut self, to: Self) {
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
