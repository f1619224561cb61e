//! What tests of random scripts ask of a recorder: which hooks there are, which were executed, and what runs.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::bind::hooks_with_off_cpu;
use super::fast::{General, HookParams, SeveralSets, SingleSet};
use super::reached::{self, REACHED};
use super::thread::plan::FAST_EVENTS;
use super::thread::stack::FrameRef;
use super::thread::state::with_recorder;

/// The names of the hooks that are not fast ones.
const OTHERS: [&str; 15] = [
    "begin a call of a rare mark, and adapt",
    "begin a call with which a burst begins or ends",
    "begin a call in a burst",
    "begin a call that is not recorded",
    "begin again",
    "begin with a fence",
    "close a caller's poll with a fence",
    "close a leaf's poll with a fence",
    "end a call by a panic, or one that is not the innermost",
    "end a caller with a fence",
    "end a leaf with a fence",
    "end a poll on the slow path",
    "end a poll that is unmeasured",
    "end on the slow path",
    "end out of the range of the histogram",
];

/// The names of all hooks.
#[must_use]
pub fn all_hooks() -> BTreeSet<String> {
    fn of<P: HookParams>(hooks: &mut BTreeSet<String>, set: [usize; 3]) {
        hooks.insert(reached::name::<P::Entry>("begin", set, false));
        hooks.extend([true, false].map(|is_leaf| reached::name::<P>("end", set, is_leaf)));
        if P::IS_GENERAL {
            let set = [set[0], set[0], set[2]];
            hooks.extend([true, false].map(|is_leaf| reached::name::<P>("end specially", set, is_leaf)));
        }
        if !P::IS_SINGLE_SET && (!P::IS_GENERAL || set[2] > 0) {
            hooks.extend([true, false].map(|is_leaf| reached::name::<P>("close", set, is_leaf)));
        }
    }
    let mut hooks: BTreeSet<String> = OTHERS.map(str::to_owned).into();
    for (events, has_time) in (1..=FAST_EVENTS).flat_map(|events| [(events, false), (events, true)]) {
        let set = |off_cpu| [events, events - usize::from(has_time), off_cpu];
        of::<SingleSet>(&mut hooks, set(0));
        of::<SeveralSets>(&mut hooks, set(0));
        of::<General>(&mut hooks, set(0));
        let is_fast = |&off_cpu: &usize| hooks_with_off_cpu::<General>(events, has_time, off_cpu).is_some();
        for off_cpu in (1..=events).filter(is_fast) {
            of::<SingleSet>(&mut hooks, set(off_cpu));
            of::<General>(&mut hooks, set(off_cpu));
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
