//! Marked async functions that only unsafe code may call.

#![deny(warnings, clippy::pedantic)]

use std::future::ready;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use perfmark::perfmark;

/// The number there.
///
/// # Safety
///
/// It is a number, until the future is dropped.
#[perfmark(time)]
async unsafe fn number(place: *const u32) -> u32 {
    ready(()).await;
    // SAFETY: the caller's word.
    unsafe { *place }
}

trait Place {
    /// # Safety
    ///
    /// It is a number.
    async unsafe fn number(&self) -> u32;

    /// # Safety
    ///
    /// As `number`.
    #[perfmark(time)]
    async unsafe fn twice(&self) -> u32 {
        // SAFETY: the caller's word.
        2 * unsafe { self.number() }.await
    }
}

impl Place for *const u32 {
    #[perfmark(time)]
    async unsafe fn number(&self) -> u32 {
        // SAFETY: the caller's word.
        unsafe { number(*self) }.await
    }
}

#[test]
fn unsafe_functions_stay_unsafe() {
    let place: *const u32 = &7;
    // SAFETY: there is a number.
    let futures = unsafe { (number(place), place.number(), place.twice()) };
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(pin!(futures.0).poll(&mut context), Poll::Ready(7));
    assert_eq!(pin!(futures.1).poll(&mut context), Poll::Ready(7));
    assert_eq!(pin!(futures.2).poll(&mut context), Poll::Ready(14));
}
