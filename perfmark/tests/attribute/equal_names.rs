//! `generic` gives types of one name a row each.
#![cfg(feature = "record")]

use std::collections::BTreeMap;

use perfmark::perfmark;

#[perfmark(time, generic)]
fn call<F: Fn() -> u8>(work: F) -> u8 {
    work()
}

#[perfmark(time, generic)]
fn work_on<T>(_: T) {}

/// The calls of the rows with that path, by the ends of their names.
fn rows(path: &str) -> BTreeMap<String, u64> {
    let snapshot = perfmark::snapshot();
    let rows = snapshot.marks.iter().zip(snapshot.names()).filter(|(mark, _)| mark.path.starts_with(path));
    rows.map(|(mark, name)| (name.rsplit(' ').next().unwrap_or_default().to_owned(), mark.calls)).collect()
}

#[test]
fn types_of_one_name_have_a_row_each() {
    let jobs = || rows("attribute::equal_names::work_on<attribute::equal_names::");
    {
        struct Job;
        work_on(Job);
    }
    assert_eq!(jobs().len(), 1);
    let before = perfmark::snapshot();
    {
        struct Job;
        (0..4).for_each(|_| work_on(Job));
    }
    let calls = |rows: BTreeMap<String, u64>| -> Vec<u64> { rows.into_values().collect() };
    assert!(jobs().into_keys().eq(["#1", "#2"]) && [[1, 4], [4, 1]].contains(&[calls(jobs())[0], calls(jobs())[1]]));
    let between = perfmark::snapshot().since(&before);
    let between = between.marks.iter().filter(|mark| mark.path.contains("work_on<attribute::equal_names"));
    let mut between: Vec<u64> = between.map(|mark| mark.calls).collect();
    between.sort_unstable();
    assert_eq!(between, [0, 4], "each type is compared with itself");

    let (one, two) = (|| 1, || 2);
    assert_eq!((call(one), call(two), call(two)), (1, 2, 2));
    let mut calls = calls(rows("attribute::equal_names::call<"));
    calls.sort_unstable();
    assert_eq!(calls, [1, 2]);
}

#[test]
fn types_that_differ_in_lifetimes_alone_have_one_row() {
    fn work_on_a_part(text: &str) {
        work_on(&text[1..]);
    }
    work_on("static");
    work_on_a_part(&String::from("short"));
    assert_eq!(rows("attribute::equal_names::work_on<&str>").into_values().collect::<Vec<_>>(), [2]);
}
