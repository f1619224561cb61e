//! Generics, `impl Trait`, `dyn` and lifetimes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::iter;
use std::marker::PhantomData;

use perfmark::perfmark;

#[derive(Debug, PartialEq, Eq)]
struct Row<const N: usize>([u8; N]);

/// Braces in types are not the body.
#[perfmark(time)]
fn braces_in_types<const N: usize>(Row(row): Row<{ N }>) -> Row<{ 1 + 1 }>
where
    Row<{ N }>: Debug,
    [u8; 3 - 1]: Sized,
{
    Row([row[0], row[N - 1]])
}

#[perfmark(time)]
fn const_arguments<const IS_UP: bool, const STEP: char, const BY: i32>(n: i32) -> (i32, char) {
    (if IS_UP { n + BY } else { n - BY }, STEP)
}

#[perfmark(time)]
fn bounds<'text: 'part, 'part, T, K: Ord + Copy + 'static, F>(
    items: &'text [T],
    key: F,
    _: &'text str,
) -> BTreeMap<K, &'part T>
where
    T: Debug + Into<u64> + Clone,
    F: for<'any> Fn(&'any T) -> K,
    for<'any> &'any T: Debug,
{
    items.iter().map(|item| (key(item), item)).collect()
}

#[perfmark(time)]
fn takes_impl(items: impl IntoIterator<Item = impl Display>, mut end: impl FnMut(&str) -> usize) -> usize {
    items.into_iter().map(|item| end(&item.to_string())).sum()
}

#[perfmark(time)]
fn gives_impl<'a, T: Clone>(item: &'a T, count: &str) -> impl Iterator<Item = T> + use<'a, T> {
    iter::repeat_n(item.clone(), count.len())
}

#[perfmark(time)]
fn gives_closure(by: u32) -> impl Fn(u32) -> Box<dyn FnOnce(u32) -> u32> {
    move |n| Box::new(move |m| by * n + m)
}

/// The compiler learns from the result's type what the closure's is.
#[perfmark(time)]
fn gives_closure_of_references() -> impl Fn(&str) -> &str {
    |text| text.trim()
}

#[perfmark(time)]
fn dynamic(all: &mut [&mut dyn FnMut(&str) -> usize], any: &dyn Debug) -> Vec<usize> {
    let text = format!("{any:?}");
    all.iter_mut().map(|each| each(&text)).collect()
}

#[perfmark(time)]
fn pointers(f: fn(&str) -> Option<&str>, g: for<'a> fn(&'a u8, &u8) -> &'a u8) -> impl Fn() -> (usize, u8) {
    move || (f("text").map_or(0, str::len), *g(&1, &2))
}

#[perfmark(time)]
fn elided(text: &str) -> Cow<'_, str> {
    if text.is_empty() { "empty".into() } else { text.into() }
}

#[perfmark(time)]
fn no_lifetime_left(text: &'static str) -> (&'static str, PhantomData<fn() -> &'static ()>) {
    (text, PhantomData)
}

struct Stack<T, const N: usize = 4> {
    items: Vec<T>,
}

impl<T: Clone, const N: usize> Stack<T, N> {
    /// Beside marked functions.
    const SIZE: usize = N;

    const fn new() -> Self {
        Self { items: Vec::new() }
    }

    #[perfmark(time)]
    fn push<'a, U: ?Sized>(&mut self, item: &'a U) -> Option<&'a U>
    where
        T: From<&'a U>,
    {
        if self.items.len() == Self::SIZE {
            return None;
        }
        self.items.push(T::from(item));
        Some(item)
    }
}

#[test]
fn generic_functions_behave_as_before() {
    assert_eq!(braces_in_types(Row([1, 2, 3])), Row([1, 3]));
    assert_eq!(const_arguments::<true, 'x', 2>(1), (3, 'x'));
    assert_eq!(const_arguments::<false, 'y', { 1 + 1 }>(1), (-1, 'y'));
    let map = bounds(&[3_u8, 4], |&n| n % 2, "");
    assert_eq!(map, BTreeMap::from([(1, &3), (0, &4)]));
    assert_eq!(takes_impl([10, 200], str::len), 5);
    assert_eq!(gives_impl(&'a', "any").collect::<String>(), "aaa");
    assert_eq!((gives_closure(2)(3)(4), gives_closure_of_references()(" 7 ")), (10, "7"));
    assert_eq!(dynamic(&mut [&mut str::len, &mut |text| text.len() + 1], &Some(1)), [7, 8]);
    assert_eq!(pointers(|text| text.strip_prefix('t'), |one, _| one)(), (3, 1));
    assert_eq!((elided("").len(), elided("a").len(), no_lifetime_left("a").0), (5, 1, "a"));
    let mut stack = Stack::<String, 1>::new();
    assert_eq!((stack.push("a"), stack.push("b")), (Some("a"), None));
    crate::assert_calls(&[
        ("generics::braces_in_types", 1),
        ("generics::const_arguments", 2),
        ("generics::bounds", 1),
        ("generics::takes_impl", 1),
        ("generics::gives_impl", 1),
        ("generics::gives_closure", 1),
        ("generics::gives_closure_of_references", 1),
        ("generics::dynamic", 1),
        ("generics::pointers", 1),
        ("generics::elided", 2),
        ("generics::no_lifetime_left", 1),
    ]);
}
