//! Which hooks the program executed, for the test of random scripts. Other builds note nothing.

use std::any::type_name;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::thread::state::Recorder;
use crate::recording::cells::switched::CALLS;

pub(super) static REACHED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

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
