//! The future of an async call: its polls are measured, on whichever threads they run, and the time between them is not.
#![allow(unsafe_code, reason = "a pinned field, projected")]

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::mark::Mark;
use crate::recorder::{Call, Outcome, Polls, begin_poll, cancel, end_poll};

/// A future whose polls are one call of a mark, which a function without captures gives.
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Polled<M: Fn() -> &'static Mark, F> {
    polls: Polls,
    mark: M,
    future: F,
}

impl<M: Fn() -> &'static Mark, F> Polled<M, F> {
    /// Called by the attribute's expansion alone.
    #[inline]
    pub const fn new(mark: M, future: F) -> Self {
        Self { polls: Polls::None, mark, future }
    }
}

impl<M: Fn() -> &'static Mark, F: Future> Future for Polled<M, F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future stays where it is, and the rest is not pinned.
        let this = unsafe { self.get_unchecked_mut() };
        let mark = (this.mark)();
        let call = begin_poll(mark, &mut this.polls);
        let mut running = Running { mark, polls: &mut this.polls, call, outcome: Outcome::Unwound };
        // SAFETY: it is pinned with `self`.
        let result = unsafe { Pin::new_unchecked(&mut this.future) }.poll(context);
        running.outcome = if result.is_ready() { Outcome::Ready } else { Outcome::Pending };
        result
    }
}

impl<M: Fn() -> &'static Mark, F> Drop for Polled<M, F> {
    #[inline]
    fn drop(&mut self) {
        cancel(&self.mark, &mut self.polls);
    }
}

/// A poll that runs; ended when dropped, also by a panic.
struct Running<'a> {
    mark: &'static Mark,
    polls: &'a mut Polls,
    call: Call,
    outcome: Outcome,
}

impl Drop for Running<'_> {
    #[inline]
    fn drop(&mut self) {
        end_poll(self.mark, self.polls, &self.call, self.outcome);
    }
}
