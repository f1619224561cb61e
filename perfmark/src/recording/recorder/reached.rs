//! Which hooks the program executed, for the test of random scripts. Other builds note nothing.

use std::any::type_name;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::state::Recorder;
use crate::recording::cells::switched::CALLS;

static REACHED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The names of the hooks that are not fast ones.
#[cfg(perfmark_scripted)]
pub(super) const OTHERS: [&str; 18] = [
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

/// The name of a fast hook (see [`HookParams`](super::fast::HookParams)).
pub(super) fn name<P>(hook: &str, [events, counters, off_cpu]: [usize; 3], is_leaf: bool) -> String {
    let params = type_name::<P>().replace("perfmark::recording::recorder::fast::", "");
    let leaf = if is_leaf { " of a leaf" } else { "" };
    format!("{hook}{leaf}, {params}, {events} events, {counters} counters, {off_cpu} off-CPU")
}

/// Notes that the program executes the hook with this name.
#[inline]
pub(super) fn reach(recorder: &Recorder, name: impl FnOnce() -> String) {
    // Calls of calibration have the lowest numbers.
    if cfg!(perfmark_scripted) && recorder.stack.serial.get() >= CALLS {
        REACHED.lock().unwrap_or_else(PoisonError::into_inner).insert(name());
    }
}

/// The hooks that were executed.
#[cfg(perfmark_scripted)]
#[must_use]
pub fn reached() -> Vec<String> {
    REACHED.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}
