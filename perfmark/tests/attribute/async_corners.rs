//! Async functions whose names and shapes are close to those of the attribute's expansion.

use std::fmt::{Debug, Display};
use std::future::{Future, ready};
use std::pin::Pin;

use perfmark::perfmark;

use crate::executor::run;
use crate::marks_of;

#[expect(non_upper_case_globals, dead_code, reason = "the name is the test")]
static future: u8 = 1;

mod private {
    macro_rules! mark {
        ($n:expr) => {
            return $n
        };
    }
    pub(crate) use mark;
}

#[derive(Clone, Copy)]
struct Pair(u8, u8);

#[perfmark(time)]
async fn arguments(__arg1: Pair, Pair(a, b): Pair) -> (u8, u8, u8) {
    ready((a, b, __arg1.0)).await
}

#[perfmark(time)]
async fn array() -> [impl Debug; 2] {
    ready([1, 2]).await
}

#[perfmark(time)]
async fn reference() -> &'static (impl Display + Sync) {
    ready(&7).await
}

#[perfmark(time)]
fn own_macro(n: u8) -> u8 {
    if n > 1 {
        private::mark!(n);
    }
    0
}

type Boxed = Pin<Box<dyn Future<Output = u8>>>;

#[perfmark(time)]
fn handler() -> impl Fn(u8) -> Boxed {
    |n| Box::pin(async move { n })
}

#[perfmark(time, generic)]
async fn never_polled<T>(value: T) -> T {
    ready(value).await
}

#[test]
fn programs_may_use_the_names_and_shapes_of_the_expansion() {
    assert_eq!(run(arguments(Pair(3, 3), Pair(1, 2))), (1, 2, 3));
    assert_eq!(format!("{:?} {}", run(array()), run(reference())), "[1, 2] 7");
    assert_eq!((own_macro(2), own_macro(0)), (2, 0));
    let handler = handler();
    assert_eq!((run(handler(1)), run(handler(2))), (1, 2));
    drop(never_polled(1));
    if !cfg!(feature = "record") {
        return;
    }
    let mut marks: Vec<_> =
        marks_of(module_path!()).into_iter().map(|mark| (mark.name, mark.calls, mark.polls)).collect();
    marks.sort();
    let expected = [
        ("arguments", 1, 1),
        ("array", 1, 1),
        ("handler", 1, 0),
        ("never_polled", 0, 0),
        ("own_macro", 2, 0),
        ("reference", 1, 1),
    ];
    assert_eq!(marks, expected.map(|(name, calls, polls)| (name.to_owned(), calls, polls)));
}
