//! The attribute on functions of many forms. Each behaves as before, without a warning under the strictest lints.

use std::cmp::Ordering;
use std::fmt::Display;

use perfmark::perfmark;

use crate::marks_of;

/// Doc comments are kept.
#[perfmark]
#[inline]
#[must_use]
fn plain(a: u32, b: u32) -> u32 {
    a + b
}

#[perfmark()]
fn nothing() {}

#[perfmark(time, name = "a name of its own")]
fn named() -> &'static str {
    "named"
}

#[perfmark(cycles, instructions)]
pub(crate) fn generic<T, const N: usize>(items: [T; N]) -> impl Iterator<Item = String>
where
    T: Display,
{
    items.into_iter().map(|item| item.to_string())
}

#[perfmark(time)]
fn early(value: Option<&str>) -> Result<i32, std::num::ParseIntError> {
    #![deny(unused)] // An inner attribute, and a return.
    let Some(value) = value else { return Ok(-1) };
    return Ok(value.parse::<i32>()? + 1);
}

#[perfmark(time)]
fn labels(limit: u32) -> u32 {
    let mut sum = 0;
    'outer: loop {
        for n in 0.. {
            if n + sum > limit {
                break 'outer sum;
            }
            sum += n;
        }
    }
}

#[perfmark(time)]
fn patterns((a, mut b): (u32, u32), [first, ..]: [u32; 3]) -> u32 {
    b += a;
    b + first
}

#[perfmark(time)]
fn never() -> ! {
    panic!("as it should")
}

#[perfmark(time)]
extern "C" fn foreign(n: i32) -> i32 {
    -n
}

#[perfmark(time)]
fn borrows<'a>(one: &'a mut Vec<u32>, _: &str) -> &'a mut u32 {
    one.push(1);
    one.last_mut().expect("just pushed")
}

#[derive(Default)]
struct Store<T> {
    items: Vec<T>,
}

impl<T: Clone> Store<T> {
    #[perfmark(time)]
    pub(crate) fn push(&mut self, item: T) -> usize {
        self.items.push(item);
        self.items.len()
    }

    #[perfmark(time)]
    fn into_items(self) -> Vec<T> {
        self.items
    }
}

trait Shape {
    fn area(&self) -> u32;

    #[perfmark(time)]
    fn double(&self) -> u32 {
        2 * self.area()
    }
}

impl Shape for u32 {
    #[perfmark(time)]
    fn area(&self) -> u32 {
        self * self
    }
}

/// Lints check the bodies of these trait methods.
#[derive(Debug, PartialEq, Eq)]
struct Version(u32);

impl Copy for Version {}

#[expect(clippy::expl_impl_clone_on_copy, reason = "the method is marked")]
impl Clone for Version {
    #[perfmark(time)]
    fn clone(&self) -> Self {
        *self
    }
}

impl Ord for Version {
    #[perfmark(time)]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Version {
    #[perfmark(time)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Only one type can be compared with a `u32`, so the compiler infers what `into` returns. A dependency that adds
/// another type breaks this inference in every program that contains it. perfmark has none, except for criterion, which
/// brings `serde_json`.
#[perfmark(time)]
fn inferred(n: u32, limit: u8) -> bool {
    #[cfg(not(feature = "criterion"))]
    return n == limit.into();
    #[cfg(feature = "criterion")]
    return n == u32::from(limit);
}

/// Exports perfmark under another name, as another crate may.
mod elsewhere {
    pub(crate) use perfmark as measuring;
}

mod user {
    use super::elsewhere::measuring::perfmark as measured;

    #[measured(time, crate = super::elsewhere::measuring)]
    pub(super) fn renamed(n: u32) -> u32 {
        n + 2
    }
}

/// A macro that makes a function, with a fragment in each position.
macro_rules! made {
    ($visibility:vis fn $name:ident($argument:ident: $type:ty) -> $result:ty $body:block) => {
        #[perfmark(time)]
        $visibility fn $name($argument: $type) -> $result $body
    };
}

made! {
    pub(crate) fn by_macro(n: u32) -> u32 {
        n + 1
    }
}

#[test]
fn marked_functions_behave_as_before_and_their_calls_are_counted() {
    assert_eq!(plain(1, 2), 3);
    nothing();
    assert_eq!(named(), "named");
    assert_eq!(generic([1, 2]).collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(generic(["a"]).collect::<Vec<_>>(), ["a"]);
    assert_eq!(user::renamed(1), 3);
    assert_eq!((early(None), early(Some("41"))), (Ok(-1), Ok(42)));
    assert!(early(Some("x")).is_err());
    assert_eq!(labels(10), 10);
    assert_eq!(patterns((1, 2), [3, 4, 5]), 6);
    assert!(std::panic::catch_unwind(|| never()).is_err());
    assert_eq!(foreign(1), -1);
    let mut list = vec![];
    *borrows(&mut list, "") += 1;
    assert_eq!(list, [2]);
    let mut store = Store::default();
    assert_eq!((store.push('a'), store.push('b')), (1, 2));
    assert_eq!(store.into_items(), ['a', 'b']);
    assert_eq!(3_u32.double(), 18);
    #[expect(clippy::clone_on_copy, reason = "the test calls the marked function")]
    let version = Version(1).clone();
    assert!(version < Version(2));
    assert!(inferred(1, 1));
    assert_eq!(by_macro(1), 2);

    let marks = marks_of(module_path!());
    let calls: Vec<_> = marks.iter().map(|mark| (mark.path.as_str(), mark.name.as_str(), mark.calls)).collect();
    if calls.is_empty() {
        return; // This build does not record.
    }
    let expected = [
        ("attribute::basics::plain", "plain", 1),
        ("attribute::basics::nothing", "nothing", 1),
        ("attribute::basics::named", "a name of its own", 1),
        ("attribute::basics::generic", "generic", 2),
        ("attribute::basics::early", "early", 3),
        ("attribute::basics::labels", "labels", 1),
        ("attribute::basics::patterns", "patterns", 1),
        ("attribute::basics::never", "never", 1),
        ("attribute::basics::foreign", "foreign", 1),
        ("attribute::basics::borrows", "borrows", 1),
        ("attribute::basics::Store<_>::push", "push", 2),
        ("attribute::basics::Store<_>::into_items", "into_items", 1),
        ("attribute::basics::Shape::double", "double", 1),
        ("<u32 as attribute::basics::Shape>::area", "area", 1),
        ("<attribute::basics::Version as core::clone::Clone>::clone", "clone", 1),
        ("<attribute::basics::Version as core::cmp::Ord>::cmp", "cmp", 1),
        ("<attribute::basics::Version as core::cmp::PartialOrd>::partial_cmp", "partial_cmp", 1),
        ("attribute::basics::inferred", "inferred", 1),
        ("attribute::basics::user::renamed", "renamed", 1),
        ("attribute::basics::by_macro", "by_macro", 1),
    ];
    assert_eq!(calls, expected, "in the order of the source");
}
