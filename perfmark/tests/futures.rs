//! Async functions: a call is the sum of its polls.

#![forbid(unsafe_code)]
#![deny(warnings, clippy::pedantic)]

use std::future::{pending, poll_fn};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use perfmark::{perfmark, region};

fn once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls it until it is ready.
fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = once(future.as_mut()) {
            return value;
        }
    }
}

/// Ready at its second poll.
fn yield_now() -> impl Future<Output = ()> {
    let mut is_ready = false;
    poll_fn(move |_| {
        let was_ready = std::mem::replace(&mut is_ready, true);
        if was_ready { Poll::Ready(()) } else { Poll::Pending }
    })
}

#[perfmark(time)]
async fn plain(mut text: String, (a, _): (u32, u32), _: &str) -> Result<usize, std::num::ParseIntError> {
    yield_now().await;
    text.push('1');
    let number: usize = text.parse()?;
    yield_now().await;
    Ok(number + a as usize)
}

struct Table(Vec<u64>);

#[perfmark(time)]
impl Table {
    async fn sum(&self) -> u64 {
        yield_now().await;
        self.0.iter().sum()
    }

    async fn into_inner(self: Box<Self>) -> Vec<u64> {
        self.0
    }

    #[perfmark(time, name = "its own")]
    async fn grow<'a>(&'a mut self, by: impl Iterator<Item = u64>) -> &'a [u64] {
        yield_now().await;
        self.0.extend(by);
        &self.0
    }

    #[perfmark(skip)]
    #[allow(clippy::unused_async, reason = "as it is written")]
    async fn skipped(&self) -> impl Iterator<Item = &u64> {
        self.0.iter()
    }

    fn boxed(&self) -> Pin<Box<dyn Future<Output = u64> + Send + '_>> {
        Box::pin(async move { self.0.iter().sum() })
    }
}

#[perfmark(time)]
fn returned(n: u64) -> impl Future<Output = u64> {
    let n = n + 1;
    async move {
        yield_now().await;
        black_box(n)
    }
}

trait Load {
    async fn load(&self) -> Option<u64>;

    #[perfmark(time)]
    async fn twice(&self) -> Option<u64> {
        Some(self.load().await? + self.load().await?)
    }
}

impl Load for Table {
    #[perfmark(time)]
    async fn load(&self) -> Option<u64> {
        self.0.first().copied()
    }
}

#[perfmark(time)]
#[must_use]
async fn used(n: u64) -> u64 {
    async move { n }.await
}

#[perfmark(time)]
async fn never() -> ! {
    pending().await
}

#[test]
fn async_functions_mean_what_they_did() {
    assert_eq!(run(plain("4".into(), (1, 2), "")).ok(), Some(42));
    assert!(run(plain("x".into(), (1, 2), "")).is_err());
    let mut table = Table(vec![1, 2]);
    assert_eq!(run(table.sum()), 3);
    assert_eq!(run(table.grow(3..5)), [1, 2, 3, 4]);
    assert_eq!(run(table.skipped()).count(), 4);
    assert_eq!(run(table.boxed()), 10);
    assert_eq!(run(table.twice()), Some(2));
    assert_eq!(run(Box::new(table).into_inner()).len(), 4);
    assert_eq!((run(returned(1)), run(used(3))), (2, 3));
    assert_eq!(run(region!("waits", time, async { yield_now().await })), ());
    assert!(once(pin!(never())).is_pending());
}
