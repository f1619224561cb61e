//! Marked calls in coroutines. A call may be suspended and continue on another thread. Each call counts once, and
//! perfmark never touches the memory of an ended thread.
#![cfg(all(feature = "record", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod alone;
mod executor;

use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;

use alone::passed_in_own_process;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use executor::{once, run};
use perfmark::{Mark, perfmark, snapshot};

/// A coroutine that any thread may resume. It suspends itself by [`Pause::here`].
struct Work(Coroutine<(), (), ()>);

// SAFETY: what these coroutines keep across a pause is sound on any thread: numbers, references to atomics, and
// perfmark's guards, whose safety these tests check.
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

    /// Runs until the next pause, which must come.
    fn resume_to_pause(&mut self) {
        assert!(matches!(self.0.resume(()), CoroutineResult::Yield(())), "it ended");
    }

    /// Runs to the end.
    fn resume_to_end(&mut self) {
        assert!(matches!(self.0.resume(()), CoroutineResult::Return(())), "it paused");
    }

    /// Runs until the next pause, on another thread.
    fn resume_to_pause_elsewhere(mut self) -> Self {
        on_another_thread(move || {
            self.resume_to_pause();
            self
        })
    }

    /// Runs to the end, on another thread.
    fn resume_to_end_elsewhere(mut self) {
        on_another_thread(move || self.resume_to_end());
    }

    /// A coroutine that is already paused.
    fn paused(work: impl FnOnce(Pause<'_>) + 'static) -> Self {
        let mut work = Self::new(work);
        work.resume_to_pause();
        work
    }
}

fn on_another_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join().expect("it does not panic"))
}

fn find_mark(name: &str) -> Mark {
    snapshot().marks.into_iter().find(|mark| mark.name == name).expect("it is known")
}

/// Checks that all calls of the mark have ended, and how many the first event measured.
#[track_caller]
fn assert_counts(name: &str, calls: u64, measured: u64) {
    let mark = find_mark(name);
    let values = &mark.values[0];
    assert_eq!((mark.calls, mark.in_flight, mark.interrupted, mark.unwound), (calls, 0, 0, 0), "{mark:?}");
    assert_eq!((values.measured, values.unmeasured), (measured, calls - measured), "{mark:?}");
}

#[test]
fn a_call_may_end_on_another_thread_after_its_own_thread_ended() {
    #[perfmark(time, instructions)]
    fn outlives_its_thread(pause: Pause<'_>) {
        pause.here();
    }
    if passed_in_own_process() {
        return;
    }
    on_another_thread(|| Work::paused(outlives_its_thread)).resume_to_end();
    assert_counts("outlives_its_thread", 1, 0);
    // Also on a thread that has never made a marked call.
    on_another_thread(|| Work::paused(outlives_its_thread)).resume_to_end_elsewhere();
    assert_counts("outlives_its_thread", 2, 0);
}

#[test]
fn a_call_may_end_after_a_new_thread_reused_the_memory_of_its_thread() {
    #[perfmark(time)]
    fn reused(pause: Pause<'_>) {
        pause.here();
    }
    #[perfmark(time)]
    fn of_the_new_thread() {}
    const ROUNDS: u64 = 20;
    if passed_in_own_process() {
        return;
    }
    for _ in 0..ROUNDS {
        let mut work = on_another_thread(|| Work::paused(reused));
        on_another_thread(move || {
            of_the_new_thread();
            work.resume_to_end();
            of_the_new_thread();
        });
    }
    assert_counts("reused", ROUNDS, 0);
    assert_counts("of_the_new_thread", 2 * ROUNDS, 2 * ROUNDS);
}

#[test]
fn a_call_that_ended_on_another_thread_is_not_in_flight_and_encloses_no_later_call() {
    #[perfmark(time)]
    fn moves(pause: Option<Pause<'_>>) {
        if let Some(pause) = pause {
            pause.here();
        }
    }
    if passed_in_own_process() {
        return;
    }
    on_another_thread(|| {
        let work = Work::paused(|pause| moves(Some(pause)));
        assert_eq!(find_mark("moves").in_flight, 1);
        work.resume_to_end_elsewhere();
        // Its thread still runs, and has done nothing since.
        assert_counts("moves", 1, 0);
        moves(None);
        moves(None);
        assert_counts("moves", 3, 2);
        let mark = find_mark("moves");
        // The total leaves out calls inside another call of the same mark.
        assert!(mark.values[0].total >= mark.values[0].sum, "{mark:?}");
    });
    assert_counts("moves", 3, 2);
}

#[test]
fn a_call_inside_one_that_ended_on_another_thread_ends_as_the_last_one() {
    #[perfmark(time)]
    fn both(pause: Pause<'_>) {
        pause.here();
    }
    if passed_in_own_process() {
        return;
    }
    on_another_thread(|| {
        let (outer, mut inner) = (Work::paused(both), Work::paused(both));
        outer.resume_to_end_elsewhere();
        assert_eq!(find_mark("both").in_flight, 1);
        inner.resume_to_end();
        assert_counts("both", 2, 1);
    });
}

#[cfg(feature = "sampling")]
#[test]
fn skipped_calls_that_ended_on_other_threads_free_the_frames_that_sampling_gives_them() {
    #[perfmark(time, every = 1_000_000)]
    fn skipped(pause: Pause<'_>) {
        pause.here();
    }
    #[perfmark(time)]
    fn after_skipped() {}
    // More than a thread's stack of frames can hold.
    const MANY: u64 = 3_000;
    if passed_in_own_process() {
        return;
    }
    let sampling = match perfmark::Sampling::new().start() {
        Ok(sampling) => sampling,
        Err(why) => return println!("skipped: {why}"),
    };
    on_another_thread(|| {
        (0..MANY).for_each(|_| Work::paused(skipped).resume_to_end_elsewhere());
        after_skipped();
    });
    drop(sampling);
    assert_counts("after_skipped", 1, 1);
    assert_eq!(find_mark("skipped").calls, MANY);
}

#[test]
fn calls_that_ended_on_other_threads_free_their_frames() {
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
    // More than a thread's stack of frames can hold.
    const MANY: u64 = 5_000;
    if passed_in_own_process() {
        return;
    }
    let (to_other, works) = channel::<Work>();
    let (to_us, ended) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for mut work in works {
                work.resume_to_end();
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
            among.expect("begun").resume_to_end();
            around.resume_to_end();
            later();
        });
    });
    assert_counts("one_of_many", MANY, 0);
    assert_counts("pending", 2, 2);
    assert_counts("later", 2, 2);
}

#[test]
fn a_call_that_its_thread_abandoned_counts_once_when_another_thread_ends_it() {
    #[perfmark(time)]
    fn below(pause: Pause<'_>) {
        pause.here();
    }
    #[perfmark(time)]
    fn above(pause: Pause<'_>) {
        pause.here();
    }
    if passed_in_own_process() {
        return;
    }
    on_another_thread(|| {
        let (mut first, mut second) = (Work::paused(below), Work::paused(above));
        let mut third = Work::paused(below);
        // When it ends, the calls above it end unmeasured.
        first.resume_to_end();
        on_another_thread(move || {
            second.resume_to_end();
            third.resume_to_end();
        });
        // The other order: the call above ends on another thread first, then its own thread abandons it.
        let (mut first, second) = (Work::paused(below), Work::paused(above));
        second.resume_to_end_elsewhere();
        first.resume_to_end();
    });
    assert_counts("above", 2, 0);
    assert_counts("below", 3, 2);
}

#[test]
fn a_call_that_its_thread_does_not_record_counts_once_when_another_thread_ends_it() {
    const CALLS: u64 = 200;
    #[perfmark(time, every = 2)]
    fn below_unrecorded(pause: Pause<'_>) {
        pause.here();
    }
    #[perfmark(time, every = 64)]
    fn unrecorded(pause: Pause<'_>) {
        pause.here();
    }
    if passed_in_own_process() {
        return;
    }
    on_another_thread(|| {
        for _ in 0..CALLS {
            let (mut first, second) = (Work::paused(below_unrecorded), Work::paused(unrecorded));
            second.resume_to_end_elsewhere();
            first.resume_to_end();
        }
    });
    for name in ["unrecorded", "below_unrecorded"] {
        let mark = find_mark(name);
        assert_eq!((mark.calls, mark.in_flight), (CALLS, 0), "{name}");
    }
}

#[test]
fn a_call_that_returns_to_its_thread_is_measured() {
    #[perfmark(time)]
    fn comes_back(pause: Pause<'_>) {
        pause.here();
        pause.here();
    }
    if passed_in_own_process() {
        return;
    }
    on_another_thread(|| {
        Work::paused(comes_back).resume_to_pause_elsewhere().resume_to_end();
    });
    assert_counts("comes_back", 1, 1);
}

#[test]
fn interleaved_coroutines_on_one_thread_are_measured_where_their_calls_nest() {
    #[perfmark(time, instructions)]
    fn nests(pause: Pause<'_>) {
        pause.here();
    }
    #[perfmark(time, instructions)]
    fn crosses(pause: Pause<'_>) {
        pause.here();
    }
    if passed_in_own_process() {
        return;
    }
    on_another_thread(|| {
        for _ in 0..100 {
            let (mut outer, mut inner) = (Work::paused(nests), Work::paused(nests));
            inner.resume_to_end();
            outer.resume_to_end();
        }
        for _ in 0..100 {
            let (mut first, mut second) = (Work::paused(crosses), Work::paused(crosses));
            first.resume_to_end();
            second.resume_to_end();
        }
    });
    assert_counts("nests", 200, 200);
    assert_counts("crosses", 200, 100);
}

#[test]
fn a_panic_may_end_a_call_on_another_thread() {
    #[perfmark(time)]
    fn unwinds_elsewhere(pause: Pause<'_>) {
        pause.here();
        std::panic::resume_unwind(Box::new(()));
    }
    if passed_in_own_process() {
        return;
    }
    let work = Work::paused(|pause| {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unwinds_elsewhere(pause)));
        assert!(caught.is_err());
    });
    work.resume_to_end_elsewhere();
    assert_counts("unwinds_elsewhere", 1, 0);
}

/// Polls may run in coroutines, too.
#[test]
fn a_poll_may_end_on_another_thread() {
    #[perfmark(time)]
    async fn polled(pause: Pause<'_>) {
        std::future::ready(()).await;
        pause.here();
    }
    /// Pauses in each poll. Pending at the first.
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
        assert!(once(call.as_mut()).is_pending());
        assert!(once(call.as_mut()).is_ready());
    }
    if passed_in_own_process() {
        return;
    }
    // While its thread still runs, and after it has ended.
    Work::paused(|pause| run(polled(pause))).resume_to_end_elsewhere();
    assert_counts("polled", 1, 0);
    on_another_thread(|| Work::paused(|pause| run(polled(pause)))).resume_to_end();
    assert_counts("polled", 2, 0);
    Work::paused(poll_twice).resume_to_pause_elsewhere().resume_to_end();
    assert_counts("polled_twice", 1, 0);
}

/// Each thread begins calls that other threads end, all at the same time.
#[test]
fn calls_that_move_between_threads_are_counted_exactly() {
    #[perfmark(time, instructions)]
    fn wanders(pause: Pause<'_>) {
        pause.here();
        stays();
        pause.here();
    }
    #[perfmark(time)]
    fn stays() {}
    const THREADS: usize = 4;
    // Each call has a stack, and a process may have about 65,000 mappings.
    let each: usize = if std::env::var_os("PERFMARK_TEST_FULL").is_some() { 5_000 } else { 2_000 };
    if passed_in_own_process() {
        return;
    }
    thread::scope(|scope| {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel::<(Work, u8)>()).unzip();
        for (n, works) in receivers.into_iter().enumerate() {
            // A thread sends some calls to itself.
            let senders = senders.clone();
            scope.spawn(move || {
                for call in 0..each {
                    let mut work = Work::new(wanders);
                    work.resume_to_pause();
                    _ = senders[(n + call) % THREADS].send((work, 0));
                }
                drop(senders);
                // Here each call is resumed until it ends.
                for (mut work, _) in works {
                    work.resume_to_pause();
                    work.resume_to_end();
                }
            });
        }
        drop(senders);
    });
    let calls = (THREADS * each) as u64;
    let mark = find_mark("wanders");
    assert_eq!((mark.calls, mark.in_flight), (calls, 0), "{mark:?}");
    for values in &mark.values {
        assert_eq!(values.measured + values.unmeasured, calls, "{mark:?}");
    }
    let mark = find_mark("stays");
    assert_eq!((mark.calls, mark.in_flight), (calls, 0), "{mark:?}");
}
