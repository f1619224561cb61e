//! Which hooks the program executed, for the test of random scripts. Other builds note nothing.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::recording::cells::CALLS;
use crate::recording::recorder::thread::Recorder;

pub(crate) static REACHED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The name of a fast hook of this kind (see [`SINGLE_SET`](super::fast::SINGLE_SET)).
pub(crate) fn name(hook: &str, kind: u8, [events, counters]: [usize; 2], is_watched: bool) -> String {
    let kind = ["SingleSet", "SeveralSets", "General"][usize::from(kind)];
    let watched = if is_watched { ", watched" } else { "" };
    format!("{hook}, {kind}, {events} events, {counters} counters{watched}")
}

/// The name of the hook that ends special calls of a mark with this many events.
pub(crate) fn special_name(events: usize) -> String {
    format!("end specially, {events} events")
}

/// Notes that the program executes the hook with this name.
#[inline]
pub(crate) fn reach(recorder: &Recorder, name: impl FnOnce() -> String) {
    // Calls of calibration have the lowest numbers.
    if cfg!(perfmark_scripted) && recorder.stack.serial.get() >= CALLS {
        REACHED.lock().unwrap_or_else(PoisonError::into_inner).insert(name());
    }
}
