//! Every kind of mark, without the standard library. It has the panic handler of a complete program.

#![no_std]
#![deny(warnings)]

use core::future::ready;
use core::panic::PanicInfo;

use perfmark::{perfmark, region};

perfmark::defaults!(time);

#[perfmark]
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Returns a value.
#[perfmark(cycles, every = 61)]
#[unsafe(no_mangle)]
pub extern "C" fn checksum(first: u32, second: u32) -> u32 {
    let _until_the_end = region!("all of it", time);
    region!("sum", time, { first.rotate_left(5) ^ second })
}

/// Returns early, or a type that cannot be named.
#[perfmark(generic)]
pub fn digits<T: AsRef<str>>(text: &T) -> Option<impl Iterator<Item = u32>> {
    Some(text.as_ref().split(',').next()?.chars().filter_map(|digit| digit.to_digit(10)))
}

/// A container.
#[derive(Debug)]
pub struct Sum(pub u32);

#[perfmark]
impl Sum {
    /// Async.
    pub async fn add(&mut self, (first, second): (u32, u32)) {
        self.0 += ready(first).await + region!("second", time, async { second }).await;
    }
}
