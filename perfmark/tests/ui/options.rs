//! Each wrong word is told where it stands, with the valid ones.

use perfmark::perfmark;

#[perfmark(title = "f")]
fn unknown() {}

#[perfmark(time, every = 0)]
fn zero() {}

#[perfmark(time, every = "often")]
fn not_a_number() {}

#[perfmark(name)]
fn without_a_value() {}

#[perfmark(time, fence = true)]
fn with_a_value() {}

#[perfmark(time, fence, fence)]
fn fenced_twice() {}

#[perfmark(name = "")]
fn nameless() {}

#[perfmark(kernel)]
fn kernel_of_what() {}

#[perfmark("cycles:u", kernel)]
fn contradiction() {}

fn main() {}
