//! How much longer a context switch takes while time off the CPU is recorded.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::error::{Error, errno_text};
use crate::off_cpu::OffCpu;
use crate::sys;

/// Rounds with and without. Other threads of the machine disturb some of them.
const ROUNDS: usize = 15;
/// The times that the thread leaves its CPU and returns in a round.
const TIMES: i64 = 16;
/// To leave the CPU, and to return.
const SWITCHES: i64 = 2 * TIMES;

/// The median of the differences.
pub(super) fn switch_cost() -> Result<Duration, String> {
    // The calling thread stays on its CPUs.
    on_thread(measured)?
}

fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, work);
        let thread = started.map_err(|why| format!("no thread can be started: {why}"))?;
        thread.join().map_err(|_| "the thread panicked".to_owned())
    })
}

fn measured() -> Result<Duration, String> {
    sys::stay_on_cpu().map_err(|errno| {
        format!("two threads cannot be kept on one CPU: sched_setaffinity failed with {}", errno_text(errno))
    })?;
    let shared = Shared { turn: AtomicU32::new(OURS), us: thread::current() };
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, || shared.answer());
        let partner = started.map_err(|why| format!("no thread can be started: {why}"))?;
        let differences = differences(|| shared.hand_over(partner.thread()));
        shared.give(OVER, partner.thread());
        median(differences.map_err(|error| error.reason().to_owned())?)
    })
}

/// Nanoseconds that each switch took longer.
fn differences(leave: impl Fn()) -> Result<Vec<i64>, Error> {
    let timed = || {
        let begun = Instant::now();
        (0..TIMES).for_each(|_| leave());
        i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX)
    };
    let recorded = || {
        let _recording = OffCpu::open()?;
        Ok(timed())
    };
    timed();
    (0..ROUNDS)
        .map(|round| {
            let (with, without);
            // Each is the first one in half of the rounds.
            if round % 2 == 0 {
                (with, without) = (recorded()?, timed());
            } else {
                (without, with) = (timed(), recorded()?);
            }
            Ok((with - without) / SWITCHES)
        })
        .collect()
}

fn median(mut differences: Vec<i64>) -> Result<Duration, String> {
    differences.sort_unstable();
    let median = u64::try_from(differences[differences.len() / 2]).ok().filter(|&median| median > 0);
    let disturbed = || "other programs disturbed the measurement; try again".to_owned();
    median.map(Duration::from_nanos).ok_or_else(disturbed)
}

/// What the two threads share.
struct Shared {
    /// Which thread may continue.
    turn: AtomicU32,
    us: Thread,
}

const OURS: u32 = 0;
const THEIRS: u32 = 1;
/// The partner ends.
const OVER: u32 = 2;

impl Shared {
    /// Lets the partner run until it hands back. On one CPU, the thread leaves it once.
    fn hand_over(&self, partner: &Thread) {
        self.give(THEIRS, partner);
        while self.turn.load(Acquire) != OURS {
            thread::park();
        }
    }

    fn give(&self, turn: u32, to: &Thread) {
        self.turn.store(turn, Release);
        to.unpark();
    }

    /// The partner's part.
    fn answer(&self) {
        loop {
            match self.turn.load(Acquire) {
                OURS => thread::park(),
                OVER => return,
                _ => self.give(OURS, &self.us),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_the_median_and_never_less_than_a_nanosecond() {
        assert_eq!(median(vec![1_000_000, -3_000_000, 700]), Ok(Duration::from_nanos(700)));
        for disturbed in [vec![-5, -700, 1_000_000], vec![0]] {
            assert!(median(disturbed).is_err());
        }
    }

    #[test]
    #[cfg(all(target_os = "linux", not(any(miri, perfmark_unsupported))))]
    fn on_one_cpu_each_hand_over_leaves_it() {
        const TIMES: u64 = 100;
        let switches = || -> u64 {
            let status = std::fs::read_to_string("/proc/thread-self/status").expect("readable");
            let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
            counts.map(|line| line.rsplit('\t').next().and_then(|n| n.parse::<u64>().ok()).expect("a number")).sum()
        };
        let left = on_thread(|| {
            sys::stay_on_cpu().expect("allowed");
            let shared = Shared { turn: AtomicU32::new(OURS), us: thread::current() };
            thread::scope(|scope| {
                let partner = scope.spawn(|| shared.answer());
                let before = switches();
                (0..TIMES).for_each(|_| shared.hand_over(partner.thread()));
                let left = switches() - before;
                shared.give(OVER, partner.thread());
                left
            })
        });
        println!("{left:?} times off the CPU in {TIMES} hand-overs");
        assert!(left.is_ok_and(|left| left >= TIMES));
    }
}
