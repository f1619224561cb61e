//! The parts of tasks on tokio's runtimes: branches that win, lose and wait for each other, nested marked functions,
//! work on other threads, and futures that stay on their thread.

#![allow(clippy::unused_async, reason = "some calls end in their first poll")]

#[path = "../../perfmark-rdpmc/tests/process/mod.rs"]
#[allow(dead_code, reason = "only its memory is used here")]
mod process;

use std::cell::Cell;
use std::future::{pending, ready};
use std::pin::Pin;
use std::rc::Rc;

use perfmark::{Mark, Values, perfmark, snapshot};
use process::Memory;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, spawn_blocking, spawn_local, yield_now};

fn workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).build().expect("a runtime")
}

fn one_thread() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
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
    2
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
    for runtime in [workers(), one_thread()] {
        assert_eq!((runtime.block_on(select()), runtime.block_on(at_once())), (3, 7));
    }
    assert_counts("wins", 2, 0, 6);
    assert_counts("loses", 2, 2, 6);
    assert_counts("never_begun", 0, 0, 0);
}

#[perfmark(time)]
async fn joined(polls: u32) -> u32 {
    for _ in 1..polls {
        yield_now().await;
    }
    polls
}

#[test]
fn joined_futures_are_overlapping_calls() {
    let sum = workers().block_on(async {
        let (one, two, three) = tokio::join!(joined(1), joined(2), joined(3));
        one + two + three
    });
    assert_eq!(sum, 6);
    assert_counts("joined", 3, 0, 6);
}

#[perfmark(time)]
async fn too_slow() {
    pending::<()>().await;
}

#[test]
fn a_future_dropped_at_its_deadline_is_cancelled() {
    let is_late = |runtime: Runtime| {
        runtime.block_on(async {
            let deadline = async {
                for _ in 0..5 {
                    yield_now().await;
                }
            };
            tokio::select! {
                biased;
                () = too_slow() => false,
                () = deadline => true,
            }
        })
    };
    assert!(is_late(workers()) && is_late(one_thread()));
    assert_counts("too_slow", 2, 2, 12);
}

#[perfmark(page_faults, name = "outer")]
async fn outer() {
    Memory::new(3).touch();
    for _ in 0..2 {
        yield_now().await;
        inner().await;
        Memory::new(1).touch();
    }
    sync_part();
}

#[perfmark(page_faults, name = "inner")]
async fn inner() {
    Memory::new(10).touch();
    yield_now().await;
    sync_part();
}

#[perfmark(page_faults, name = "sync part")]
fn sync_part() {
    Memory::new(100).touch();
}

#[test]
fn promise_3_self_of_an_async_function_excludes_the_marked_calls_in_its_polls() {
    const TIMES: u64 = 100;
    let runtime = workers();
    let tasks: Vec<_> = (0..TIMES).map(|_| runtime.spawn(outer())).collect();
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("ends");
        }
    });
    assert_counts("outer", TIMES, 0, 5 * TIMES);
    assert_counts("inner", 2 * TIMES, 0, 4 * TIMES);
    assert_counts("sync part", 3 * TIMES, 0, 0);
    let values = |name| find_mark(name).map(|mark| mark.values[0].clone());
    let (Some(outer), Some(inner), Some(sync)) = (values("outer"), values("inner"), values("sync part")) else {
        return;
    };
    if outer.event != "page-faults" {
        println!("page faults are not checked: they are not counted here");
        return;
    }
    assert_eq!((outer.min, inner.min, sync.min), (Some(325), Some(110), Some(100)));
    let own = |values: &Values| values.self_sum.unwrap_or(0);
    assert_eq!(own(&outer) + own(&inner) + own(&sync), outer.total, "each fault belongs to one mark");
    // Others come from growing stacks and from code that runs for the first time.
    assert!((5 * TIMES..6 * TIMES).contains(&own(&outer).cast_unsigned()), "{outer:?}");
    assert!((20 * TIMES..21 * TIMES).contains(&own(&inner).cast_unsigned()), "{inner:?}");
}

#[perfmark(time, name = "blocking")]
fn blocking(n: u64) -> u64 {
    n * n
}

#[perfmark(time, name = "waits for it")]
async fn waits_for_blocking(n: u64) -> u64 {
    spawn_blocking(move || blocking(n)).await.expect("ends")
}

#[test]
fn work_on_a_blocking_thread_is_a_call_of_its_own() {
    let runtime = workers();
    assert_eq!((0..50).map(|n| runtime.block_on(waits_for_blocking(n))).sum::<u64>(), 40_425);
    assert_counts("blocking", 50, 0, 0);
    let Some(mark) = find_mark("waits for it") else { return };
    assert_eq!((mark.calls, mark.values[0].measured), (50, 50));
    assert!((50..=100).contains(&mark.polls), "{}: at the beginning, and when it is done", mark.polls);
}

#[perfmark(time, name = "not Send")]
async fn stays(count: Rc<Cell<u64>>) {
    for _ in 0..3 {
        yield_now().await;
        count.set(count.get() + 1);
    }
}

#[test]
fn futures_that_are_not_send_stay_on_their_thread() {
    let count = Rc::new(Cell::new(0));
    let local = LocalSet::new();
    local.block_on(&one_thread(), async {
        let tasks: Vec<_> = (0..20).map(|_| spawn_local(stays(Rc::clone(&count)))).collect();
        for task in tasks {
            task.await.expect("ends");
        }
    });
    assert_eq!(count.get(), 60);
    assert_counts("not Send", 20, 0, 80);
}

#[perfmark(time)]
async fn aborted_at_once() {}

#[test]
fn a_task_aborted_before_its_first_poll_is_not_a_call() {
    one_thread().block_on(async {
        let task = tokio::spawn(aborted_at_once());
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
    });
    assert_counts("aborted_at_once", 0, 0, 0);
}

#[perfmark(page_faults)]
fn nested(depth: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        Memory::new(10).touch();
        yield_now().await;
        if depth > 0 {
            nested(depth - 1).await;
        }
    })
}

#[test]
fn promise_3_async_recursion_counts_once_in_totals() {
    workers().block_on(async { tokio::spawn(nested(9)).await.expect("ends") });
    // The outermost call is polled for each suspension inside it, and once more.
    assert_counts("nested", 10, 0, (2..=11).sum());
    let Some(values) = find_mark("nested").map(|mark| mark.values[0].clone()) else { return };
    if values.event != "page-faults" {
        println!("page faults are not checked: they are not counted here");
        return;
    }
    assert_eq!(Some(values.total), values.max.map(u64::cast_signed), "the outermost call includes the others");
    // Others come from growing stacks and from code that runs for the first time.
    assert!((100..200).contains(&values.total), "{values:?}");
    assert!(values.sum >= (1..=10).map(|calls| 10 * calls).sum(), "{values:?}");
}
