//! What one call, or one poll of a call, cost in one event.

use crate::platform::arena::Arena;
use crate::recording::cells::EventCells;
use crate::recording::cells::histogram::add;

/// What a call or a poll cost in one event, without probe overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventCost {
    /// The inclusive cost. It wraps: it is negative if the probe cost less than usual.
    pub(crate) net: u64,
    /// The part of it that inner calls cost.
    pub(crate) inner: u64,
    pub(crate) is_scaled: bool,
}

impl EventCost {
    /// Adds the cost to the cells as a call that a panic ended. Such a call is in no distribution.
    #[cold]
    pub(crate) fn add_unwound(self, cells: &EventCells, is_nested: bool) {
        cells.unwound.add(self.net, self.net.wrapping_sub(self.inner), is_nested);
    }

    /// Adds the cost to the cells as a complete call. The call is unmeasured if there is no memory for its bucket.
    pub(crate) fn add_call(self, cells: &EventCells, is_nested: bool, arena: &Arena) {
        let Some(bucket) = cells.values.grow(self.net, arena) else {
            return cells.add_unmeasured(1, is_nested);
        };
        add(&cells.inside, self.inner);
        if is_nested {
            add(&cells.nested, self.net);
        }
        if self.is_scaled {
            add(&cells.scaled, 1);
        }
        cells.values.add_to_sum(self.net);
        bucket.publish();
    }
}
