//! A library that a program opens while it runs: with marks, and a perfmark of its own.

use std::hint::black_box;

/// Makes so many calls.
#[unsafe(no_mangle)]
pub extern "C" fn perfmark_test_calls(n: u64) {
    (0..n).for_each(in_library);
}

#[perfmark::perfmark(time, page_faults)]
fn in_library(n: u64) {
    black_box(n);
}
