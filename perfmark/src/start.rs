//! The process's start: its clock, and its settings.

use std::process;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Once, OnceLock};

use perfmark_rdpmc::clock::Clock;

use crate::config::{self, config};
use crate::settings;
use crate::terminal::say;

/// When the program started, and in which process.
static STARTED: OnceLock<(Clock, u32)> = OnceLock::new();

static OFF: AtomicBool = AtomicBool::new(false);

fn started() -> &'static (Clock, u32) {
    STARTED.get_or_init(|| (Clock::start(), process::id()))
}

/// The clock that runs since the program's start.
pub(crate) fn clock() -> &'static Clock {
    &started().0
}

/// Nanoseconds a tick: as the first who asks finds it, so that what was told in one snapshot is told alike in the next.
pub(crate) fn nanoseconds_per_tick() -> f64 {
    /// The value's bits; 0 is none.
    static FOUND: AtomicU64 = AtomicU64::new(0);
    let found = f64::from_bits(FOUND.load(Relaxed));
    if found > 0.0 {
        return found;
    }
    let now = clock().nanoseconds_per_tick();
    match FOUND.compare_exchange(0, now.to_bits(), Relaxed, Relaxed) {
        Ok(_) => now,
        Err(before) => f64::from_bits(before),
    }
}

/// Whether this process was forked from the one that started.
pub(crate) fn is_forked_child() -> bool {
    started().1 != process::id()
}

/// Whether `PERFMARK=off`, or built so; known from the start on.
#[inline]
pub(crate) fn is_off() -> bool {
    OFF.load(Relaxed)
}

/// Starts the clock, reads the settings, and tells what is wrong with them: once, before `main`, or at the first call of a mark where
/// another static initialiser makes it before ours runs.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        started();
        for wrong in config::read_environment() {
            say(&wrong);
        }
        if !config().filter.is_empty() {
            settings::set(&config().filter);
        }
        OFF.store(!config().on || cfg!(perfmark_off), Relaxed);
    });
}
