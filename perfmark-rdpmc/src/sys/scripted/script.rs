//! What a script does to the calling thread.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::events::{Event, MASK, Place, State, events, free_counter};
use crate::arch::scripted::{COST, COUNTERS, TICKS, set_value, value};
use crate::sys::abi::{FLAG_CONTEXT_SWITCH, TYPE_HARDWARE, TYPE_SOFTWARE};

/// An event, by its number in the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One that a hardware counter counts.
    Hardware(u64),
    /// One that the kernel counts.
    Software(u64),
}

fn of(kind: Kind) -> impl Iterator<Item = Arc<Event>> {
    let (kind, config) = match kind {
        Kind::Hardware(config) => (TYPE_HARDWARE, config),
        Kind::Software(config) => (TYPE_SOFTWARE, config),
    };
    events().into_iter().filter(move |event| (event.attr.kind, event.attr.config) == (kind, config))
}

/// Each reading of a counter or of the ticks adds that much to it, as the instructions of a probe do.
pub fn let_readings_count(cost: u64) {
    COST.store(cost, Relaxed);
}

/// Nanoseconds pass, on all threads.
pub fn pass(nanoseconds: u64) {
    TICKS.fetch_add(nanoseconds, Relaxed);
}

/// The event occurs on this thread.
pub fn count(kind: Kind, times: u64) {
    for event in of(kind) {
        let state = event.state();
        match state.place {
            Place::Software => event.set_state(State { value: state.value + times, ..state }),
            Place::OffPmu => {}
            Place::Counter(n, _) => {
                let sum = value(n) + times;
                set_value(n, sum & MASK);
                if sum > MASK {
                    event.update(event.state().now());
                }
            }
        }
    }
}

/// The kernel moves the thread's hardware events to other counters, which then have these values.
pub fn move_all(by: usize, values: impl Fn(usize) -> u64) {
    let moved: Vec<_> = events().into_iter().map(|event| (event.state().now(), event)).collect();
    for (state, event) in moved {
        if let Place::Counter(n, _) = state.place {
            let n = (n + by) % COUNTERS;
            set_value(n, values(n) & MASK);
            event.update(State { place: Place::Counter(n, value(n)), ..state });
        }
    }
}

/// Other events take the counter of this one. Returns whether it had one.
pub fn take_away(kind: Kind) -> bool {
    let mut has_any = false;
    for event in of(kind) {
        let state = event.state().now();
        if matches!(state.place, Place::Counter(..)) {
            event.update(State { place: Place::OffPmu, ..state });
            has_any = true;
        }
    }
    has_any
}

/// The event gets a counter again.
pub fn give_back(kind: Kind) {
    for event in of(kind) {
        let state = event.state().now();
        if state.place == Place::OffPmu
            && let Some(n) = free_counter(&events())
        {
            event.update(State { place: Place::Counter(n, value(n)), ..state });
        }
    }
}

/// The thread is off its CPU for some nanoseconds: another thread is preferred, or it waits. Returns `false`, and
/// does nothing, if a ring has no room for the records.
pub fn switch(nanoseconds: u64, is_preempted: bool) -> bool {
    /// `PERF_RECORD_SWITCH` in a record of 16 bytes, and its flags `PERF_RECORD_MISC_SWITCH_OUT` and
    /// `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`.
    const SWITCH: u64 = 16 << 48 | 14;
    const OUT: u64 = 1 << 13 << 32;
    const PREEMPTED: u64 = 1 << 14 << 32;
    if !events().iter().all(|event| event.has_room(8)) {
        return false;
    }
    let away: Vec<_> = events().into_iter().map(|event| (event.state().now(), event)).collect();
    let out = SWITCH | OUT | if is_preempted { PREEMPTED } else { 0 };
    let (left, back) = (TICKS.load(Relaxed), TICKS.load(Relaxed) + nanoseconds);
    TICKS.store(back, Relaxed);
    for (state, event) in away {
        if event.attr.flags & FLAG_CONTEXT_SWITCH != 0 {
            event.write(&[out, left]);
            event.write(&[SWITCH, back]);
        }
        event.update(State { tick: back, ..state });
    }
    true
}
