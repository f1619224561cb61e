//! Compiled with marks and without, to compare the assembly.

#![deny(warnings)]

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[cfg(marked)]
use perfmark::{perfmark, region};

#[cfg(not(marked))]
macro_rules! region {
    ($name:literal, $event:ident, $block:block) => {
        $block
    };
}

/// Exported, so that it is compiled.
#[cfg_attr(marked, perfmark(cycles, instructions))]
#[unsafe(no_mangle)]
pub fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, &byte| sum.rotate_left(5) ^ u32::from(byte))
}

/// Returns early, and may panic.
#[cfg_attr(marked, perfmark(time, every = 61, fence))]
#[unsafe(no_mangle)]
pub fn parse(text: &str) -> Option<u32> {
    let first = text.split(',').next()?;
    assert!(!first.is_empty());
    region!("digits", time, { first.parse().ok() })
}

/// Has methods.
#[derive(Debug)]
pub struct Table(pub Vec<u64>);

#[cfg_attr(marked, perfmark)]
impl Table {
    /// Finds the index of an entry.
    #[unsafe(no_mangle)]
    pub extern "C" fn find(&self, key: u64) -> u64 {
        self.0.iter().position(|&entry| entry == key).map_or(u64::MAX, |at| at as u64)
    }
}

#[cfg_attr(marked, perfmark(time, generic))]
async fn later<T: Into<u64>>(mut values: Vec<T>, _: &str) -> Option<u64> {
    let last = values.pop()?;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if values.pop().is_some() { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    Some(last.into())
}

/// Polls an async function, until it is ready.
#[unsafe(no_mangle)]
pub fn drive(values: Vec<u32>) -> Option<u64> {
    let mut call = pin!(later(values, "unused"));
    loop {
        if let Poll::Ready(value) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}
