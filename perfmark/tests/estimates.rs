//! Sums of marks that measure only some of their calls: unbiased, and equal to the sum of their parts.
//!
//! The tests count page faults, whose true number they know. Each check allows five standard errors. The bursts follow
//! from a seed, which is the same in each run; `PERFMARK_TEST_SEED` sets another one.
#![cfg(all(feature = "record", target_os = "linux"))]

#[path = "../../perfmark-rdpmc/tests/memory/mod.rs"]
mod memory;
#[path = "../../perfmark-rdpmc/tests/process/mod.rs"]
mod process;
mod alone;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use std::{env, mem, thread};

use alone::passed_in_own_process;
use memory::faults;
use perfmark::private::seed_bursts;
use perfmark::{Filter, Mark, Snapshot, Values, perfmark, reset, set_filter, snapshot};
use process::{cpus, move_to};

/// Lets the calling thread have bursts at the same calls in each run. With another `stream`, it has them at others.
fn seed(stream: u64) {
    let seed: u64 = env::var("PERFMARK_TEST_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    println!("PERFMARK_TEST_SEED={seed}");
    // The thread has a recorder, which chooses them, from its first call on.
    phases(0);
    seed_bursts(Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ stream).next());
}

/// Whether tests have their full length, with more places of bursts.
fn is_full() -> bool {
    env::var_os("PERFMARK_TEST_FULL").is_some()
}

fn set(filter: &str) {
    set_filter(&filter.parse().expect("a filter")).expect("there are slots");
}

/// The mark, and its page faults. `None` where these are not counted.
#[track_caller]
fn find(snapshot: &Snapshot, name: &str) -> Option<(Mark, Values)> {
    let mark = snapshot.marks.iter().find(|mark| mark.name == name).expect("it is known");
    let values = mark.event("page_faults");
    if values.is_none() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| println!("skipped: page faults of {name} are not counted here: {:?}", snapshot.events));
    }
    Some((mark.clone(), values?.clone()))
}

/// Checks that the estimate is within five standard errors of the truth. The variance is at most the given one.
#[track_caller]
fn assert_near(what: &str, estimate: i64, truth: i64, variance: f64) {
    // A few faults come from elsewhere: a stack that grows, or code that runs for the first time.
    let allowed = 5.0 * variance.sqrt() + 20.0 + truth as f64 / 1_000.0;
    assert!((estimate - truth).abs() as f64 <= allowed, "{what}: {estimate}, truth {truth}, allowed {allowed}");
}

#[perfmark(page_faults, name = "phases")]
fn phases(pages: usize) {
    faults(pages);
}

#[test]
fn a_change_of_the_measured_share_leaves_totals_true() {
    if passed_in_own_process() {
        return;
    }
    seed(0);
    set("estimates::phases=every:100");
    (0..5_000).for_each(|n| phases(10 + n % 21));
    let before = snapshot();
    set_filter(&Filter::default()).expect("it takes no slot");
    (0..20_000).for_each(|_| phases(1));
    let after = snapshot();
    let (Some((_, first)), Some((_, all)), Some((mark, second))) =
        (find(&before, "phases"), find(&after, "phases"), find(&after.since(&before), "phases"))
    else {
        return;
    };
    // A call takes about 20 pages, whose mean square is 437.
    let variance = 99.0 * 5_000.0 * 437.0;
    assert_near("the first phase", first.total, 100_000, variance);
    assert_near("both", all.total, 120_000, variance);
    assert_eq!((mark.calls, second.measured, second.weight, second.extrapolated), (20_000, 20_000, 20_000, false));
    assert_near("the second, which was measured completely", second.total, 20_000, 0.0);
    assert_eq!(second.self_sum, Some(second.total));
    assert_eq!((first.total + second.total, first.weight + second.weight), (all.total, all.weight));
}

#[perfmark(page_faults, every = 61, name = "slow first")]
fn slow_first(pages: usize) {
    faults(pages);
}

#[test]
fn a_threads_first_call_is_as_likely_to_be_measured_as_any_other() {
    const THREADS: i64 = 200;
    if passed_in_own_process() {
        return;
    }
    for thread in 0..THREADS {
        let calls = move || {
            seed(thread.cast_unsigned());
            (0..61).for_each(|n| slow_first(if n == 0 { 40 } else { 1 }));
        };
        thread::spawn(calls).join().expect("no panic");
    }
    let Some((mark, values)) = find(&snapshot(), "slow first") else { return };
    assert_eq!((mark.calls, values.measured, values.weight), (61 * 200, 200, 61 * 200), "one of each 61");
    let variance = 60.0 * (THREADS * (40 * 40 + 60)) as f64;
    assert_near("the total", values.total, THREADS * (40 + 60), variance);
}

#[perfmark(page_faults, every = 20, name = "periodic")]
fn periodic(pages: usize) {
    faults(pages);
}

#[test]
fn a_period_of_the_program_is_not_met_again_and_again() {
    if passed_in_own_process() {
        return;
    }
    seed(0);
    (0..20_000).for_each(|n| periodic(if n % 20 == 7 { 40 } else { 1 }));
    let Some((_, values)) = find(&snapshot(), "periodic") else { return };
    assert_near("the total", values.total, 1_000 * (40 + 19), 19.0 * 1_000.0 * (40.0 * 40.0 + 19.0));
}

#[perfmark(page_faults, name = "goes on")]
fn goes_on() -> Snapshot {
    faults(30);
    goes_on_inside()
}

#[perfmark(page_faults, name = "goes on inside")]
fn goes_on_inside() -> Snapshot {
    faults(7);
    snapshot()
}

#[test]
fn the_cost_so_far_of_open_calls_is_reported_separately() {
    if passed_in_own_process() {
        return;
    }
    let values = |snapshot: &Snapshot, name: &str| find(snapshot, name).map(|(_, values)| values);
    let during = goes_on();
    let (Some(outer), Some(inner)) = (values(&during, "goes on"), values(&during, "goes on inside")) else { return };
    assert_eq!((outer.measured, outer.total, inner.total), (0, 0, 0));
    assert!(
        (30..50).contains(&outer.in_flight_self) && (7..100).contains(&inner.in_flight_self),
        "{outer:?} {inner:?}"
    );
    assert_eq!(outer.in_flight_total, outer.in_flight_self + inner.in_flight_total);
    let after = values(&snapshot(), "goes on").expect("as before");
    assert_eq!((after.in_flight_total, after.measured), (0, 1));
    let here = perfmark::threads();
    let mut marks = here.iter().flat_map(|thread| &thread.marks).filter(|mark| mark.name.starts_with("goes on"));
    assert!(marks.all(|mark| mark.in_flight == 0));
}

#[perfmark(page_faults, name = "measures itself")]
fn measures_itself() -> [Snapshot; 3] {
    faults(200);
    let first = snapshot();
    faults(10);
    let second = snapshot();
    faults(20);
    [first, second, snapshot()]
}

#[test]
fn a_span_of_time_has_of_an_open_call_what_it_cost_in_that_span() {
    if passed_in_own_process() {
        return;
    }
    let [first, second, third] = measures_itself();
    let values = |snapshot: &Snapshot| find(snapshot, "measures itself").map(|(_, values)| values.in_flight_self);
    let spans = [first.since(&Snapshot::default()), second.since(&first), third.since(&second), third.since(&first)];
    let [Some(start), Some(one), Some(other), Some(both)] = spans.each_ref().map(values) else { return };
    // Making a snapshot causes faults, too.
    assert!(start >= 200 && (10..150).contains(&one) && (20..150).contains(&other), "{start} {one} {other}");
    assert_eq!(one + other, both);
    let after = snapshot().since(&third);
    assert!(values(&after).is_some_and(|own| own <= -230), "the call ended: {after:?}");
}

#[perfmark(page_faults, every = 3, name = "rarely called")]
fn rarely_called() {
    faults(1);
}

#[test]
fn a_measured_call_that_stands_for_calls_nobody_made_is_flagged() {
    if passed_in_own_process() {
        return;
    }
    let mut before = snapshot();
    let mut flagged = 0;
    for _ in 0..60 {
        rarely_called();
        let now = snapshot();
        let Some((mark, values)) = find(&now.since(&before), "rarely called") else { return };
        if values.measured > 0 {
            assert_eq!((mark.calls, values.weight, values.extrapolated), (1, 3, true), "{values:?}");
            flagged += 1;
        }
        before = now;
    }
    assert!(flagged > 0, "no call was measured");
}

#[perfmark(page_faults, name = "document")]
fn document(elements: usize) {
    faults(5);
    (0..elements).for_each(element);
}

#[perfmark(page_faults, name = "element")]
fn element(n: usize) {
    faults(1);
    (0..n % 4).for_each(attribute);
    text(n);
}

#[perfmark(page_faults, name = "attribute")]
fn attribute(n: usize) {
    faults(2);
    text(n);
}

#[perfmark(page_faults, name = "text")]
fn text(n: usize) {
    faults(1 + n % 3);
}

#[test]
fn self_is_right_and_adds_up_although_all_marks_are_thinned() {
    const DOCUMENTS: i64 = 40;
    const ELEMENTS: i64 = 1_000;
    if passed_in_own_process() {
        return;
    }
    seed(0);
    let filter = ["document", "element", "attribute", "text"].map(|mark| format!("estimates::{mark}=every:16"));
    set(&filter.join(","));
    // One document is a small part of the calls, so all but the first are measured.
    document(2 * usize::try_from(ELEMENTS).expect("few"));
    let before = snapshot();
    (0..DOCUMENTS).for_each(|_| document(usize::try_from(ELEMENTS).expect("few")));
    set_filter(&Filter::default()).expect("it takes no slot");
    let between = snapshot().since(&before);
    let values = ["document", "element", "attribute", "text"].map(|name| find(&between, name));
    let [Some((all, document)), Some((_, element)), Some((_, attribute)), Some((_, text))] = values else { return };
    assert_eq!((all.calls, all.skipped, document.measured), (DOCUMENTS.cast_unsigned(), 0, DOCUMENTS.cast_unsigned()));
    let own = |values: &Values| values.self_sum.expect("known");
    let elements = DOCUMENTS * ELEMENTS;
    // An attribute for 1.5 of the elements, and a text for each of both, whose number is 0, 1 or 2.
    let attributes = elements * 3 / 2;
    let of_attributes = elements / 4 * (1 + 2 + 1 + 2 + 3 + 1);
    let mut wrong = false;
    for (what, values, truth) in [
        ("document", &document, 5 * DOCUMENTS),
        ("element", &element, elements),
        ("attribute", &attribute, 2 * attributes),
        ("text", &text, 2 * elements + of_attributes),
    ] {
        let estimate = own(values);
        println!("{what}: {estimate}, truth {truth}, {} measured", values.measured);
        // A document's own work is a very small part of all.
        let allowed = if what == "document" { document.total / 100 } else { truth / 5 };
        wrong |= estimate < 0 || (estimate - truth).abs() > allowed;
    }
    assert!(!wrong);
    let sum = own(&document) + own(&element) + own(&attribute) + own(&text);
    assert!((sum - document.total).abs() <= document.total / 20, "{sum}, total {}", document.total);
}

#[perfmark(page_faults, name = "much of its own")]
fn much_of_its_own() {
    faults(6);
    in_frequent_bursts();
    in_frequent_bursts();
}

#[perfmark(page_faults, every = 4, name = "in frequent bursts")]
fn in_frequent_bursts() {
    faults(4);
}

#[perfmark(page_faults, every = 4, name = "calls both")]
fn calls_both() {
    faults(3);
    in_frequent_bursts();
    in_rare_bursts();
}

#[perfmark(page_faults, every = 16, name = "in rare bursts")]
fn in_rare_bursts() {
    faults(2);
}

#[test]
fn self_is_right_although_bursts_leave_out_marks_and_warm_up() {
    const CALLS: i64 = 20_000;
    if passed_in_own_process() {
        return;
    }
    let much = |_| much_of_its_own();
    for &(stream, beside) in &[(0, false), (1, true), (2, true)][..if is_full() { 3 } else { 2 }] {
        reset();
        let calls = move || {
            seed(stream);
            if beside {
                // From here on, some bursts leave out marks.
                in_rare_bursts();
            }
            (0..CALLS).for_each(much);
            (0..CALLS).for_each(|_| calls_both());
        };
        thread::spawn(calls).join().expect("does not panic");
        let snapshot = snapshot();
        // A quarter of the bursts has the rare ones.
        for (name, truth, error) in [
            ("much of its own", 6, 0.06),
            ("calls both", 3, 0.06),
            ("in frequent bursts", 3 * 4, 0.06),
            ("in rare bursts", 2, 0.2),
        ] {
            let Some((mark, values)) = find(&snapshot, name) else { return };
            let each = values.self_sum.expect("known") as f64 / CALLS as f64;
            println!(
                "{name}: self {each:.3} a call, truth {truth}; {} calls, {} measured",
                mark.calls, values.measured
            );
            assert!((each / f64::from(truth) - 1.0).abs() <= error, "{name}: {each}, truth {truth}");
        }
    }
}

/// Thinned marks, each of which costs some pages.
macro_rules! thinned {
    ($($every:literal $name:ident $pages:literal;)*) => {
        $(#[perfmark(page_faults, every = $every)]
        fn $name() {
            faults($pages);
        })*
    };
}

thinned! {
    2 ten_pages_often 10;
    64 a_page_rarely 1;
    8 five_pages 5;
    4 a_page 1;
    64 ten_pages_rarely 10;
}

#[perfmark(page_faults, every = 4)]
fn around_many() {
    faults(50);
    (0..100).for_each(|_| a_page());
}

/// Goes down some calls of a mark that is not thinned.
#[perfmark(page_faults)]
fn chain(depth: usize) {
    if depth > 1 {
        chain(depth - 1);
    } else {
        (0..20).for_each(|_| five_pages());
    }
}

/// Marks around them, each with the pages that a call costs itself.
macro_rules! callers {
    ($($name:ident $pages:literal $work:expr;)*) => {
        $(#[perfmark(page_faults)]
        fn $name() {
            $work
        })*
        const CALLERS: &[(&str, fn(), i64)] = &[$((stringify!($name), $name, $pages)),*];
    };
}

callers! {
    of_two_shares 90 for _ in 0..30 {
        ten_pages_often();
        a_page_rarely();
        faults(3);
    };
    of_frequent_bursts 90 for _ in 0..30 {
        ten_pages_often();
        faults(3);
    };
    of_calls_that_outlive_bursts 20 {
        faults(20);
        around_many();
    };
    of_deep_calls 240 for _ in 0..2 {
        chain(50);
        for _ in 0..6 {
            five_pages();
            faults(20);
        }
    };
}

#[test]
fn self_of_callers_is_right_whatever_is_thinned_inside() {
    const CALLS: i64 = 400;
    if passed_in_own_process() {
        return;
    }
    let mut wrong = false;
    let streams = if is_full() { 2 } else { 1 };
    let callers = |stream| CALLERS.iter().map(move |caller| (stream, caller));
    for (stream, &(name, caller, truth)) in (0..streams).flat_map(callers) {
        let calls = move || {
            seed(stream);
            // Before the first burst, nothing is known about the calls inside.
            (0..300).for_each(|_| caller());
            let before = snapshot();
            (0..CALLS).for_each(|_| caller());
            snapshot().since(&before)
        };
        let between = thread::spawn(calls).join().expect("does not panic");
        let Some((_, values)) = find(&between, name) else { return };
        let each = values.self_sum.expect("known") as f64 / CALLS as f64;
        println!("{name}: self {each:.3} a call, truth {truth}; {} estimated", values.estimated);
        wrong |= (each / truth as f64 - 1.0).abs() > 0.06 || values.estimated == 0;
    }
    assert!(!wrong);
}

#[perfmark(page_faults)]
fn on_a_short_thread() {
    faults(5);
    (0..8).for_each(|_| ten_pages_rarely());
}

#[test]
fn a_thread_without_bursts_knows_what_threads_before_it_learned() {
    const THREADS: u64 = 400;
    if passed_in_own_process() {
        return;
    }
    reset();
    for stream in 0..THREADS {
        let calls = move || {
            seed(stream);
            (0..4).for_each(|_| on_a_short_thread());
        };
        thread::spawn(calls).join().expect("does not panic");
    }
    let Some((mark, values)) = find(&snapshot(), "on_a_short_thread") else { return };
    let each = values.self_sum.expect("known") as f64 / mark.calls as f64;
    println!("self {each:.3} a call, truth 5");
    // Before the first burst in it, it is 85.
    assert!((each / 5.0 - 1.0).abs() <= 0.4, "{each}");
}

#[perfmark(page_faults, every = 1_000_000)]
fn in_a_long_gap() {}

#[perfmark(page_faults, every = 2)]
fn ends_the_gap() {}

#[perfmark(page_faults)]
fn around_the_end_of_a_gap() {
    ends_the_gap();
}

#[test]
fn calls_that_a_gap_had_left_when_other_marks_ended_it_were_not_skipped() {
    if passed_in_own_process() {
        return;
    }
    for stream in 0..20 {
        let calls = move || {
            seed(stream);
            (0..3).for_each(|_| in_a_long_gap());
            around_the_end_of_a_gap();
        };
        thread::spawn(calls).join().expect("does not panic");
    }
    let snapshot = snapshot();
    let [around, inside] = ["around_the_end_of_a_gap", "ends_the_gap"].map(|name| find(&snapshot, name));
    let (Some((_, around)), Some((inside, _))) = (around, inside) else { return };
    assert_eq!(around.estimated, inside.skipped, "self is an estimate only if the call inside was skipped");
}

/// What each mark really cost, and the variance of its estimate.
static TRUTH: Mutex<BTreeMap<&str, (i64, f64)>> = Mutex::new(BTreeMap::new());
/// Of the marks below, one call in this many is measured.
static EVERY: Mutex<BTreeMap<&str, u32>> = Mutex::new(BTreeMap::new());

/// The largest `every` that is set. The more calls one counts for, the fewer a sum depends on, and the less normal is
/// the distribution of its error.
const MOST: u32 = 5;

/// Costs that many pages in a call of this mark, inside calls of these.
///
/// Say that one call in k is measured, each by itself. Then a cost contributes its square times k - 1 to the variance
/// of any estimate, or less than that times k for each call around it, of which one in k is measured, too. Calls are
/// measured in bursts, which become longer: so the variance is up to [`IN_BURSTS`] times as large.
fn own(name: &'static str, around: &[&str], pages: usize) {
    faults(pages);
    let every = EVERY.lock().unwrap_or_else(PoisonError::into_inner);
    let every = |name| f64::from(every.get(name).copied().unwrap_or(1));
    let mut truth = TRUTH.lock().unwrap_or_else(PoisonError::into_inner);
    let (sum, variance) = truth.entry(name).or_default();
    *sum += i64::try_from(pages).expect("few");
    *variance += around.iter().map(|&name| every(name)).product::<f64>() * (every(name) - 1.0) * (pages * pages) as f64;
}

#[perfmark(page_faults, name = "outermost")]
fn outermost(random: &mut Random) {
    own("outermost", &[], 10);
    for _ in 0..random.below(4) {
        middle(random);
    }
    innermost(&["outermost"], random);
}

#[perfmark(page_faults, name = "middle")]
fn middle(random: &mut Random) {
    own("middle", &["outermost"], 1 + random.below(3));
    for _ in 0..random.below(5) {
        innermost(&["outermost", "middle"], random);
    }
}

#[perfmark(page_faults, name = "innermost")]
fn innermost(around: &[&str], random: &mut Random) {
    own("innermost", around, 1 + random.below(6));
}

const IN_BURSTS: f64 = 16.0;

const NAMES: [&str; 3] = ["outermost", "middle", "innermost"];

/// The high bits of a linear congruential generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % limit
    }
}

/// Counts and sums of each mark. They can be added.
#[allow(single_use_lifetimes, reason = "`impl Trait` cannot be without")]
fn sums<'a>(marks: impl IntoIterator<Item = &'a Mark>) -> BTreeMap<String, [i64; 8]> {
    let mut sums: BTreeMap<String, [i64; 8]> = BTreeMap::new();
    for mark in marks.into_iter().filter(|mark| NAMES.contains(&&*mark.name)) {
        if let Some(values) = mark.event("page_faults") {
            let buckets: u64 = values.buckets.iter().map(|bucket| bucket.calls).sum();
            assert_eq!(buckets, values.weight);
            let counts = [mark.calls, mark.skipped, values.measured, values.weight, values.estimated];
            let counts = counts.map(u64::cast_signed).into_iter();
            let known = sums.entry(mark.name.clone()).or_default();
            let own = values.self_sum.expect("known");
            for (known, one) in known.iter_mut().zip(counts.chain([values.sum, values.total, own])) {
                *known += one;
            }
        }
    }
    sums
}

#[test]
fn sums_of_parts_equal_the_whole_whatever_is_set_meanwhile() {
    if passed_in_own_process() {
        return;
    }
    for part in 0..4 {
        seed(part);
        let mut random = Random(part);
        reset();
        TRUTH.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let start = snapshot();
        let mut before = start.clone();
        let mut parts: Vec<Snapshot> = Vec::new();
        for _ in 0..60 {
            match random.below(5) {
                0 => {
                    let mut filter = Filter::default();
                    let mut every = EVERY.lock().unwrap_or_else(PoisonError::into_inner);
                    every.clear();
                    for name in NAMES {
                        if random.below(2) == 0 {
                            let one_in = 2 + u32::try_from(random.below(4)).expect("few");
                            assert!(one_in <= MOST);
                            filter = filter.every(&format!("estimates::{name}"), one_in);
                            every.insert(name, one_in);
                        }
                    }
                    drop(every);
                    set_filter(&filter).expect("there are slots");
                }
                1 => {
                    let mut random = Random(random.0);
                    let calls = move || {
                        seed(random.0);
                        (0..30).for_each(|_| outermost(&mut random));
                    };
                    thread::spawn(calls).join().expect("no panic");
                }
                _ => (0..50).for_each(|_| outermost(&mut random)),
            }
            let now = snapshot();
            parts.push(now.since(&before));
            before = now;
        }
        set_filter(&Filter::default()).expect("it takes no slot");
        EVERY.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let whole = snapshot();
        let mut merged = parts.pop().expect("some");
        for part in &parts {
            merged.merge(part);
        }
        assert_eq!(sums(&merged.marks), sums(&whole.marks), "part {part}: parts of time");
        let threads = perfmark::threads();
        let of_threads = sums(threads.iter().flat_map(|thread| &thread.marks));
        assert_eq!(of_threads, sums(&whole.marks), "part {part}: threads");
        assert_eq!(sums(&whole.since(&start).marks), sums(&whole.marks), "part {part}: since the reset");
        let truth = TRUTH.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let variance: f64 = truth.values().map(|(_, variance)| variance).sum();
        for name in NAMES {
            let Some((_, values)) = find(&whole, name) else { return };
            assert_near(name, values.self_sum.expect("known"), truth[name].0, IN_BURSTS * variance);
        }
    }
}

#[perfmark(time, every = 2)]
fn loses_the_cpu() -> Duration {
    lose_the_cpu()
}

/// Runs until other threads had the CPU for long. Returns the time that a value may have that stands for others: on the
/// CPU, or all of it if the thread also waited by itself.
fn lose_the_cpu() -> Duration {
    let (begun, before) = (Instant::now(), usage());
    loop {
        thread::yield_now();
        let (elapsed, now) = (begun.elapsed(), usage());
        let on_cpu = now.0.saturating_sub(before.0);
        if elapsed.saturating_sub(on_cpu) > LONG {
            return if now.1 == before.1 { on_cpu } else { elapsed };
        }
    }
}

#[perfmark(time)]
fn between() -> Duration {
    loses_the_cpu()
}

#[perfmark(time, every = 2)]
fn around_the_loss() -> Duration {
    works();
    between() + OWN
}

/// Needs the CPU for so long.
fn works() {
    let before = usage().0;
    while usage().0.saturating_sub(before) < OWN {}
}

#[perfmark(time, every = 2)]
fn works_after_a_loss() {
    works();
}

const OWN: Duration = Duration::from_micros(200);

#[perfmark(time, every = 2)]
fn waits() {
    thread::sleep(LONG);
}

const LONG: Duration = Duration::from_millis(5);

/// This thread's CPU time, and how often it waited by itself.
fn usage() -> (Duration, i64) {
    // SAFETY: zeroed structures are valid ones, and both calls write one.
    let (time, usage) = unsafe {
        let (mut time, mut usage): (libc::timespec, libc::rusage) = (mem::zeroed(), mem::zeroed());
        assert_eq!(libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time), 0);
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        (time, usage)
    };
    (Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).expect("below a second")), usage.ru_nvcsw)
}

/// A measured call stands for others, which did not lose the CPU.
#[test]
fn time_for_which_other_threads_had_the_cpu_is_in_no_call_that_stands_for_others() {
    if passed_in_own_process() {
        return;
    }
    seed(0);
    move_to(cpus()[0]);
    let done = Arc::new(AtomicBool::new(false));
    let busy = done.clone();
    // It runs on the same CPU.
    let other = thread::spawn(move || while !busy.load(Relaxed) {});
    (0..4).for_each(|_| waits());
    let most = (0..16).map(|_| around_the_loss()).max().expect("some");
    for _ in 0..16 {
        lose_the_cpu();
        works_after_a_loss();
    }
    done.store(true, Relaxed);
    other.join().expect("does not panic");
    let snapshot = snapshot();
    let time = |name: &str| {
        let mark = snapshot.marks.iter().find(|mark| mark.name == name).expect("it is known");
        mark.values[0].clone()
    };
    for name in ["loses_the_cpu", "around_the_loss"] {
        let (values, allowed) = (time(name), most + LONG / 2);
        assert!(u128::from(values.max.expect("some")) < allowed.as_nanos(), "{name}: {values:?}, {allowed:?}");
    }
    let around = time("around_the_loss");
    let own = around.self_sum.expect("known") as f64 / around.weight as f64;
    for (what, least) in [("self", own), ("all", time("works_after_a_loss").min.expect("some") as f64)] {
        assert!(least >= 0.9 * OWN.as_nanos() as f64, "{what}: {least}");
    }
    // A call that is always measured stands for itself, and so do waits of the program's own.
    for name in ["between", "waits"] {
        assert!(u128::from(time(name).min.expect("some")) >= LONG.as_nanos(), "{name}");
    }
}
