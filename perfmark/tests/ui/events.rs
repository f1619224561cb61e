//! The compiler checks the grammar of events. The report says which of them a machine has.

use perfmark::perfmark;

#[perfmark(cycles, cycles)]
fn twice() {}

#[perfmark(cache_misses, "cache-misses")]
fn twice_in_two_spellings() {}

#[perfmark("cpu/event=0xc2")]
fn without_its_second_slash() {}

#[perfmark("cycles:q")]
fn with_no_modifier() {}

#[perfmark("cycles,instructions")]
fn two_in_one() {}

#[perfmark(dummy)]
fn that_count_nothing() {}

#[perfmark("")]
fn without_a_name() {}

#[perfmark(7)]
fn that_are_none() {}

fn main() {}
