//! Without the feature `sampling`, nothing is sampled.

use std::ops::RangeBounds;
use std::ptr;
use std::sync::Arc as Shared;

use crate::platform::sync::Arc;
use crate::recording::cells::{Graph, Holds, Node, ThreadCells};
use crate::snapshot::Samples;

/// Nodes that no path has.
pub(crate) const UNKNOWN: *const Node = ptr::dangling();
pub(crate) const TOO_DEEP: *const Node = ptr::dangling();

/// Looks for samples: there are none.
pub(crate) struct Watch;

#[expect(clippy::unused_self, reason = "as with the feature")]
impl Watch {
    pub(crate) fn of(_: Option<&SampledThread>) -> Self {
        Self
    }

    #[inline]
    pub(crate) fn has_moved(&self) -> bool {
        false
    }

    pub(crate) fn update(&self, sampled: &SampledThread) {
        match *sampled {}
    }
}

/// A thread that is sampled: there is none.
pub(crate) enum SampledThread {}

/// Methods that nobody can call.
macro_rules! methods {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[inline]
            pub(crate) fn $name(&self, $(_: $argument),*) $(-> $result)? {
                match *self {}
            }
        )*
    };
}

impl SampledThread {
    pub(crate) fn new(_: u64) -> Arc<Self> {
        unreachable!("no call has the number of a sampling")
    }

    methods! {
        reuse();
        is_unused() -> bool;
        add_skipped(Shared<dyn Holds>);
        moved() -> Option<u64>;
        may_be_in_older(u64, impl FnOnce() -> u64) -> bool;
        begin_too_deep(u64);
        is_around_too_deep(u64) -> bool;
        note(u64, *const Node);
        replace_noted(u64) -> u64;
        paths() -> Option<&Graph>;
    }
}

pub(crate) fn attach(_: u8, _: u32, notes: &Arc<SampledThread>) {
    match **notes {}
}

pub(crate) fn detach(notes: &Arc<SampledThread>, _: &Arc<ThreadCells>) -> Option<u64> {
    match **notes {}
}

pub(crate) fn collect(_: impl RangeBounds<u64>) {}

pub(crate) fn snapshot_notes() -> Vec<String> {
    Vec::new()
}

pub(crate) fn samples(_: impl Iterator<Item = u32>) -> Vec<Samples> {
    Vec::new()
}
