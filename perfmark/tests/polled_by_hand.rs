//! Futures of marked functions, used as no runtime uses them: moved between threads, polled after their end, dropped,
//! forgotten.

#![allow(clippy::unused_async, reason = "some calls end in their first poll")]

mod executor;
mod program;

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::process::Command;
use std::thread;

use executor::{once, run, yield_now};
use perfmark::{Mark, perfmark, region, snapshot};

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn yields(times: u64) {
    for _ in 0..times {
        yield_now().await;
    }
}

fn on_another_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join().expect("does not panic"))
}

/// Checks a mark's calls, calls in flight, cancelled calls, unwound calls and polls.
#[track_caller]
fn assert_counts(name: &str, expected: [u64; 5]) -> Option<Mark> {
    let mark = snapshot().marks.into_iter().find(|mark| mark.name == name);
    assert_eq!(mark.is_some(), cfg!(feature = "record"), "{name}");
    let mark = mark?;
    assert_eq!([mark.calls, mark.in_flight, mark.cancelled, mark.unwound, mark.polls], expected, "{name}");
    let is_complete = |values: &perfmark::Values| {
        values.measured + values.unmeasured + mark.unwound + mark.cancelled + mark.skipped == mark.calls
    };
    assert!(mark.values.iter().all(is_complete), "{:?}", mark.values);
    Some(mark)
}

#[perfmark(time)]
async fn looks_inside(wait: bool) -> u64 {
    if wait {
        pending::<()>().await;
    }
    in_flight_on_threads("looks_inside")
}

/// The mark's calls in flight on all threads.
fn in_flight_on_threads(name: &str) -> u64 {
    let threads = perfmark::threads();
    threads.iter().flat_map(|thread| &thread.marks).filter(|mark| mark.name == name).map(|mark| mark.in_flight).sum()
}

#[test]
fn a_suspended_call_is_in_flight_on_no_thread() {
    let mut waits: Boxed = Box::pin(async { _ = looks_inside(true).await });
    assert!(once(waits.as_mut()).is_pending());
    let known = assert_counts("looks_inside", [0, 1, 0, 0, 1]);
    assert_eq!(in_flight_on_threads("looks_inside"), 0);
    let running = on_another_thread(|| run(looks_inside(false)));
    assert!(known.is_none() || running == 1);
    drop(waits);
    assert_counts("looks_inside", [2, 0, 1, 0, 2]);
    assert_eq!(in_flight_on_threads("looks_inside"), 0);
}

#[perfmark(suspended)]
async fn awaits_and_looks() -> Vec<[i64; 2]> {
    awaited().await;
    let marks = snapshot().marks.into_iter().filter(|mark| mark.name == "awaits_and_looks");
    marks.map(|mark| [mark.values[0].in_flight_total, mark.values[0].in_flight_self]).collect()
}

#[perfmark(suspended)]
async fn awaited() {
    yields(3).await;
}

#[test]
fn a_running_poll_was_not_suspended_also_if_a_call_inside_was() {
    let in_flight = run(awaits_and_looks());
    assert!(in_flight.iter().all(|values| *values == [0, 0]), "{in_flight:?}");
    assert_eq!(in_flight.len(), usize::from(cfg!(feature = "record")));
}

#[perfmark(time)]
async fn outlives_its_thread() {
    yields(1).await;
}

#[test]
fn a_call_stays_in_flight_after_the_thread_that_began_it_ended() {
    let begin = || {
        let mut future: Boxed = Box::pin(outlives_its_thread());
        assert!(once(future.as_mut()).is_pending());
        future
    };
    let mut ends = thread::spawn(begin).join().expect("does not panic");
    let dropped = thread::spawn(begin).join().expect("does not panic");
    assert_counts("outlives_its_thread", [0, 2, 0, 0, 2]);
    assert!(once(ends.as_mut()).is_ready());
    drop(dropped);
    let mark = assert_counts("outlives_its_thread", [2, 0, 1, 0, 3]);
    assert!(mark.is_none_or(|mark| mark.values[0].measured == 1));
}

#[perfmark(time)]
async fn forgotten() {
    pending::<()>().await;
}

#[test]
fn a_forgotten_future_stays_in_flight() {
    let mut future: Boxed = Box::pin(forgotten());
    assert!(once(future.as_mut()).is_pending());
    std::mem::forget(future);
    assert_counts("forgotten", [0, 1, 0, 0, 1]);
}

#[perfmark(time)]
async fn polled_again(panics: bool) {
    if panics {
        resume_unwind(Box::new("as asked"));
    }
}

#[allow(clippy::unused_async, reason = "the marked one is the same")]
async fn plain_polled_again(panics: bool) {
    if panics {
        resume_unwind(Box::new("as asked"));
    }
}

#[test]
fn a_poll_after_the_end_panics_as_when_unmarked_and_is_not_counted() {
    fn message(mut future: Boxed) -> String {
        let mut poll = || catch_unwind(AssertUnwindSafe(|| once(future.as_mut())));
        _ = poll();
        let panic = poll().expect_err("it is over");
        panic.downcast_ref::<&str>().map(ToString::to_string).or(panic.downcast_ref().cloned()).expect("a message")
    }
    for panics in [false, true] {
        assert_eq!(message(Box::pin(polled_again(panics))), message(Box::pin(plain_polled_again(panics))));
    }
    assert_counts("polled_again", [2, 0, 0, 1, 2]);
}

#[perfmark(time)]
async fn while_unwinding() {
    yields(2).await;
}

#[test]
fn a_call_polled_by_a_destructor_during_a_panic_counts_as_usual() {
    struct RunsWhenDropped;
    impl Drop for RunsWhenDropped {
        fn drop(&mut self) {
            run(while_unwinding());
        }
    }
    let result = catch_unwind(|| {
        let _runs = RunsWhenDropped;
        resume_unwind(Box::new("as asked"));
    });
    assert!(result.is_err());
    let mark = assert_counts("while_unwinding", [1, 0, 0, 0, 3]);
    assert!(mark.is_none_or(|mark| mark.values[0].measured == 1));
}

#[perfmark(time)]
async fn deep(depth: u64) {
    if depth > 0 {
        Box::pin(deep(depth - 1)).await;
    } else {
        yields(1).await;
    }
}

#[test]
fn async_calls_deeper_than_the_stack_are_counted_and_unmeasured() {
    const CALLS: u64 = 2_001;
    let with_room = thread::Builder::new().stack_size(1 << 26);
    with_room.spawn(|| run(deep(CALLS - 1))).expect("a thread").join().expect("does not panic");
    let Some(mark) = assert_counts("deep", [CALLS, 0, 0, 0, 2 * CALLS]) else { return };
    let measured = mark.values[0].measured;
    assert!(measured > 100 && measured < CALLS, "{measured}");
}

#[test]
fn a_call_that_ends_a_region_around_it_is_counted() {
    #[perfmark(time)]
    async fn ends_it<T>(region: T) {
        drop(region);
    }
    run(ends_it(region!("around", time)));
    assert_counts("ends_it", [1, 0, 0, 0, 0]);
}

#[test]
fn a_region_of_an_async_block_counts_like_an_async_function() {
    let call = |ends: bool| {
        let mut future = Box::pin(region!("waits", time, async move {
            yields(2).await;
            if !ends {
                pending::<()>().await;
            }
        }));
        (0..3).filter(|_| once(future.as_mut()).is_ready()).count()
    };
    assert_eq!((call(true), call(false)), (1, 0));
    assert_counts("waits", [2, 0, 1, 0, 6]);
}

/// Holds a future of a marked function, and polls it when the thread-locals are destroyed.
struct Late(Option<Boxed>);

impl Drop for Late {
    fn drop(&mut self) {
        let mut future = self.0.take().expect("is there");
        while once(future.as_mut()).is_pending() {}
    }
}

#[perfmark(time)]
async fn in_a_destructor() {
    yields(2).await;
}

#[test]
fn a_call_polled_by_destructors_of_thread_locals_is_counted() {
    thread_local!(static LATE: std::cell::RefCell<Late> = panic!("set before"));
    for _ in 0..10 {
        on_another_thread(|| {
            let mut future: Boxed = Box::pin(in_a_destructor());
            assert!(once(future.as_mut()).is_pending());
            LATE.set(Late(Some(future)));
        });
    }
    let mark = assert_counts("in_a_destructor", [10, 0, 0, 0, 30]);
    assert!(mark.is_none_or(|mark| mark.values[0].measured == 10));
}

#[perfmark(time)]
async fn switched_off(polls: u64) -> u64 {
    yields(polls - 1).await;
    polls
}

#[test]
fn switched_off_async_functions_behave_as_before_and_record_nothing() {
    const NAME: &str = "switched_off_async_functions_behave_as_before_and_record_nothing";
    if std::env::var("PERFMARK").is_ok_and(|value| value == "off") {
        assert_eq!(run(switched_off(3)), 3);
        assert!(once(pin!(switched_off(2))).is_pending());
        assert_counts("switched_off", [0; 5]);
        return;
    }
    let program = std::env::current_exe().expect("its path");
    let mut child = Command::new(program);
    program::unset_variables(&mut child);
    let child = child.args(["--exact", NAME]).env("PERFMARK", "off").output().expect("runs");
    program::assert_code(&child, 0);
    assert!(program::text(&child.stdout).contains("test result: ok. 1 passed"), "{}", program::ending(&child));
}
