//! Names in the table are filters: each selects exactly its mark. As the guide says, commas and spaces in the name of a
//! region are escaped (`\u{2c}`, `\u{20}`).

#![forbid(unsafe_code)]
#![deny(warnings, clippy::pedantic)]
#![cfg(feature = "record")]

use std::pin::pin;
use std::task::{Context, Waker};

use perfmark::{Filter, Report, perfmark, region};

mod left {
    #[perfmark::perfmark(time)]
    pub(super) fn run() {
        perfmark::region!("part", time, {});
        perfmark::region!("left, only", time, {});
    }
}

mod right {
    #[perfmark::perfmark(time)]
    pub(super) fn run() {
        perfmark::region!("part", time, {});
    }

    #[perfmark::perfmark(time)]
    pub(super) async fn later() {}
}

struct Words(u8);
struct Lines(u8);

impl Words {
    #[perfmark(time)]
    fn next(&mut self) -> u8 {
        self.0
    }
}

impl Iterator for Lines {
    type Item = u8;

    #[perfmark(time)]
    fn next(&mut self) -> Option<u8> {
        Some(self.0)
    }
}

trait Load {
    fn load(&self) -> u8;

    #[perfmark(time)]
    fn reload(&self) -> u8 {
        self.load()
    }
}

trait Store {
    fn load(&self) -> u8;
}

impl Load for Words {
    #[perfmark(time)]
    fn load(&self) -> u8 {
        self.0
    }
}

impl Store for Words {
    #[perfmark(time)]
    fn load(&self) -> u8 {
        self.0
    }
}

struct Table<T>(T);

impl Table<u8> {
    #[perfmark(time)]
    fn get(&self) -> u8 {
        self.0
    }
}

impl Table<u16> {
    #[perfmark(time)]
    fn get(&self) -> u16 {
        self.0
    }
}

#[perfmark(time, generic)]
fn sum<T: Copy + Into<u64>>(values: &[T]) -> u64 {
    values.iter().map(|&value| value.into()).sum()
}

#[perfmark(time)]
fn run() {
    #[perfmark(time)]
    fn part() {}
    part();
    let _guard = region!("a guard", time);
}

#[perfmark(time)]
async fn later() {}

fn call_all() {
    left::run();
    right::run();
    run();
    let mut words = Words(1);
    assert_eq!((words.next(), Lines(1).next()), (1, Some(1)));
    assert_eq!((Load::load(&words), Store::load(&words), words.reload()), (1, 1, 1));
    assert_eq!((Table(1_u8).get(), Table(1_u16).get()), (1, 1));
    assert_eq!((sum(&[1_u8]), sum(&[1_u16]), sum(&[1_u32])), (1, 1, 1));
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(later()).poll(&mut context).is_ready() && pin!(right::later()).poll(&mut context).is_ready());
}

/// The calls of each mark so far.
fn calls() -> Vec<u64> {
    perfmark::snapshot().marks.iter().map(|mark| mark.calls).collect()
}

#[test]
fn each_name_in_the_table_is_a_filter_that_selects_exactly_its_mark() {
    // Types of generic functions become marks when they are called.
    call_all();
    let snapshot = perfmark::snapshot();
    let names = snapshot.names();
    assert_eq!(names.len(), 20, "{names:?}");
    assert!(calls().iter().all(|&calls| calls > 0), "{names:?}");
    let table = Report::new(&snapshot).width(200).top(100).to_string();
    for (index, name) in names.iter().enumerate() {
        let rows = table.lines().filter(|line| line.starts_with(&format!("{name} ")));
        assert_eq!(rows.count(), 1, "{name} in {table}");
        let by_number = name.replace(',', "\\u{2c}").replace(' ', "\\u{20}");
        let written = if name.contains('<') { name } else { &by_number };
        perfmark::set_filter(&written.parse::<Filter>().expect("a filter")).expect("no mark is measured now");
        let before = calls();
        call_all();
        let now = calls();
        let called: Vec<&String> = (0..names.len()).filter(|&n| now[n] > before[n]).map(|n| &names[n]).collect();
        assert_eq!(called, [&names[index]]);
    }
}
