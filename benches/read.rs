//! The cost of reading a counter, compared with a bare tick read: `cargo bench -p benches --bench read`.
//!
//! If this machine has no PMU that user space may read, the benchmark prints the reason and measures read(2) with a
//! software event.

use std::hint::black_box;

use benches::row::{self, Case, in_turn, ticks_case};
use perfmark_rdpmc::clock::ticks;
use perfmark_rdpmc::{Attr, Counter, Event, Hardware, Region, Software};

const ROUNDS: usize = 101;
/// Readings per sample.
const READINGS: u32 = 2_000;

fn open(event: impl Into<Event>) -> Option<Counter> {
    Counter::open(&Attr::new(event)).inspect_err(|error| println!("{error}")).ok()
}

/// The ticks of each reading.
fn readings<'a>(name: &str, read: impl Fn() + 'a) -> Case<'a> {
    ticks_case(name, READINGS, move || (0..READINGS).for_each(|_| read()))
}

fn main() {
    let (hardware, software) = (open(Hardware::Instructions), open(Software::TaskClock));
    let mut cases = vec![readings("a pair of tick reads", || _ = black_box((ticks(), ticks())))];
    if let Some(counter) = &hardware {
        if let Err(reason) = counter.user_reads() {
            println!("user space cannot read the counter: {reason}");
        }
        cases.push(readings("a region, by the cheap exact read", || {
            let mut region = Region::default();
            counter.begin(&mut region);
            black_box(counter.end(&region));
        }));
        cases.push(readings("two full user reads", || _ = black_box((counter.read_user(), counter.read_user()))));
    }
    if let Some(counter) = hardware.as_ref().or(software.as_ref()) {
        cases.push(readings("two read(2)", || _ = black_box((counter.read_syscall(), counter.read_syscall()))));
    }
    println!("{}", row::text(&in_turn(ROUNDS, "ticks", cases)));
}
