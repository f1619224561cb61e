//! Polls futures by hand, on the calling thread.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::future::poll_fn;
use std::hint::black_box;
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

pub(crate) fn once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls the future until it is ready, through a pointer, as runtimes do.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    let mut future: Pin<&mut dyn Future<Output = F::Output>> = pin!(future);
    loop {
        if let Poll::Ready(value) = once(black_box(&mut future).as_mut()) {
            return value;
        }
    }
}

/// A future that is ready at its second poll.
pub(crate) fn yield_now() -> impl Future<Output = ()> {
    let mut is_ready = false;
    poll_fn(move |_| if mem::replace(&mut is_ready, true) { Poll::Ready(()) } else { Poll::Pending })
}
