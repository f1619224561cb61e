//! What tests of random scripts ask of a recorder: which hooks there are, which were executed, and what runs.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::fast::{GENERAL, SEVERAL_SETS, SINGLE_SET};
use super::reached::{self, REACHED};
use crate::recording::recorder::thread::{FAST_EVENTS, FrameRef, with_recorder};

/// The names of the hooks that are not fast ones.
const OTHERS: [&str; 13] = [
    "begin a call of a rare mark, and adapt",
    "begin a call with which a burst begins or ends",
    "begin a call in a burst",
    "begin a call that is not recorded",
    "begin again",
    "begin with a fence",
    "close a poll with a fence",
    "end a call by a panic, or one that is not the innermost",
    "end a caller with a fence",
    "end a leaf with a fence",
    "end a poll on the slow path",
    "end on the slow path",
    "end out of the range of the histogram",
];

/// The names of all hooks.
#[must_use]
pub fn all_hooks() -> BTreeSet<String> {
    let mut hooks: BTreeSet<String> = OTHERS.map(str::to_owned).into();
    hooks.extend((1..=FAST_EVENTS).map(reached::special_name));
    let sets = (1..=FAST_EVENTS).flat_map(|events| [([events, events], false), ([events, events - 1], false)]);
    for (set, is_watched) in sets.chain([([1, 0], true)]) {
        for kind in [SINGLE_SET, SEVERAL_SETS, GENERAL] {
            // Entries are the same for a single set and for several.
            hooks.insert(reached::name("begin", kind.max(SEVERAL_SETS), set, is_watched));
            hooks.extend(["end", "end a leaf"].map(|end| reached::name(end, kind, set, is_watched)));
            if kind == SEVERAL_SETS {
                hooks.insert(reached::name("close", kind, set, is_watched));
            }
        }
    }
    hooks
}

/// The hooks that were executed.
#[must_use]
pub fn reached() -> Vec<String> {
    REACHED.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

/// The number of this thread's innermost call, and the number of calls that it counts as: 0 if it is not recorded.
#[must_use]
pub fn innermost() -> Option<(u64, u64)> {
    let mut found = None;
    with_recorder(|recorder| {
        let weight = |frame: FrameRef| {
            if recorder.is_unrecorded(frame) { 0 } else { frame.plan().weight() }
        };
        found = recorder.stack.innermost().map(|frame| (frame.number(), weight(frame)));
    });
    found
}
