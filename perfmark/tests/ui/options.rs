//! Each wrong word is reported where it is, with the valid ones.

use perfmark::perfmark;

#[perfmark(title = "f")]
fn unknown() {}

#[perfmark(time, every = 0)]
fn zero() {}

#[perfmark(time, every = "often")]
fn not_a_number() {}

#[perfmark(time, every = 4294967296)]
fn too_many() {}

#[perfmark(name = 7)]
fn not_a_text() {}

#[perfmark(name = NAME)]
fn a_constant() {}

#[perfmark(time, every = N)]
fn a_constant_number() {}

#[perfmark(time, crate = "perfmark")]
fn not_a_path() {}

#[perfmark(name)]
fn without_a_value() {}

#[perfmark(time, fence = true)]
fn with_a_value() {}

#[perfmark(time, fence, fence)]
fn fenced_twice() {}

#[perfmark(name = "one", name = "two")]
fn named_twice() {}

#[perfmark(every = 2, time, every = 3)]
fn often_twice() {}

#[perfmark(kernel, cycles, kernel)]
fn kernel_twice() {}

#[perfmark(crate = perfmark, crate = perfmark)]
fn placed_twice() {}

#[perfmark(name = "")]
fn nameless() {}

#[perfmark(kernel)]
fn kernel_of_what() {}

#[perfmark("cycles:u", kernel)]
fn contradiction() {}

#[perfmark(cycles instructions)]
fn without_a_comma() {}

#[perfmark(skip, time)]
fn skipped_and_not() {}

#[perfmark(skip = true)]
fn skipped_with_a_value() {}

fn main() {}
