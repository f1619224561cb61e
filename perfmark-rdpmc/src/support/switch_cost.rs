//! How much longer a thread takes to leave its CPU and return while its time off the CPU is recorded.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::error::errno_text;
use crate::off_cpu::OffCpu;
use crate::sys;

/// Rounds with and without. Other threads of the machine disturb some of them.
const ROUNDS: usize = 15;
/// The times that the thread leaves its CPU and returns in a round.
const TIMES: u32 = 16;
/// If other threads have the CPU for so long, the measurement ends.
const LONGEST: Duration = Duration::from_millis(100);

/// The difference of the shortest rounds.
pub(super) fn switch_cost() -> Result<Duration, String> {
    // If it cannot be recorded, nothing has to be measured.
    OffCpu::open().map_err(|error| error.reason().to_owned())?;
    thread::scope(|scope| {
        // On a thread of its own, so that the caller's CPU affinity does not change.
        let started = thread::Builder::new().spawn_scoped(scope, measured);
        let thread = started.map_err(|why| format!("no thread can be started: {why}"))?;
        thread.join().map_err(|_| "the thread panicked".to_owned())?
    })
}

fn measured() -> Result<Duration, String> {
    sys::stay_on_cpu().map_err(|errno| {
        format!("two threads cannot be kept on one CPU: sched_setaffinity failed with {}", errno_text(errno))
    })?;
    let deadline = Instant::now() + LONGEST;
    let (with, without) = with_partner(|partner| shortest(|| partner.hand_over(deadline)))??;
    let disturbed = || "other programs disturbed the measurement; try again".to_owned();
    let difference = with.zip(without).and_then(|(with, without)| with.checked_sub(without));
    difference.map(|difference| difference / TIMES).filter(|cost| !cost.is_zero()).ok_or_else(disturbed)
}

/// The shortest rounds with and without recording, as far as there was time for one.
fn shortest(leave: impl Fn() -> bool) -> Result<(Option<Duration>, Option<Duration>), String> {
    let timed = || {
        let begun = Instant::now();
        (0..TIMES).all(|_| leave()).then(|| begun.elapsed())
    };
    let recorded = || {
        let _recording = OffCpu::open().map_err(|error| error.reason().to_owned())?;
        Ok::<_, String>(timed())
    };
    let shorter = |one: Option<Duration>, other: Option<Duration>| one.into_iter().chain(other).min();
    let (mut with, mut without) = (None, None);
    timed();
    for _ in 0..ROUNDS {
        with = shorter(with, recorded()?);
        without = shorter(without, timed());
    }
    Ok((with, without))
}

/// Calls `work` with a thread that runs on the same CPUs, and answers.
fn with_partner<R>(work: impl FnOnce(&Partner<'_>) -> R) -> Result<R, String> {
    let turns = Turns { turn: AtomicU32::new(OURS), us: thread::current() };
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, || turns.answer());
        let thread = started.map_err(|why| format!("no thread can be started: {why}"))?;
        Ok(work(&Partner { turns: &turns, thread: thread.thread() }))
    })
}

/// What the two threads share.
struct Turns {
    /// Which thread may continue.
    turn: AtomicU32,
    us: Thread,
}

const OURS: u32 = 0;
const THEIRS: u32 = 1;
/// The partner ends.
const OVER: u32 = 2;

impl Turns {
    /// The partner's part.
    fn answer(&self) {
        loop {
            match self.turn.load(Acquire) {
                OURS => thread::park(),
                OVER => return,
                // Unless it is over meanwhile.
                _ if self.turn.compare_exchange(THEIRS, OURS, AcqRel, Relaxed).is_ok() => self.us.unpark(),
                _ => {}
            }
        }
    }
}

/// The other thread. It ends when this is dropped, also by a panic.
struct Partner<'a> {
    turns: &'a Turns,
    thread: &'a Thread,
}

impl Partner<'_> {
    /// Lets the other thread run until it hands back. On one CPU, this thread leaves it once. Returns `false` if that
    /// takes too long.
    fn hand_over(&self, deadline: Instant) -> bool {
        self.give(THEIRS);
        loop {
            // Before the answer, which another CPU may give at once: no answer counts after the deadline.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            if self.turns.turn.load(Acquire) == OURS {
                return true;
            }
            thread::park_timeout(left);
        }
    }

    fn give(&self, turn: u32) {
        self.turns.turn.store(turn, Release);
        self.thread.unpark();
    }
}

impl Drop for Partner<'_> {
    fn drop(&mut self) {
        self.give(OVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_time_is_not_measured() {
        let without_time = with_partner(|partner| shortest(|| partner.hand_over(Instant::now())));
        let Ok(result) = without_time else { return println!("skipped: no thread can be started") };
        // Without the right to record, the reason is returned instead.
        assert!(result.is_err() || result == Ok((None, None)), "{result:?}");
    }

    #[test]
    #[cfg(all(target_os = "linux", not(any(miri, perfmark_unsupported))))]
    fn both_threads_run_on_one_cpu() {
        let cpus = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            line.map(|cpus| cpus.trim().to_owned())
        };
        let allowed = thread::spawn(move || {
            sys::stay_on_cpu().map(|()| (cpus(), thread::spawn(cpus).join().expect("it does not panic")))
        });
        match allowed.join().expect("it does not panic") {
            Err(errno) => println!("skipped: sched_setaffinity failed with {}", errno_text(errno)),
            Ok((ours, theirs)) => {
                assert_eq!(ours, theirs);
                assert!(ours.is_some_and(|cpus| cpus.parse::<u32>().is_ok()), "one CPU");
            }
        }
    }
}
