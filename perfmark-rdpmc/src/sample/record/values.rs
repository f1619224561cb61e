//! The counts in a record.

use super::bytes::{Bytes, Words};
use super::layout::Layout;
use crate::flags::ReadFormat;

/// The counts of an event, or of all events of its group, at one moment.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Values<'a> {
    /// Nanoseconds for which the event was enabled.
    pub enabled: Option<u64>,
    /// Nanoseconds for which the event was enabled and on the PMU.
    pub running: Option<u64>,
    /// Value, id and lost samples of each event, as far as the layout has them.
    words: Words<'a>,
    layout: Layout,
}

/// The count of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Value {
    /// Events counted.
    pub value: u64,
    /// The event's id.
    pub id: Option<u64>,
    /// The samples that were lost (linux 6.0).
    pub lost: Option<u64>,
}

impl<'a> Values<'a> {
    pub(super) fn parse(bytes: &mut Bytes<'a>, layout: &Layout) -> Option<Self> {
        let each = 1 + u64::from(layout.reads(ReadFormat::ID)) + u64::from(layout.reads(ReadFormat::LOST));
        let count = if layout.reads(ReadFormat::GROUP) { bytes.u64()? } else { 1 };
        // The value of a single event comes before the times, and the rest after them.
        let mut single = *bytes;
        if !layout.reads(ReadFormat::GROUP) {
            bytes.u64()?;
        }
        let enabled = bytes.given(layout.reads(ReadFormat::TOTAL_TIME_ENABLED), Bytes::u64)?;
        let running = bytes.given(layout.reads(ReadFormat::TOTAL_TIME_RUNNING), Bytes::u64)?;
        let words = if layout.reads(ReadFormat::GROUP) {
            bytes.words(count.checked_mul(each)?)?
        } else {
            bytes.words(each - 1)?;
            single.words(each + u64::from(enabled.is_some()) + u64::from(running.is_some()))?
        };
        Some(Self { enabled, running, words, layout: *layout })
    }

    /// The events, the group's leader first.
    pub fn iter(&self) -> impl Iterator<Item = Value> + use<'a> {
        let (layout, mut words) = (self.layout, self.words.iter());
        let times = if layout.reads(ReadFormat::GROUP) {
            0
        } else {
            usize::from(layout.reads(ReadFormat::TOTAL_TIME_ENABLED))
                + usize::from(layout.reads(ReadFormat::TOTAL_TIME_RUNNING))
        };
        std::iter::from_fn(move || {
            let value = words.next()?;
            (0..times).for_each(|_| _ = words.next());
            let id = if layout.reads(ReadFormat::ID) { words.next() } else { None };
            let lost = if layout.reads(ReadFormat::LOST) { words.next() } else { None };
            Some(Value { value, id, lost })
        })
    }
}
