//! Marked calls in coroutines, which are switched in the middle of a call and may continue on another thread: each call
//! counts once, and nothing of a thread that ended is touched.
#![cfg(all(feature = "record", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod alone;
mod executor;

use std::pin::{Pin, pin};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;

use alone::alone;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use executor::run;
use perfmark::{Mark, perfmark, snapshot};

/// A coroutine that may be resumed by any thread. What it does yields by [`pause`].
struct Work(Coroutine<(), (), ()>);

// SAFETY: what the coroutines of these tests hold over a pause is sound on any thread: numbers, references to atomics,
// and perfmark's guards, whose safety these tests are about.
unsafe impl Send for Work {}

#[derive(Clone, Copy)]
struct Pause<'a>(&'a Yielder<(), ()>);

impl Pause<'_> {
    fn here(self) {
        self.0.suspend(());
    }
}

impl Work {
    fn new(work: impl FnOnce(Pause<'_>) + 'static) -> Self {
        Self(Coroutine::new(move |yielder, ()| work(Pause(yielder))))
    }

    /// Goes on until the next pause, which there is.
    fn pauses(&mut self) {
        assert!(matches!(self.0.resume(()), CoroutineResult::Yield(())), "it ended");
    }

    /// Goes on to the end.
    fn ends(&mut self) {
        assert!(matches!(self.0.resume(()), CoroutineResult::Return(())), "it paused");
    }

    /// Goes on until the next pause, on another thread.
    fn pauses_elsewhere(mut self) -> Self {
        on_another_thread(move || {
            self.pauses();
            self
        })
    }

    /// Goes on to the end, on another thread.
    fn ends_elsewhere(mut self) {
        on_another_thread(move || self.ends());
    }

    /// One that is paused already.
    fn paused(work: impl FnOnce(Pause<'_>) + 'static) -> Self {
        let mut work = Self::new(work);
        work.pauses();
        work
    }
}

fn on_another_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join().expect("it does not panic"))
}

fn figures(name: &str) -> Mark {
    snapshot().marks.into_iter().find(|mark| mark.name == name).expect("it is known")
}

/// Its calls, all ended; of these, the ones that are in the first event's values.
#[track_caller]
fn assert_counts(name: &str, calls: u64, measured: u64) {
    let mark = figures(name);
    let values = &mark.values[0];
    assert_eq!((mark.calls, mark.in_flight, mark.interrupted, mark.unwound), (calls, 0, 0, 0), "{mark:?}");
    assert_eq!((values.measured, values.unmeasured), (measured, calls - measured), "{mark:?}");
}

#[test]
fn a_call_may_end_on_another_thread_when_its_own_has_ended() {
    #[perfmark(time, instructions)]
    fn outlives_its_thread(pause: Pause<'_>) {
        pause.here();
    }
    let _alone = alone();
    on_another_thread(|| Work::paused(outlives_its_thread)).ends();
    assert_counts("outlives_its_thread", 1, 0);
    // And on one that has never made a marked call.
    on_another_thread(|| Work::paused(outlives_its_thread)).ends_elsewhere();
    assert_counts("outlives_its_thread", 2, 0);
}

#[test]
fn a_call_may_end_where_a_new_thread_has_the_memory_of_its_own() {
    #[perfmark(time)]
    fn reused(pause: Pause<'_>) {
        pause.here();
    }
    #[perfmark(time)]
    fn of_the_new_thread() {}
    const ROUNDS: u64 = 20;
    let _alone = alone();
    for _ in 0..ROUNDS {
        let mut work = on_another_thread(|| Work::paused(reused));
        on_another_thread(move || {
            of_the_new_thread();
            work.ends();
            of_the_new_thread();
        });
    }
    assert_counts("reused", ROUNDS, 0);
    assert_counts("of_the_new_thread", 2 * ROUNDS, 2 * ROUNDS);
}

#[test]
fn a_call_that_ended_on_another_thread_is_no_call_in_flight_nor_around_later_ones() {
    #[perfmark(time)]
    fn moves(pause: Option<Pause<'_>>) {
        if let Some(pause) = pause {
            pause.here();
        }
    }
    let _alone = alone();
    on_another_thread(|| {
        let work = Work::paused(|pause| moves(Some(pause)));
        assert_eq!(figures("moves").in_flight, 1);
        work.ends_elsewhere();
        // Its thread lives, and has done nothing since.
        assert_counts("moves", 1, 0);
        moves(None);
        moves(None);
        assert_counts("moves", 3, 2);
        let mark = figures("moves");
        // The total leaves out calls with others of the mark around them.
        assert!(mark.values[0].total >= mark.values[0].sum, "{mark:?}");
    });
    assert_counts("moves", 3, 2);
}

#[test]
fn calls_that_ended_on_other_threads_leave_room_on_their_own() {
    #[perfmark(time)]
    fn one_of_many(pause: Pause<'_>) {
        pause.here();
    }
    #[perfmark(time)]
    fn pending(pause: Pause<'_>) {
        pause.here();
    }
    #[perfmark(time, instructions)]
    fn later() {}
    // More than a thread has room for.
    const MANY: u64 = 5_000;
    let _alone = alone();
    let (to_other, works) = channel::<Work>();
    let (to_us, ended) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for mut work in works {
                work.ends();
                to_us.send(()).expect("somebody waits");
            }
        });
        scope.spawn(move || {
            let mut around = Work::paused(pending);
            let mut among = None;
            for n in 0..MANY {
                to_other.send(Work::paused(one_of_many)).expect("somebody takes it");
                ended.recv().expect("it ended");
                if n == MANY / 2 {
                    among = Some(Work::paused(pending));
                }
            }
            later();
            among.expect("begun").ends();
            around.ends();
            later();
        });
    });
    assert_counts("one_of_many", MANY, 0);
    assert_counts("pending", 2, 2);
    assert_counts("later", 2, 2);
}

#[test]
fn a_call_that_is_given_up_on_its_thread_and_ends_on_another_counts_once() {
    #[perfmark(time)]
    fn below(pause: Pause<'_>) {
        pause.here();
    }
    #[perfmark(time)]
    fn above(pause: Pause<'_>) {
        pause.here();
    }
    let _alone = alone();
    on_another_thread(|| {
        let (mut first, mut second) = (Work::paused(below), Work::paused(above));
        let mut third = Work::paused(below);
        // With it the ones above end unmeasured.
        first.ends();
        on_another_thread(move || {
            second.ends();
            third.ends();
        });
        // The other way round: known to have ended, then given up.
        let (mut first, second) = (Work::paused(below), Work::paused(above));
        second.ends_elsewhere();
        first.ends();
    });
    assert_counts("above", 2, 0);
    assert_counts("below", 3, 2);
}

#[test]
fn a_call_that_comes_back_to_its_thread_ends_there() {
    #[perfmark(time)]
    fn comes_back(pause: Pause<'_>) {
        pause.here();
        pause.here();
    }
    let _alone = alone();
    on_another_thread(|| {
        Work::paused(comes_back).pauses_elsewhere().ends();
    });
    assert_counts("comes_back", 1, 1);
}

#[test]
fn coroutines_that_take_turns_on_a_thread_are_measured_where_their_calls_nest() {
    #[perfmark(time, instructions)]
    fn nests(pause: Pause<'_>) {
        pause.here();
    }
    #[perfmark(time, instructions)]
    fn crosses(pause: Pause<'_>) {
        pause.here();
    }
    let _alone = alone();
    on_another_thread(|| {
        for _ in 0..100 {
            let (mut outer, mut inner) = (Work::paused(nests), Work::paused(nests));
            inner.ends();
            outer.ends();
        }
        for _ in 0..100 {
            let (mut first, mut second) = (Work::paused(crosses), Work::paused(crosses));
            first.ends();
            second.ends();
        }
    });
    assert_counts("nests", 200, 200);
    assert_counts("crosses", 200, 100);
}

#[test]
fn a_panic_ends_a_call_on_another_thread() {
    #[perfmark(time)]
    fn unwinds_elsewhere(pause: Pause<'_>) {
        pause.here();
        std::panic::resume_unwind(Box::new(()));
    }
    let _alone = alone();
    let work = Work::paused(|pause| {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unwinds_elsewhere(pause)));
        assert!(caught.is_err());
    });
    work.ends_elsewhere();
    assert_counts("unwinds_elsewhere", 1, 0);
}

/// Polls are made on stacks of their own, too.
#[test]
fn a_poll_may_end_on_another_thread() {
    #[perfmark(time)]
    async fn polled(pause: Pause<'_>) {
        pause.here();
    }
    /// Pending once, after a pause in the first poll.
    #[perfmark(time)]
    async fn polled_twice(pause: Pause<'_>) {
        let mut is_second = false;
        std::future::poll_fn(move |_| {
            pause.here();
            if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    fn poll_twice(pause: Pause<'_>) {
        let mut call = pin!(polled_twice(pause));
        let poll = |call: Pin<&mut _>| Future::poll(call, &mut Context::from_waker(Waker::noop()));
        assert!(poll(call.as_mut()).is_pending());
        assert!(poll(call.as_mut()).is_ready());
    }
    let _alone = alone();
    // Its thread lives, or ended.
    Work::paused(|pause| run(polled(pause))).ends_elsewhere();
    assert_counts("polled", 1, 0);
    on_another_thread(|| Work::paused(|pause| run(polled(pause)))).ends();
    assert_counts("polled", 2, 0);
    Work::paused(poll_twice).pauses_elsewhere().ends();
    assert_counts("polled_twice", 1, 0);
}

/// Each of some threads begins calls that another one ends, all at once.
#[test]
fn calls_that_wander_between_threads_are_exact() {
    #[perfmark(time, instructions)]
    fn wanders(pause: Pause<'_>) {
        pause.here();
        stays();
        pause.here();
    }
    #[perfmark(time)]
    fn stays() {}
    const THREADS: usize = 4;
    let each: usize = if std::env::var_os("PERFMARK_TEST_FULL").is_some() { 50_000 } else { 2_000 };
    let _alone = alone();
    thread::scope(|scope| {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel::<(Work, u8)>()).unzip();
        for (n, works) in receivers.into_iter().enumerate() {
            // To oneself now and then.
            let senders = senders.clone();
            scope.spawn(move || {
                for call in 0..each {
                    let mut work = Work::new(wanders);
                    work.pauses();
                    _ = senders[(n + call) % THREADS].send((work, 0));
                }
                drop(senders);
                // Each is resumed here for the last time.
                for (mut work, _) in works {
                    work.pauses();
                    work.ends();
                }
            });
        }
        drop(senders);
    });
    let calls = (THREADS * each) as u64;
    let mark = figures("wanders");
    assert_eq!((mark.calls, mark.in_flight), (calls, 0), "{mark:?}");
    for values in &mark.values {
        assert_eq!(values.measured + values.unmeasured, calls, "{mark:?}");
    }
    let mark = figures("stays");
    assert_eq!((mark.calls, mark.in_flight), (calls, 0), "{mark:?}");
}
