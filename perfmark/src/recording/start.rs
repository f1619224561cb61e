//! The process's start: its clock, its settings, and whether it uses perfmark's functions.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Once, OnceLock};

use perfmark_rdpmc::clock::Clock;

use super::mark::mark_settings;
use crate::platform::per_process::in_each_forked_child;
use crate::platform::terminal::{self, say};
use crate::platform::thread_id::process_id;
use crate::platform::token;
use crate::platform::usage::{self, ProcessUsage};
use crate::settings::recording::{is_off, read_environment, settings, turn_off};

/// The process in which the program started.
static STARTED: OnceLock<Process> = OnceLock::new();

/// A process's identity, as it knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    /// An address that differs in a forked child. Its number may be the same as its parent's in another namespace
    /// (`pid_namespaces(7)`). `None` if the kernel has no memory that a fork wipes, and if nothing is recorded from the
    /// start on.
    address: Option<usize>,
    /// 0 if it is unknown.
    number: u32,
}

impl Process {
    /// Whether it is the calling process, and not one that it was forked from.
    pub(crate) fn is_this(self) -> bool {
        let this = this_process();
        self.number == this.number && self.address.zip(this.address).is_none_or(|(one, other)| one == other)
    }
}

/// What the process used before the program started: the kernel also counts the program that executed this one
/// (`execve(2)`), such as `cargo run`.
static USED_BEFORE: OnceLock<ProcessUsage> = OnceLock::new();

/// CPU time and context switches since the process's start. `None` if nothing was recorded from the start on.
pub(crate) fn process_usage() -> Option<ProcessUsage> {
    let before = *USED_BEFORE.get()?;
    // A forked child starts with none.
    Some(usage::process_usage()?.since(if is_forked_child() { ProcessUsage::default() } else { before }))
}

/// See [`forked_at`].
static FORKED_AT: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds from the program's start to the fork that made this process; 0 if none did.
pub(crate) fn forked_at() -> u64 {
    FORKED_AT.load(Relaxed)
}

/// Nanoseconds since the process's start, which of a forked child is the fork.
pub(crate) fn wall_ns() -> u64 {
    since_program_start().saturating_sub(forked_at())
}

/// Nanoseconds since the program's start.
pub(crate) fn since_program_start() -> u64 {
    u64::try_from(clock().elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn started() -> &'static Process {
    STARTED.get_or_init(this_process)
}

/// The calling process.
pub(crate) fn this_process() -> Process {
    // If nothing is recorded, nothing is mapped: a library would leave it behind when it is closed.
    let has_address = STARTED.get().map_or_else(|| !is_off(), |started| started.address.is_some());
    if !has_address {
        return Process { address: None, number: process_id() };
    }
    Process { address: token::address(), number: token::number().unwrap_or(0) }
}

/// The clock, started with the program.
pub(crate) fn clock() -> &'static Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(Clock::start)
}

/// Ticks since the program's start.
pub(crate) fn ticks() -> u64 {
    clock().elapsed_ticks()
}

/// [`usage::asleep_ns`] at the program's start.
static ASLEEP_BEFORE: OnceLock<u64> = OnceLock::new();

/// The clock, or if the machine slept since the program's start, a new one: the tick counter may have run on meanwhile,
/// or begun anew, and the clock did not.
pub(crate) fn clock_since_sleep() -> Clock {
    if has_slept() { Clock::start() } else { *clock() }
}

/// Whether the machine slept since the program's start.
fn has_slept() -> bool {
    /// More than a thread may wait between reading two clocks.
    const ASLEEP_NS: u64 = 1_000_000_000;
    ASLEEP_BEFORE.get().is_some_and(|before| usage::asleep_ns().saturating_sub(*before) > ASLEEP_NS)
}

/// Nanoseconds per tick. The first result is kept, so that all snapshots agree.
pub(crate) fn nanoseconds_per_tick() -> f64 {
    /// The value's bits; 0 before the first use.
    static FOUND: AtomicU64 = AtomicU64::new(0);
    let found = f64::from_bits(FOUND.load(Relaxed));
    if found > 0.0 {
        return found;
    }
    let now = clock_since_sleep().nanoseconds_per_tick();
    match FOUND.compare_exchange(0, now.to_bits(), Relaxed, Relaxed) {
        Ok(_) => now,
        Err(before) => f64::from_bits(before),
    }
}

/// The ticks in so many nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is positive")]
pub(crate) fn ticks_in(nanoseconds: u64) -> u64 {
    if has_slept() { (nanoseconds as f64 / nanoseconds_per_tick()) as u64 } else { clock().ticks_in(nanoseconds) }
}

/// The ticks on a CPU of a thread that was off it for so many nanoseconds in these ticks, which end now. `None` if it
/// was off it for longer: the clock or the tick counter stood still meanwhile, as when a laptop sleeps.
pub(crate) fn on_cpu(ticks: u64, off_ns: u64) -> Option<u64> {
    /// The kernel records a switch before or after the thread reads the ticks, and NTP changes the clock's rate by up
    /// to 500 ppm (`adjtimex(2)`).
    const SWITCH_NS: u64 = 20_000;
    if off_ns == 0 {
        return Some(ticks);
    }
    let off = ticks_in(off_ns);
    let allowed = off / 1_000 + ticks_in(SWITCH_NS);
    (off <= ticks.saturating_add(allowed)).then(|| ticks.saturating_sub(off))
}

/// Converts a value to the event's unit; `scale` turns ticks into nanoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is not negative")]
pub(crate) fn in_units(value: u64, scale: Option<f64>) -> u64 {
    scale.map_or(value, |scale| (value as f64 * scale).round() as u64)
}

/// Converts a sum to the event's unit. It saturates.
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
pub(crate) fn sum_in_units(sum: i128, scale: Option<f64>) -> i64 {
    let clamped = sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    scale.map_or(clamped, |scale| (sum as f64 * scale).round() as i64)
}

/// Whether this process was forked from the one that started.
pub(crate) fn is_forked_child() -> bool {
    !started().is_this()
}

extern "C" fn in_forked_child() {
    FORKED_AT.store(since_program_start(), Relaxed);
}

/// Starts the clock, reads the settings and reports their errors. It runs once, before `main`, or at the first call of
/// a mark if another static initialiser makes it before ours runs.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        clock();
        let wrong = read_environment();
        if settings().is_off || cfg!(any(perfmark_off, all(target_family = "wasm", target_os = "unknown"))) {
            turn_off();
        }
        started();
        if !is_off() {
            terminal::remember();
            in_each_forked_child(in_forked_child);
        }
        for wrong in wrong {
            say(&wrong);
        }
        if is_off() {
            return;
        }
        _ = ASLEEP_BEFORE.set(usage::asleep_ns());
        // No mark was called yet.
        if let Some(used) = usage::process_usage() {
            _ = USED_BEFORE.set(used);
        }
        if !settings().filter.is_empty() {
            _ = mark_settings::set(&settings().filter);
        }
        if settings().budget.is_some() {
            _ = mark_settings::set_budget(settings().budget);
        }
    });
}

static IS_API_USED: AtomicBool = AtomicBool::new(false);

/// The program calls a function of the public interface. Those that work on data alone, such as
/// [`Snapshot::merge`](crate::Snapshot::merge), do not count.
pub(crate) fn note_api_use() {
    IS_API_USED.store(true, Relaxed);
}

/// Whether the program has called such a function.
pub(crate) fn is_api_used() -> bool {
    IS_API_USED.load(Relaxed)
}
