//! Names in the table are filters: each selects exactly its mark. As the guide says, commas and spaces in the name of a
//! region are escaped (`\u{2c}`, `\u{20}`).

#![forbid(unsafe_code)]
#![deny(warnings, clippy::pedantic)]
#![allow(clippy::unused_async, reason = "some calls end in their first poll")]
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

/// Implemented for types of every form, by a method that only its type distinguishes.
trait Area {
    fn area(&self) -> u8;
}

macro_rules! areas {
    ($($type:ty)*) => {
        $(impl Area for $type {
            #[perfmark(time)]
            fn area(&self) -> u8 {
                1
            }
        })*
    };
}

struct Wide<const N: usize>;
struct With<T: ?Sized>(Box<T>);

areas! {
    () (u8,) (u8, u16) [u8; 4] [u16] str &str &mut u8 *const u8 fn(u8) -> u8 fn() fn(&str, u8) -> Vec<u8>
    unsafe extern "C" fn(u8) Box<dyn Fn(u8) -> u8> dyn Load dyn Store + Send Option<(u8, u16)> Wide<4> Wide<{ 1 + 1 }>
    With<dyn Load> With<[u8]> With<fn(u8) -> u8> std::vec::IntoIter<u8> <Lines as Iterator>::Item
}

fn call_areas() -> u8 {
    fn of(area: &(impl Area + ?Sized)) -> u8 {
        area.area()
    }
    let (lines, mut one) = (Lines(1), 1_u8);
    let tuples = of(&()) + of(&(1,)) + of(&(1, 2)) + of(&Some((1, 2))) + of(&lines.0);
    let slices = of(&[1; 4]) + of(&[1_u16][..]) + of("") + of(&"") + of(&&mut one) + of(&std::ptr::null());
    let functions = of(&(id as fn(u8) -> u8)) + of(&((|| ()) as fn())) + of(&(pair as fn(&str, u8) -> Vec<u8>));
    let boxed: Box<dyn Fn(u8) -> u8> = Box::new(id);
    let objects = of(&(foreign as unsafe extern "C" fn(u8))) + of(&boxed) + of(&Words(1) as &dyn Load);
    let objects = objects + of(&Words(1) as &(dyn Store + Send));
    let sized = of(&Wide::<4>) + of(&Wide::<2>) + of(&With::<dyn Load>(Box::new(Words(1))));
    let sized = sized + of(&With::<[u8]>(Box::new([1]))) + of(&With(Box::new(id as fn(u8) -> u8)));
    tuples + slices + functions + objects + sized + of(&vec![1_u8].into_iter())
}

fn id(n: u8) -> u8 {
    n
}

fn pair(text: &str, n: u8) -> Vec<u8> {
    vec![n; text.len()]
}

extern "C" fn foreign(_: u8) {}

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
    assert_eq!(call_areas(), 24);
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
    assert_eq!(names.len(), 44, "{names:?}");
    assert!(calls().iter().all(|&calls| calls > 0), "{names:?}");
    let table = Report::new(&snapshot).width(200).top(100).to_string();
    for (index, name) in names.iter().enumerate() {
        let rows = table.lines().filter(|line| line.starts_with(&format!("{name} ")));
        assert_eq!(rows.count(), 1, "{name} in {table}");
        let by_number = name.replace(',', "\\u{2c}").replace(' ', "\\u{20}");
        let is_of_region = ["left, only", "a guard"].contains(&&**name);
        let written = if is_of_region { &by_number } else { name };
        perfmark::set_filter(&written.parse::<Filter>().expect("a filter")).expect("no mark is measured now");
        let before = calls();
        call_all();
        let now = calls();
        let called: Vec<&String> = (0..names.len()).filter(|&n| now[n] > before[n]).map(|n| &names[n]).collect();
        assert_eq!(called, [&names[index]]);
    }
}
