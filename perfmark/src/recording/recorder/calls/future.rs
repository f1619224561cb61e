//! The future of an async call: its polls are measured, on whichever threads they run, and the time between them is
//! not. And the empty futures with which the overhead of this is measured.
#![allow(unsafe_code, reason = "a pinned field, projected")]

use std::pin::Pin;
use std::task::{Context, Poll};

use super::poll::{RunningPoll, cancel};
use super::polled_call::PolledCall;
use crate::recording::mark::Mark;
use crate::recording::recorder::thread::CalibrationCalls;

/// A future whose polls are one call of a mark. A function without captures returns the mark.
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Polled<M: Fn() -> &'static Mark, F> {
    call: PolledCall,
    mark: M,
    future: F,
}

impl<M: Fn() -> &'static Mark, F> Polled<M, F> {
    /// Called only by the attribute's expansion.
    #[inline]
    pub const fn new(mark: M, future: F) -> Self {
        Self { call: PolledCall::NotBegun, mark, future }
    }
}

impl<M: Fn() -> &'static Mark, F: Future> Future for Polled<M, F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved, and the other fields are not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let mark = (this.mark)();
        let running = RunningPoll::begin(mark, &mut this.call, &empty_calls::CALIBRATION_CALLS);
        // SAFETY: it is pinned with `self`.
        let result = unsafe { Pin::new_unchecked(&mut this.future) }.poll(context);
        running.end(result.is_ready());
        result
    }
}

impl<M: Fn() -> &'static Mark, F> Drop for Polled<M, F> {
    #[inline]
    fn drop(&mut self) {
        cancel(&self.mark, &mut self.call);
    }
}

/// Empty calls of one poll or more. Each is awaited by another future, like a marked call by its caller.
mod empty_calls {
    use std::future::poll_fn;
    use std::hint::black_box;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::{CalibrationCalls, Mark, Polled};
    use crate::recording::recorder::calls::call::empty_thinned_calls;
    use crate::recording::recorder::{begin, ended};

    static EMPTY: Mark = Mark::hidden(5).polled();
    static CALLER: Mark = Mark::hidden(6).polled();

    pub(crate) static CALIBRATION_CALLS: CalibrationCalls = CalibrationCalls {
        unmarked: || poll(async { unmarked().await }),
        marked: || poll(async { marked().await }),
        skipped: empty_thinned_calls::CALIBRATION_CALLS.skipped,
        unmarked_skipped: empty_thinned_calls::CALIBRATION_CALLS.unmarked_skipped,
        unmarked_caller: || poll(async { calls().await }),
        marked_caller: || poll(async { Polled::new(|| &CALLER, calls()).await }),
        unmarked_caller_of_skipped: || poll(async { calls_skipped().await }),
        marked_caller_of_skipped: || poll(async { Polled::new(|| &CALLER, calls_skipped()).await }),
        marked_caller_of_unmarked: || poll(async { Polled::new(|| &CALLER, around()).await }),
        unmarked_suspended: [|| poll(async { suspended(1).await }), || poll(async { suspended(2).await })],
        marked_suspended: [
            || poll(async { Polled::new(|| &EMPTY, suspended(1)).await }),
            || poll(async { Polled::new(|| &EMPTY, suspended(2)).await }),
        ],
        completed: || ended(begin(&EMPTY)),
        returned_early: || drop(begin(&EMPTY)),
        empty_mark: &EMPTY,
        caller_mark: &CALLER,
        skipped_mark: empty_thinned_calls::CALIBRATION_CALLS.skipped_mark,
        if_thinned: None,
    };

    #[allow(clippy::unused_async, reason = "a future that does nothing when polled")]
    async fn unmarked() {
        black_box(());
    }

    fn marked() -> impl Future<Output = ()> {
        Polled::new(|| &EMPTY, unmarked())
    }

    async fn calls() {
        marked().await;
    }

    #[allow(clippy::unused_async, reason = "a future that does little when polled")]
    async fn calls_skipped() {
        (empty_thinned_calls::CALIBRATION_CALLS.skipped)();
    }

    async fn around() {
        unmarked().await;
    }

    /// Suspended so many times.
    async fn suspended(times: u32) {
        let mut polls = 0;
        poll_fn(|_| {
            polls += 1;
            if polls > times { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Polls the future until it is ready, through a pointer as an executor does.
    #[inline]
    fn poll(future: impl Future<Output = ()>) {
        let mut future: Pin<&mut dyn Future<Output = ()>> = pin!(future);
        while black_box(&mut future).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {}
    }
}
