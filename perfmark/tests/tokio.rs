//! Async functions on tokio's runtimes: a call is the sum of its polls, on whichever workers they run.

#[path = "../../perfmark-rdpmc/tests/memory/mod.rs"]
mod memory;

use std::collections::HashSet;
use std::future::{pending, ready};
use std::hint::black_box;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};

use memory::faults;
use perfmark::{Mark, Read, Values, perfmark, snapshot};
use perfmark_rdpmc::known_loop;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;

/// More workers than CPUs, so that tasks are stolen and threads are preempted.
const WORKERS: usize = 4;

fn workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(WORKERS).build().expect("a runtime")
}

/// The current state of a mark. None in a build that does not record.
fn find_mark(name: &str) -> Option<Mark> {
    let mark = snapshot().marks.into_iter().find(|mark| mark.name == name);
    assert_eq!(mark.is_some(), cfg!(feature = "record"), "{name}");
    mark
}

/// Checks a mark of which no call panicked or is in flight.
#[track_caller]
fn assert_counts(name: &str, calls: u64, cancelled: u64, polls: u64) {
    let Some(mark) = find_mark(name) else { return };
    assert_eq!((mark.calls, mark.cancelled, mark.polls, mark.in_flight), (calls, cancelled, polls, 0), "{name}");
    for values in &mark.values {
        assert_eq!((values.measured, values.unmeasured), (calls - cancelled, 0), "{name}");
    }
}

/// The values of an event. If it was not counted, prints the reason and returns None.
fn counted<'a>(mark: &'a Mark, event: &str) -> Option<&'a Values> {
    let values = mark.event(event);
    if values.is_none() {
        let events = snapshot().events;
        let of_event = events.iter().find(|known| known.name == event && known.read == Read::None);
        println!("{}: {event} is not checked: {:?}", mark.name, of_event.map(|event| &event.reason));
    }
    values
}

/// What the test itself observes about the futures that it wraps.
#[derive(Default)]
struct Seen {
    polls: AtomicU64,
    /// Futures polled on more than one thread.
    moved: AtomicU64,
}

impl Seen {
    /// Drops `at_two` when two polls have returned, or with the future.
    fn watch<F: Future>(self: &Arc<Self>, future: F, at_two: Option<mpsc::UnboundedSender<()>>) -> Watched<F> {
        Watched { future: Box::pin(future), polls: 0, at_two, threads: HashSet::new(), seen: Arc::clone(self) }
    }
}

struct Watched<F> {
    future: Pin<Box<F>>,
    polls: u64,
    at_two: Option<mpsc::UnboundedSender<()>>,
    threads: HashSet<ThreadId>,
    seen: Arc<Seen>,
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.seen.polls.fetch_add(1, Relaxed);
        self.threads.insert(thread::current().id());
        let polled = self.future.as_mut().poll(context);
        self.polls += 1;
        if self.polls == 2 {
            self.at_two = None;
        }
        polled
    }
}

impl<F> Drop for Watched<F> {
    fn drop(&mut self) {
        self.seen.moved.fetch_add(u64::from(self.threads.len() > 1), Relaxed);
    }
}

/// What a part of a task does between two suspensions.
fn part(pages: usize) {
    faults(pages);
    black_box(known_loop(TURNS));
}

/// A turn takes two instructions.
const TURNS: u64 = 2_000;

#[perfmark(page_faults, instructions, name = "a task")]
async fn task(before: Option<oneshot::Receiver<()>>, after: Option<oneshot::Sender<()>>) -> usize {
    part(1);
    yield_now().await;
    part(2);
    if let Some(before) = before {
        before.await.expect("is sent");
    }
    part(4);
    yield_now().await;
    part(8);
    after.map_or(0, |after| usize::from(after.send(()).is_ok()))
}

/// Pages and turns of a task.
const PAGES: i64 = 1 + 2 + 4 + 8;
const ALL_TURNS: u64 = 4 * TURNS;

#[test]
fn promise_5_ten_thousand_tasks_that_move_between_workers_cost_the_sum_of_their_polls() {
    const TASKS: u64 = 10_000;
    const ONE_BY_ONE: u64 = 20;
    let (runtime, seen) = (workers(), Arc::new(Seen::default()));
    let mut before = None;
    let tasks: Vec<_> = (0..TASKS)
        .map(|n| {
            let is_last = (n + 1) % ONE_BY_ONE == 0;
            let (after, next) = if is_last { (None, None) } else { Some(oneshot::channel()).unzip() };
            runtime.spawn(seen.watch(task(std::mem::replace(&mut before, next), after), None))
        })
        .collect();
    let sent: usize = runtime.block_on(async {
        let mut sent = 0;
        for task in tasks {
            sent += task.await.expect("neither panics nor is cancelled");
        }
        sent
    });
    assert_eq!(sent as u64, TASKS - TASKS / ONE_BY_ONE);
    let (polls, moved) = (seen.polls.load(Relaxed), seen.moved.load(Relaxed));
    println!("{TASKS} tasks in {polls} polls, {moved} of them on more than one thread");
    if moved == 0 {
        println!("not tried: no task moved to another worker");
    }
    let Some(mark) = find_mark("a task") else { return };
    assert_eq!((mark.calls, mark.polls), (TASKS, polls));
    assert_eq!((mark.in_flight, mark.unwound, mark.cancelled), (0, 0, 0));
    assert!(mark.values.iter().all(|values| (values.measured, values.unmeasured) == (TASKS, 0)), "{:?}", mark.values);
    if let Some(faults) = counted(&mark, "page-faults") {
        let tasks = TASKS.cast_signed();
        let more = faults.sum - tasks * PAGES;
        println!("{} page faults in all tasks, {more} of them not on their own pages", faults.sum);
        assert_eq!((faults.min, faults.p50), (Some(PAGES.cast_unsigned()), Some(PAGES.cast_unsigned())));
        // These come from growing stacks and from code that runs for the first time.
        assert!(more < tasks / 50, "{faults:?}");
    }
    if let Some(instructions) = counted(&mark, "instructions") {
        println!("{:?}..{:?} instructions", instructions.min, instructions.max);
        // One part of another task would be 4,000.
        let range = 2 * ALL_TURNS..3 * ALL_TURNS;
        assert!(instructions.min.is_some_and(|min| range.contains(&min)), "{instructions:?}");
        assert!(instructions.p50.is_some_and(|median| range.contains(&median)), "{instructions:?}");
    }
}

enum Fate {
    Ends,
    Panics,
    Waits,
}

#[perfmark(time, name = "of all fates")]
async fn meets(fate: Fate) {
    yield_now().await;
    match fate {
        Fate::Ends => {}
        // `resume_unwind` prints no message.
        Fate::Panics => resume_unwind(Box::new("as asked")),
        Fate::Waits => pending().await,
    }
}

#[test]
fn promise_5_tasks_that_end_panic_wait_or_are_aborted_are_counted_separately() {
    const ENDED: u64 = 1_000;
    const PANICKED: u64 = 200;
    const ABORTED: u64 = 300;
    const WAITING: u64 = 50;
    let (runtime, seen) = (workers(), Arc::new(Seen::default()));
    let (at_two, mut all_at_two) = mpsc::unbounded_channel();
    let spawn = |fate: fn() -> Fate, number: u64| -> Vec<_> {
        (0..number).map(|_| runtime.spawn(seen.watch(meets(fate()), Some(at_two.clone())))).collect()
    };
    let (ends, panics) = (spawn(|| Fate::Ends, ENDED), spawn(|| Fate::Panics, PANICKED));
    let (aborts, waits) = (spawn(|| Fate::Waits, ABORTED), spawn(|| Fate::Waits, WAITING));
    drop(at_two);
    runtime.block_on(async {
        // All tasks have met their fates, and the polls in which they did have returned. Polls are counted only then.
        assert_eq!(all_at_two.recv().await, None);
        for task in ends {
            task.await.expect("ends");
        }
        for task in panics {
            assert!(task.await.is_err_and(|error| error.is_panic()));
        }
        for task in aborts {
            task.abort();
            assert!(task.await.is_err_and(|error| error.is_cancelled()));
        }
    });
    let counts = |mark: &Mark| (mark.calls, mark.unwound, mark.cancelled, mark.in_flight, mark.values[0].measured);
    if let Some(mark) = find_mark("of all fates") {
        assert_eq!(counts(&mark), (ENDED + PANICKED + ABORTED, PANICKED, ABORTED, WAITING, ENDED));
        assert_eq!((mark.polls, mark.values[0].unmeasured), (seen.polls.load(Relaxed), 0));
    }
    drop((waits, runtime));
    if let Some(mark) = find_mark("of all fates") {
        let all = ENDED + PANICKED + ABORTED + WAITING;
        assert_eq!(counts(&mark), (all, PANICKED, ABORTED + WAITING, 0, ENDED), "the runtime drops its tasks");
    }
}

#[perfmark(time)]
async fn wins(polls: u32) -> u32 {
    for _ in 1..polls {
        yield_now().await;
    }
    polls
}

#[perfmark(time)]
async fn loses() -> u32 {
    pending().await
}

#[perfmark(time)]
async fn never_begun() -> u32 {
    ready(2).await
}

#[test]
fn losing_branches_of_a_select_are_cancelled_if_they_had_begun() {
    let select = || async {
        tokio::select! {
            biased;
            lost = loses() => lost,
            won = wins(3) => won,
            too_late = async { pending::<()>().await; never_begun().await } => too_late,
        }
    };
    let at_once = || async {
        tokio::select! {
            biased;
            value = ready(7) => value,
            too_late = never_begun() => too_late,
        }
    };
    for runtime in [workers(), Builder::new_current_thread().build().expect("a runtime")] {
        assert_eq!((runtime.block_on(select()), runtime.block_on(at_once())), (3, 7));
    }
    assert_counts("wins", 2, 0, 6);
    assert_counts("loses", 2, 2, 6);
    assert_counts("never_begun", 0, 0, 0);
    let events = snapshot().events;
    assert!(events.iter().all(|event| event.name != "suspended"), "no mark has it: {events:?}");
}
