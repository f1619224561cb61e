//! Marked async functions that are unsafe to call.

#![deny(warnings, clippy::pedantic)]

use std::future::ready;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use perfmark::perfmark;

/// Reads the number.
///
/// # Safety
///
/// The pointer is valid for reads until the future is dropped.
#[perfmark(time)]
async unsafe fn number(pointer: *const u32) -> u32 {
    ready(()).await;
    // SAFETY: the caller keeps the contract above.
    unsafe { *pointer }
}

trait Pointee {
    /// # Safety
    ///
    /// The pointer is valid for reads.
    async unsafe fn number(&self) -> u32;

    /// # Safety
    ///
    /// As for `number`.
    #[perfmark(time)]
    async unsafe fn twice(&self) -> u32 {
        // SAFETY: the caller keeps the contract above.
        2 * unsafe { self.number() }.await
    }
}

impl Pointee for *const u32 {
    #[perfmark(time)]
    async unsafe fn number(&self) -> u32 {
        // SAFETY: the caller keeps the contract of the trait.
        unsafe { number(*self) }.await
    }
}

#[test]
fn unsafe_functions_stay_unsafe() {
    let pointer: *const u32 = &7;
    // SAFETY: the pointer is to a live number.
    let futures = unsafe { (number(pointer), pointer.number(), pointer.twice()) };
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(pin!(futures.0).poll(&mut context), Poll::Ready(7));
    assert_eq!(pin!(futures.1).poll(&mut context), Poll::Ready(7));
    assert_eq!(pin!(futures.2).poll(&mut context), Poll::Ready(14));
}
