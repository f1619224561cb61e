//! A crate's own budget, and the process's, which takes precedence.
#![cfg(all(feature = "record", target_os = "linux"))]

use std::hint::black_box;

use perfmark::{Budget, Mark, perfmark, set_budget, snapshot};

perfmark::defaults!(time, budget = "0.001%");

#[perfmark]
fn dense(n: u64) -> u64 {
    black_box(n)
}

#[perfmark(every = 3)]
fn own_every(n: u64) -> u64 {
    black_box(n)
}

fn mark(name: &str) -> Mark {
    snapshot().marks.into_iter().find(|mark| mark.name == name).expect("it is known")
}

#[test]
fn a_crates_budget_applies_to_its_marks_unless_the_process_has_one() {
    const CALLS: u64 = 9_000;
    (0..CALLS).for_each(|n| _ = dense(n) + own_every(n));
    let (before, own_every) = (mark("dense"), mark("own_every"));
    assert_eq!((before.calls, before.budget_percent), (CALLS, Some(0.001)));
    assert!(before.skipped > CALLS / 2, "{before:?}");
    assert_eq!((own_every.budget_percent, own_every.every), (None, 3));
    // Both marks share the thread's bursts, so the number is random. Five standard errors are allowed.
    let measured = own_every.values[0].measured;
    assert!(measured.abs_diff(CALLS / 3) <= 5 * (CALLS / 3).isqrt(), "{measured} of {CALLS}");

    set_budget(Budget::percent(100.0).ok()).expect("there are slots");
    assert_eq!(mark("dense").budget_percent, Some(100.0));
    set_budget(None).expect("it takes no slot");
    assert_eq!(mark("dense").budget_percent, Some(0.001));
}
