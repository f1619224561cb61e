//! Budgets: counts stay exact, sums stay unbiased and add up, and what is specified takes precedence.
//!
//! Some tests count page faults, whose true number they know. Estimates are random: each check allows five standard
//! errors, which one run in a million exceeds.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "../../perfmark-rdpmc/tests/child/mod.rs"]
mod child;
#[path = "../../perfmark-rdpmc/tests/memory/mod.rs"]
mod memory;
mod alone;

use std::thread;

use alone::passed_in_own_process;
use child::{fork, in_child};
use memory::faults;
use perfmark::{Budget, Filter, Mark, Snapshot, Values, budget, perfmark, set_budget, set_filter, snapshot};

/// Puts a budget in force until it is dropped.
struct Within;

impl Within {
    fn percent(percent: f64) -> Self {
        set(percent);
        Self
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        set_budget(None).expect("it takes no slot");
    }
}

fn set(percent: f64) {
    set_budget(Some(Budget::percent(percent).expect("valid"))).expect("there are slots");
}

/// So little that only few calls of any mark are measured.
const TINY: f64 = 1e-6;

fn mark(snapshot: &Snapshot, name: &str) -> Mark {
    snapshot.marks.iter().find(|mark| mark.name == name).expect("it is known").clone()
}

/// The mark's page faults. `None` where they are not counted.
fn page_faults(snapshot: &Snapshot, name: &str) -> Option<Values> {
    let values = mark(snapshot, name).event("page_faults").cloned();
    if values.is_none() {
        println!("skipped: page faults of {name} are not counted here: {:?}", snapshot.events);
    }
    values
}

#[perfmark(time, name = "counted")]
fn counted(n: u64) -> u64 {
    std::hint::black_box(n)
}

#[test]
fn counts_stay_exact_on_all_threads_while_the_budget_changes() {
    const CALLS: u64 = 60_000;
    if passed_in_own_process() {
        return;
    }
    let before = snapshot();
    let within = Within::percent(TINY);
    let calls = || (0..CALLS).for_each(|n| _ = counted(n));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(calls)).collect();
        for percent in [5.0, TINY, 50.0] {
            set(percent);
            calls();
        }
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
    drop(within);
    let between = snapshot().since(&before);
    let counted = mark(&between, "counted");
    assert_eq!(counted.calls, 7 * CALLS);
    let values = &counted.values[0];
    assert_eq!(values.measured + values.unmeasured + counted.skipped, 7 * CALLS, "{values:?}");
    assert!(counted.skipped > 0 && values.extrapolated, "{counted:?}");
}

#[perfmark(time, name = "dense")]
fn dense(n: u64) -> u64 {
    std::hint::black_box(n)
}

#[perfmark(time, name = "few")]
fn few(n: u64) -> u64 {
    (0..100).fold(n, |n, _| dense(n))
}

#[test]
fn a_mark_with_less_than_a_thousand_calls_is_measured_completely() {
    if passed_in_own_process() {
        return;
    }
    let before = snapshot();
    let within = Within::percent(TINY);
    (0..999).for_each(|n| _ = few(n));
    drop(within);
    let during = snapshot().since(&before);
    let (inner, outer) = (mark(&during, "dense"), mark(&during, "few"));
    assert_eq!((outer.calls, outer.skipped), (999, 0), "{outer:?}");
    assert!(inner.skipped > inner.calls / 2, "{inner:?}");
}

#[perfmark(time, name = "late")]
fn late(n: u64) -> u64 {
    std::hint::black_box(n)
}

#[test]
fn the_first_thousand_calls_of_a_mark_are_measured_when_others_are_skipped() {
    if passed_in_own_process() {
        return;
    }
    let before = snapshot();
    let within = Within::percent(TINY);
    (0..2_000).for_each(|n| _ = few(n));
    (0..999).for_each(|n| _ = late(dense(n)));
    let during = snapshot().since(&before);
    assert!(mark(&during, "dense").skipped > 100_000);
    assert_eq!((mark(&during, "late").calls, mark(&during, "late").skipped), (999, 0));
    (0..1_000_000).for_each(|n| _ = late(dense(n)));
    drop(within);
    let during = snapshot().since(&before);
    assert!(mark(&during, "late").skipped > 500_000, "{:?}", mark(&during, "late"));
}

#[perfmark(time, name = "seldom")]
fn seldom(n: u64) -> u64 {
    (0..4_000).fold(n, |n, _| dense(n))
}

#[test]
fn a_rare_mark_stays_measured_completely_when_it_gets_other_settings() {
    if passed_in_own_process() {
        return;
    }
    let before = snapshot();
    let within = Within::percent(30.0);
    (0..1_200).for_each(|n| _ = seldom(n));
    set_filter(&Filter::default().fence("budget::seldom")).expect("there are slots");
    (0..100).for_each(|n| _ = seldom(n));
    drop(within);
    let during = snapshot().since(&before);
    assert!(mark(&during, "dense").skipped > 1_000_000);
    assert_eq!((mark(&during, "seldom").calls, mark(&during, "seldom").skipped), (1_300, 0));
}

/// Whether so many calls of `late` are all measured.
fn are_measured(calls: u64) -> bool {
    let before = snapshot();
    (0..calls).for_each(|n| _ = late(dense(n)));
    let during = snapshot().since(&before);
    (mark(&during, "late").calls, mark(&during, "late").skipped) == (calls, 0)
}

#[test]
fn the_first_thousand_calls_in_a_forked_child_are_measured() {
    if passed_in_own_process() {
        return;
    }
    let _within = Within::percent(TINY);
    (0..1_000_000).for_each(|n| _ = late(dense(n)));
    assert!(!are_measured(1_000_000));
    let is_passed = in_child(fork, || {
        // Many calls of another mark, so that the thread looks at its budget.
        (0..1_000_000).for_each(|n| _ = dense(n));
        are_measured(999)
    });
    assert!(is_passed, "the child's calls were not all measured");
}

#[perfmark(time, name = "rare")]
fn rare(n: u64) -> u64 {
    (0..10_000).fold(n, |n, _| dense(n))
}

#[test]
fn dense_marks_are_measured_in_part_and_rare_ones_completely() {
    if passed_in_own_process() {
        return;
    }
    let before = snapshot();
    let within = Within::percent(10.0);
    (0..200).for_each(|n| _ = rare(n));
    let during = snapshot().since(&before);
    let (inner, outer) = (mark(&during, "dense"), mark(&during, "rare"));
    assert_eq!((inner.calls, outer.calls, inner.budget_percent, inner.every), (2_000_000, 200, Some(10.0), 1));
    assert!(inner.skipped > inner.calls * 3 / 4, "{inner:?}");
    assert_eq!((outer.skipped, outer.values[0].measured), (0, 200));
    assert!(inner.values[0].extrapolated && !outer.values[0].extrapolated);
    drop(within);
    // What is measured completely is exact again.
    let before = snapshot();
    (0..1_000).for_each(|n| _ = dense(n));
    let after = snapshot().since(&before);
    let exact = mark(&after, "dense");
    assert_eq!((exact.calls, exact.skipped, exact.budget_percent), (1_000, 0, None));
    assert_eq!((exact.values[0].measured, exact.values[0].extrapolated), (1_000, false));
}

#[perfmark(time, name = "long")]
fn long(n: u64) -> u64 {
    (0..n).fold(n, |sum, n| std::hint::black_box(sum ^ n))
}

#[test]
fn calls_before_a_budget_do_not_count_within_it() {
    if passed_in_own_process() {
        return;
    }
    let calls = || (0..1_000_000).for_each(|_| _ = long(0));
    let within = Within::percent(TINY);
    calls();
    drop(within);
    set_filter(&Filter::default().every("budget::long", 1_000)).expect("there are slots");
    calls();
    set_filter(&Filter::default()).expect("there are slots");
    let before = snapshot();
    let within = Within::percent(50.0);
    // Measuring such a call takes far less than half of its time.
    (0..4_000).for_each(|_| _ = long(20_000));
    let during = snapshot().since(&before);
    drop(within);
    assert_eq!((mark(&during, "long").calls, mark(&during, "long").skipped), (4_000, 0));
}

#[perfmark(time, every = 7, name = "own every")]
fn own_every() {}

#[perfmark(time, every = 1, name = "always")]
fn always() {}

#[perfmark(time, name = "filtered")]
fn filtered() {}

#[perfmark(time, name = "async")]
async fn is_async() {
    std::future::ready(()).await;
}

#[test]
fn every_of_a_mark_and_of_the_filter_takes_precedence_and_async_calls_are_measured_completely() {
    const CALLS: u64 = 7_000;
    if passed_in_own_process() {
        return;
    }
    set_filter(&Filter::default().every("budget::filtered", 5)).expect("there are slots");
    let within = Within::percent(TINY);
    assert_eq!(budget(), Budget::percent(TINY).ok());
    for _ in 0..CALLS {
        own_every();
        always();
        filtered();
        let mut future = std::pin::pin!(is_async());
        let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
        assert!(Future::poll(future.as_mut(), context).is_ready());
    }
    let snapshot = snapshot();
    for (name, every) in [("own every", 7), ("always", 1), ("filtered", 5), ("async", 1)] {
        let mark = mark(&snapshot, name);
        assert_eq!((mark.calls, mark.every, mark.budget_percent), (CALLS, every, None), "{name}");
        let measured = mark.values[0].measured;
        assert_eq!(measured + mark.skipped, CALLS, "{name}");
        // Marks of one thread share its bursts, so the number is random. Five standard errors are allowed.
        let (expected, allowed) =
            (CALLS / u64::from(every), if every > 1 { 5 * (CALLS / u64::from(every)).isqrt() } else { 0 });
        assert!(measured.abs_diff(expected) <= allowed, "{name}: {measured}, expected {expected} ± {allowed}");
    }
    drop(within);
    assert_eq!(budget(), None);
    set_filter(&Filter::default()).expect("it takes no slot");
}

#[perfmark(page_faults, name = "caller")]
fn caller(n: usize) {
    faults(1);
    (0..n % 4).for_each(|_| callee(n));
}

/// The pages of a call of `callee`: in phases, and with a period that is the size of a block.
fn pages_of(n: usize) -> usize {
    match n {
        _ if n % 16 == 7 => 9,
        1_000.. => 1,
        _ => 3,
    }
}

#[perfmark(page_faults, name = "callee")]
fn callee(n: usize) {
    faults(pages_of(n));
}

#[test]
fn sums_are_unbiased_whatever_the_load_and_self_adds_up() {
    const CALLS: usize = 2_000;
    /// In the first runs, the thread uses new memory for the marks, whose faults are in the open calls.
    const WARM_UP: usize = 20;
    let runs = if std::env::var_os("PERFMARK_TEST_FULL").is_some() { 60 } else { 30 };
    if passed_in_own_process() {
        return;
    }
    let _within = Within::percent(2.0);
    let truth: usize = (0..CALLS).map(|n| n % 4 * pages_of(n)).sum();
    let (mut inner_totals, mut outer_selfs, mut skipped) = (Vec::new(), Vec::new(), 0);
    (0..WARM_UP * CALLS).for_each(caller);
    for _ in 0..runs {
        let before = snapshot();
        (0..CALLS).for_each(caller);
        let run = snapshot().since(&before);
        let (Some(outer), Some(inner)) = (page_faults(&run, "caller"), page_faults(&run, "callee")) else { return };
        assert_eq!(mark(&run, "caller").calls, CALLS as u64);
        let own = |values: &Values| values.self_sum.expect("known");
        assert_eq!(inner.total, own(&inner), "a leaf");
        skipped += mark(&run, "callee").skipped;
        inner_totals.push(inner.total as f64);
        outer_selfs.push(own(&outer) as f64);
    }
    assert!(skipped > 0, "nothing was estimated");
    near("callee", &inner_totals, truth as f64);
    near("self of the caller", &outer_selfs, CALLS as f64);
}

/// Checks that the mean of the runs is within five standard errors of the truth.
#[track_caller]
fn near(what: &str, runs: &[f64], truth: f64) {
    let count = runs.len() as f64;
    let mean = runs.iter().sum::<f64>() / count;
    let variance = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let allowed = 5.0 * (variance / count).sqrt();
    println!("{what}: {mean:.1}, truth {truth}, five standard errors {allowed:.1}");
    // A few faults come from elsewhere: each thread's new stack.
    assert!((mean - truth).abs() <= allowed + 20.0, "{what}: {mean}, truth {truth}, allowed {allowed}");
}

#[perfmark(page_faults, name = "whole")]
fn whole(n: usize) {
    faults(1);
    (0..n % 4).for_each(|_| part());
}

#[perfmark(page_faults, name = "part")]
fn part() {
    faults(2);
}

#[test]
fn sums_of_parts_equal_the_whole_while_the_budget_changes() {
    let sums = |snapshot: &Snapshot, name: &str| {
        let (mark, values) = (mark(snapshot, name), page_faults(snapshot, name)?);
        let counts = [mark.calls, mark.skipped, values.measured, values.weight, values.estimated];
        Some((counts, values.sum, values.total, values.self_sum))
    };
    if passed_in_own_process() {
        return;
    }
    let start = snapshot();
    let (mut before, mut parts) = (start.clone(), Snapshot::default());
    for round in 0..30 {
        let percent = [TINY, 2.0, 100.0][round % 3];
        let within = (round % 4 > 0).then(|| Within::percent(percent));
        let calls = || (0..100).for_each(whole);
        calls();
        thread::spawn(calls).join().expect("no panic");
        drop(within);
        let now = snapshot();
        parts.merge(&now.since(&before));
        before = now;
    }
    let all = snapshot().since(&start);
    for name in ["whole", "part"] {
        assert_eq!(sums(&parts, name), sums(&all, name), "{name}");
    }
    assert_eq!(mark(&all, "whole").calls, 30 * 2 * 100);
}
