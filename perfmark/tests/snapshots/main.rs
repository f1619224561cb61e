//! Differences between snapshots, merged snapshots, and resets.
#![cfg(feature = "record")]

#[path = "../alone/mod.rs"]
mod alone;

mod resets;

use std::hint::black_box;
use std::thread;

use alone::passed_in_own_process;
use perfmark::{Bucket, Mark, Read, Snapshot, Values, perfmark, snapshot};

#[perfmark(time, page_faults)]
fn work(rounds: u64) -> u64 {
    (0..rounds).map(black_box).map(|n| n & 1).sum()
}

#[perfmark(time, every = 4)]
fn outer(rounds: u64) {
    for n in 0..rounds % 3 {
        work(n);
    }
}

#[perfmark(time)]
fn fails() {
    panic!("on purpose");
}

fn some_work(seed: u64) {
    for n in 0..200 {
        outer(n);
        work((n * seed) % 5_000);
    }
    assert!(std::panic::catch_unwind(fails).is_err());
}

fn mark<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Mark {
    snapshot.marks.iter().find(|mark| mark.name == name).expect("it is known")
}

/// All values that only grow.
fn counts(mark: &Mark) -> Vec<u64> {
    let values =
        mark.values.iter().flat_map(|values| [values.measured, values.weight, values.unmeasured, values.scaled]);
    let buckets = mark.values.iter().flat_map(|values| &values.buckets);
    let buckets = buckets.flat_map(|bucket| [bucket.low, bucket.high, bucket.calls]);
    [mark.calls, mark.unwound, mark.skipped, mark.polls, mark.interrupted]
        .into_iter()
        .chain(values)
        .chain(buckets)
        .collect()
}

/// Checks the quantiles, which are the middles of buckets within the range.
fn assert_sound(values: &Values) {
    assert_eq!(values.buckets.iter().map(|bucket| bucket.calls).sum::<u64>(), values.weight);
    let quantiles = [values.min, values.p50, values.p90, values.p99, values.p999, values.max];
    assert!(quantiles.is_sorted(), "{quantiles:?}");
    assert_eq!(quantiles.iter().flatten().count(), if values.measured > 0 { quantiles.len() } else { 0 });
    let asked = [0.5, 0.9, 0.99, 0.999].map(|part| values.quantile(part));
    assert_eq!(asked, [values.p50, values.p90, values.p99, values.p999]);
    let asked = [f64::NEG_INFINITY, 0.0, 0.3, 0.95, 1.0, f64::INFINITY].map(|part| values.quantile(part));
    assert!(asked.is_sorted() && asked[5] <= values.max && asked[0] >= values.min, "{asked:?}");
}

#[test]
fn a_snapshot_and_its_difference_to_a_later_one_add_up_to_the_later_one() {
    if passed_in_own_process() {
        return;
    }
    some_work(3);
    let before = snapshot();
    some_work(7);
    thread::spawn(|| some_work(11)).join().expect("no panic");
    let after = snapshot();
    let between = after.since(&before);
    assert_eq!(between.notes, after.notes);
    assert_eq!((mark(&between, "work").calls, mark(&between, "fails").unwound), (2 * 399, 2));
    assert_eq!(between.wall_ns, after.wall_ns - before.wall_ns);
    let mut both = before.clone();
    both.merge(&between);
    for (one, two) in both.marks.iter().zip(&after.marks) {
        assert!(counts(one) == counts(two), "{one:?} {two:?}");
        let name = &one.name;
        for (one, two) in one.values.iter().zip(&two.values) {
            assert_eq!((one.min, one.max), (two.min, two.max), "{}", one.event);
            let sums = |values: &Values| (values.sum, values.total, values.self_sum, values.unwound_total);
            assert!(name == "alike" || sums(one) == sums(two), "{name}: {one:?} {two:?}");
            assert_sound(one);
        }
    }
    between.marks.iter().flat_map(|mark| &mark.values).for_each(assert_sound);
    let nothing = after.since(&after);
    assert!(nothing.marks.iter().all(|mark| mark.calls == 0 && mark.values.iter().all(|values| values.mean.is_none())));
    nothing.marks.iter().flat_map(|mark| &mark.values).for_each(assert_sound);
}

#[test]
fn a_later_snapshot_or_one_of_another_process_is_not_subtracted() {
    if passed_in_own_process() {
        return;
    }
    let (before, after) = (snapshot(), {
        some_work(2);
        snapshot()
    });
    let difference = before.since(&after);
    assert_eq!(difference.marks, before.marks);
    assert!(
        difference.notes.last().is_some_and(|note| note.contains("the other snapshot is later than this one")),
        "{:?}",
        difference.notes
    );
    let mut other = before.clone();
    other.pid += 1;
    let mut with_more = before;
    with_more.marks.iter_mut().for_each(|mark| mark.calls += 1_000_000);
    let both = format!("the other snapshot is of process {}, and this one of process {}", other.pid, after.pid);
    for (other, why) in [(other, &*both), (with_more, "the other snapshot has calls that this one does not have")] {
        let difference = after.since(&other);
        assert_eq!(difference.marks, after.marks);
        assert!(difference.notes.last().is_some_and(|note| note.ends_with(why)), "{:?}", difference.notes);
    }
}

#[test]
fn snapshots_of_several_processes_are_merged() {
    if passed_in_own_process() {
        return;
    }
    some_work(5);
    let one = snapshot();
    let mut other = one.clone();
    (other.pid, other.threads) = (one.pid + 1, 3);
    // A machine whose ticks are a little longer; a mark that the first does not know.
    for values in other.marks.iter_mut().flat_map(|mark| &mut mark.values).filter(|values| values.event == "time") {
        values.buckets.iter_mut().for_each(|bucket| (bucket.low, bucket.high) = (bucket.low + 1, bucket.high + 1));
    }
    let mut unknown = mark(&one, "work").clone();
    unknown.name = "unknown".into();
    other.marks.push(unknown.clone());
    let mut both = Snapshot::default();
    both.merge(&one);
    both.merge(&other);
    assert_eq!((both.threads, both.pid), (one.threads + 3, one.pid));
    assert_eq!(mark(&both, "unknown"), &unknown);
    for before in one.marks.iter().filter(|mark| mark.name != "alike") {
        let after = mark(&both, &before.name);
        assert_eq!(
            (after.calls, after.unwound, after.skipped),
            (2 * before.calls, 2 * before.unwound, 2 * before.skipped)
        );
        for (before, after) in before.values.iter().zip(&after.values) {
            assert_eq!((after.measured, after.sum), (2 * before.measured, 2 * before.sum));
            assert_sound(after);
            let wide = &after.buckets;
            for (before, after) in [(before.p50, after.p50), (before.p99, after.p99)] {
                // The width of the value's bucket, where a tick is long, and 1/32.
                let width = |value: u64| {
                    let of_value = |bucket: &&Bucket| (bucket.low..=bucket.high + 1).contains(&value);
                    wide.iter().filter(of_value).map(|bucket| bucket.high - bucket.low + 1).max().unwrap_or(0)
                };
                let near = |(before, after): (u64, u64)| before.abs_diff(after) <= before / 32 + width(before) + 1;
                assert!(before.zip(after).is_none_or(near), "{before:?} {after:?}");
            }
        }
    }
}

#[test]
fn an_empty_snapshot_changes_nothing_in_a_merged_one() {
    let one = snapshot();
    let mut merged = one.clone();
    merged.merge(&Snapshot::default());
    assert_eq!(merged, one);
}

#[test]
fn merging_loses_no_call_of_a_snapshot_that_a_program_builds_itself() {
    let built = |calls| {
        let (mut built, mut mark) = (Snapshot::default(), Mark::default());
        mark.calls = calls;
        built.marks = vec![mark];
        built
    };
    let (mut total, mut one) = (Snapshot::default(), built(1));
    total.merge(&one);
    assert_eq!(total, one);
    one.merge(&built(2));
    assert_eq!(one, built(3));
}

#[test]
fn merged_snapshots_of_several_versions_of_perfmark_say_so() {
    let one = snapshot();
    assert_eq!(one.perfmark, env!("CARGO_PKG_VERSION"));
    let merged = |versions: [&str; 3]| {
        let mut all = Snapshot::default();
        for version in versions {
            let mut other = one.clone();
            version.clone_into(&mut other.perfmark);
            all.merge(&other);
        }
        all.notes.retain(|note| !one.notes.contains(note));
        (all.perfmark, all.notes)
    };
    assert_eq!(merged(["0.1.0"; 3]), ("0.1.0".to_owned(), vec![]));
    let note = "perfmark 0.1.0 recorded some of the values, and 0.2.0 others".to_owned();
    assert_eq!(merged(["0.1.0", "0.2.0", "0.2.0"]), ("0.1.0".to_owned(), vec![note]));
    assert_eq!(merged(["0.1.0", "", "0.1.0"]), ("0.1.0".to_owned(), vec![]), "reports without a version");
}

#[test]
fn a_merged_snapshot_blames_no_wrong_process_for_an_event_that_was_not_counted() {
    let of = |pid, read, reason: Option<&str>| {
        let mut event = perfmark::Event::default();
        (event.name, event.read, event.reason) = ("cycles".into(), read, reason.map(str::to_owned));
        let mut one = Snapshot::default();
        (one.pid, one.events) = (pid, vec![event]);
        one
    };
    let lacks = |pid| of(pid, Read::None, Some("no PMU"));
    let mut all = Snapshot::default();
    for one in [&lacks(1), &lacks(2), &of(3, Read::User, None), &lacks(4)] {
        all.merge(one);
    }
    assert_eq!(all.notes, ["cycles: not counted in some processes: no PMU"]);
}

#[test]
fn calls_of_a_process_that_lacked_an_event_are_unmeasured_in_it() {
    if passed_in_own_process() {
        return;
    }
    some_work(5);
    let one = snapshot();
    let mut other = one.clone();
    other.pid += 1;
    let names = other.events.iter_mut().map(|event| &mut event.name);
    names
        .chain(other.marks.iter_mut().flat_map(|mark| &mut mark.values).map(|values| &mut values.event))
        .for_each(|name| name.push_str("-too"));
    for (first, second) in [(&one, &other), (&other, &one)] {
        let mut both = first.clone();
        both.merge(second);
        for mark in both.marks.iter().filter(|mark| mark.calls > 0) {
            assert!(mark.values.len() >= 2, "{mark:?}");
            for values in &mark.values {
                let all = values.measured + values.unmeasured + mark.unwound + mark.cancelled + mark.skipped;
                assert_eq!((all, values.extrapolated), (mark.calls, values.unmeasured + mark.skipped > 0), "{mark:?}");
            }
        }
        let before = &mark(&one, "work").values[0];
        let after = mark(&both, "work").values.iter().find(|values| values.event == before.event).expect("it is there");
        // A call that was not measured is in no sum.
        assert_eq!((after.sum, after.total), (before.sum, before.total));
    }
    let mut graph = one.clone();
    let mut node = perfmark::Node::default();
    node.calls = 1;
    graph.call_graph = vec![node];
    graph.merge(&other);
    assert_eq!(
        graph.call_graph_lacks,
        other.marks.iter().map(|mark| mark.calls - mark.unwound - mark.cancelled - mark.skipped).sum::<u64>()
    );
}

#[test]
fn marks_that_a_macro_makes_alike_stay_separate() {
    macro_rules! alike {
        ($($n:literal)*) => { $(for _ in 0..$n { perfmark::region!("alike", time, {}); })* };
    }
    alike!(1 20);
    let before = snapshot();
    alike!(3 5);
    let after = snapshot();
    let calls = |snapshot: &Snapshot| {
        let mut calls: Vec<u64> =
            snapshot.marks.iter().filter(|mark| mark.name == "alike").map(|mark| mark.calls).collect();
        calls.sort_unstable();
        calls
    };
    assert_eq!(calls(&after), [1, 3, 5, 20]);
    let mut both = after.since(&before);
    assert_eq!(calls(&both), [0, 0, 3, 5]);
    both.merge(&before);
    assert_eq!(calls(&both), [1, 3, 5, 20]);
}

#[test]
fn running_threads_are_reported_one_by_one_and_ended_ones_together() {
    #[perfmark(time)]
    fn by_thread() {}
    let calls = |threads: &[perfmark::Thread]| -> Vec<(Option<String>, u64)> {
        let of = |thread: &perfmark::Thread| {
            let mark = thread.marks.iter().find(|mark| mark.name == "by_thread")?;
            Some((thread.name.clone().filter(|_| thread.id.is_some()), mark.calls))
        };
        let mut calls: Vec<_> = threads.iter().filter_map(of).collect();
        calls.sort();
        calls
    };
    let (counted, go_on) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    thread::scope(|scope| {
        let named = || thread::Builder::new().name("named".into());
        named().spawn_scoped(scope, || (0..3).for_each(|_| by_thread())).expect("started").join().expect("no panic");
        let running = named()
            .spawn_scoped(scope, || {
                (0..5).for_each(|_| by_thread());
                counted.wait();
                go_on.wait();
                by_thread();
            })
            .expect("started");
        counted.wait();
        let threads = perfmark::threads();
        let name = if cfg!(target_os = "linux") { Some("named".to_owned()) } else { None };
        assert_eq!(calls(&threads), [(None, 3), (name, 5)]);
        assert!(threads.iter().filter_map(|thread| thread.id).is_sorted_by(|one, two| one != two));
        go_on.wait();
        // The end of the scope does not wait for the end of the thread itself.
        running.join().expect("no panic");
    });
    assert_eq!(calls(&perfmark::threads()), [(None, 9)]);
}

#[test]
fn what_threads_first_calls_and_ends_take_is_in_the_overhead() {
    #[perfmark(time)]
    fn of_thread() {}
    // The process's own setup is not included.
    of_thread();
    let before = snapshot();
    (0..20).for_each(|_| thread::spawn(of_thread).join().expect("no panic"));
    let between = snapshot().since(&before);
    let of_marks: u64 = between.marks.iter().filter_map(|mark| mark.overhead_ns).sum();
    assert!(between.overhead_ns.expect("time is recorded") > of_marks, "{between:?}");
}

#[test]
fn impossible_snapshots_cause_no_panic() {
    if passed_in_own_process() {
        return;
    }
    some_work(2);
    let one = snapshot();
    let mut odd = one.clone();
    for mark in &mut odd.marks {
        (mark.calls, mark.in_flight, mark.unwound) = (u64::MAX, u64::MAX, u64::MAX);
        for values in &mut mark.values {
            (values.sum, values.measured, values.min, values.max) = (i64::MAX, u64::MAX, Some(9), Some(3));
            values.buckets = [(9, 3, u64::MAX), (0, u64::MAX, u64::MAX), (9, 3, 1)].map(Bucket::from).into();
            values.self_sum = None;
        }
    }
    odd.threads = u64::MAX;
    let mut both = odd.clone();
    both.merge(&one);
    both.merge(&odd);
    for snapshot in [&one, &odd, &both] {
        for earlier in [&one, &odd, &both, &Snapshot::default()] {
            let between = snapshot.since(earlier);
            assert!(!perfmark::Report::new(&between).to_string().is_empty());
            let values = between.marks.iter().flat_map(|mark| &mark.values);
            values.for_each(|values| assert_eq!(values.quantile(f64::NAN), values.quantile(0.0)));
        }
    }
}
