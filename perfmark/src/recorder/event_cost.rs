//! What one call, or one of the polls that it is made of, cost in one event.

use crate::arena::Arena;
use crate::cells::EventCells;
use crate::graph::Node;
use crate::histogram::add;

/// What a call or a poll cost in one event, without probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EventCost {
    /// Less than nothing where probes cost less than they usually do; it wraps.
    pub(super) net: u64,
    /// What marked calls inside cost.
    pub(super) inner: u64,
    pub(super) is_scaled: bool,
}

impl EventCost {
    /// Adds it to a node of the call graph, as that many.
    #[inline]
    pub(super) fn add_to_node(self, node: &Node, n: usize, weight: u64) {
        node.add_cost(n, self.net.wrapping_mul(weight), self.inner.wrapping_mul(weight));
    }

    /// Adds it to the cells as a call that a panic ended, which is in no distribution.
    #[cold]
    pub(super) fn add_unwound(self, cells: &EventCells, is_nested: bool) {
        cells.unwound.add(self.net, self.net.wrapping_sub(self.inner), is_nested);
    }

    /// Adds it to the cells as a complete call. Where there is no memory for the histogram to grow the call is
    /// unmeasured.
    pub(super) fn add_call(self, cells: &EventCells, is_nested: bool, arena: &Arena) {
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
