//! A module for a browser, which has no clock and no system calls. Nothing is recorded in it, and nothing traps.

use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Waker};

use perfmark::{Dumps, Filter, Report, Session, perfmark, region};

perfmark::defaults!(time, cycles);

#[perfmark(every = 61)]
fn triple(n: u32) -> u32 {
    let _until_the_end = region!("all of it", time);
    region!("product", time, { 3 * n })
}

#[perfmark(generic)]
async fn later<T>(value: T) -> T {
    ready(value).await
}

/// The number of marks in the snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn run() -> usize {
    assert_eq!(triple(14), 42);
    assert!(pin!(later(42)).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    perfmark::set_filter(&Filter::default().off("triple")).expect("there are slots for all marks");
    perfmark::set_budget(Some("2%".parse().expect("a budget"))).expect("there are slots for all marks");
    drop(perfmark::measure(&["time"], || triple(14)));
    drop(Session::new());
    drop(Dumps::new("report").start());
    perfmark::reset();
    let marks = perfmark::snapshot().marks.len() + perfmark::threads().len();
    assert!(!Report::new(&perfmark::snapshot()).to_string().is_empty());
    perfmark::finish();
    perfmark::disable_report();
    triple(14) as usize - 42 + marks
}
