//! The cost of reading a counter, compared with a bare tick read: `cargo bench -p benches --bench read`.
//!
//! If this machine has no PMU that user space may read, the benchmark prints the reason and measures read(2) with a
//! software event.

use std::hint::black_box;

use benches::{Contender, compare};
use perfmark_rdpmc::clock::ticks;
use perfmark_rdpmc::{Attr, Counter, Event, Hardware, Region, Software};

/// Readings per sample.
const READINGS: u32 = 2_000;

fn open(event: impl Into<Event>) -> Option<Counter> {
    Counter::open(&Attr::new(event)).inspect_err(|error| println!("{error}")).ok()
}

/// A sample of readings.
fn readings<'a>(read: impl Fn() + 'a) -> Box<dyn Fn() + 'a> {
    Box::new(move || (0..READINGS).for_each(|_| read()))
}

fn main() {
    let (hardware, software) = (open(Hardware::Instructions), open(Software::TaskClock));
    let base = "a pair of tick reads";
    let mut contenders: Vec<Contender<'_>> = vec![(base, readings(|| _ = black_box((ticks(), ticks()))))];
    if let Some(counter) = &hardware {
        if let Err(reason) = counter.user_reads() {
            println!("user space cannot read the counter: {reason}");
        }
        let region = readings(|| {
            let mut region = Region::default();
            counter.begin(&mut region);
            black_box(counter.end(&region));
        });
        contenders.push(("a region, by the cheap exact read", region));
        let user = readings(|| _ = black_box((counter.read_user(), counter.read_user())));
        contenders.push(("two full user reads", user));
    }
    if let Some(counter) = hardware.as_ref().or(software.as_ref()) {
        let syscall = readings(|| _ = black_box((counter.read_syscall(), counter.read_syscall())));
        contenders.push(("two read(2)", syscall));
    }
    compare(base, &contenders);
}
