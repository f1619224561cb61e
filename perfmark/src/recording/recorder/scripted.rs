//! What tests of random scripts ask of a recorder: which hooks there are, which were executed, and what runs.

use std::sync::PoisonError;

use super::bind::hooks_of;
use super::fast::{HookParams, SeveralSets, SingleSet, Weighted, WithGraph};
use super::reached::{self, REACHED};
use super::thread::plan::FAST_EVENTS;
use super::thread::state::with_recorder;

/// The names of the hooks that are not fast ones.
const OTHERS: [&str; 18] = [
    "begin again",
    "begin a call within a budget inside a drawn one",
    "begin a call within a budget that is measured completely",
    "begin a drawn call",
    "begin a drawn call within a budget",
    "begin a first poll that may be skipped",
    "begin the last call of a lot",
    "begin with a fence",
    "begin with another weight",
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
pub fn all_hooks() -> Vec<String> {
    fn of<P: HookParams>() -> Vec<String> {
        let sets = (1..=FAST_EVENTS).flat_map(|n| [(n, false), (n, true)]).flat_map(|(n, time)| {
            (0..=n)
                .filter_map(move |off_cpu| hooks_of::<P>(n, time, off_cpu).map(|_| (n, n - usize::from(time), off_cpu)))
        });
        let closes = !P::IS_SINGLE_SET && !P::HAS_GRAPH;
        let hooks =
            [("begin", &[false][..]), ("end", &[false, true]), ("close", if closes { &[false, true] } else { &[] })];
        let name = |(n, k, w), hook, leaf| reached::name::<P>(hook, [n, k, w], leaf);
        let of_set =
            |set| hooks.iter().flat_map(move |(hook, leaves)| leaves.iter().map(move |leaf| name(set, hook, *leaf)));
        sets.flat_map(of_set).collect()
    }
    let others = OTHERS.map(str::to_owned).to_vec();
    [of::<SingleSet>(), of::<SeveralSets>(), of::<Weighted>(), of::<WithGraph>(), others].concat()
}

/// The hooks that were executed.
#[must_use]
pub fn reached() -> Vec<String> {
    REACHED.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

/// The number of this thread's innermost call, and the number of calls that it counts as.
#[must_use]
pub fn innermost() -> Option<(u64, u64)> {
    let mut found = None;
    with_recorder(|recorder| {
        found = recorder.stack.innermost().map(|frame| (frame.number(), frame.plan().weight()));
    });
    found
}
