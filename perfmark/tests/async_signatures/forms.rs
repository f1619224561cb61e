//! Marked async functions of many forms, in words of any edition from 2018 on.

#![allow(dead_code, reason = "some who include it only want to know that it is compiled")]
#![allow(clippy::uninlined_format_args, reason = "older editions")]

use std::cell::Cell;
use std::convert::TryFrom as _;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::future::{Future, ready};
use std::marker::PhantomData;
use std::num::ParseIntError;
use std::rc::Rc;
use std::str::Split;
use std::sync::Mutex;

use perfmark::perfmark;

// Lifetimes.

#[perfmark(time)]
pub(crate) async fn elided(text: &str) -> &str {
    ready(()).await;
    text.trim()
}

#[perfmark(time)]
pub(crate) async fn named<'a>(one: &'a str, other: &str) -> &'a str {
    ready(other).await;
    one
}

#[perfmark(time)]
pub(crate) async fn two<'a, 'b: 'a>(words: &'a mut Vec<&'b str>, word: &'b str) -> &'a mut &'b str {
    words.push(word);
    ready(()).await;
    &mut words[0]
}

#[perfmark(time)]
pub(crate) async fn of_static(n: usize) -> &'static str {
    ready(["zero", "one"][n]).await
}

#[perfmark(time)]
pub(crate) async fn anonymous(words: Split<'_, char>) -> Vec<&str> {
    ready(words.collect()).await
}

#[perfmark(time)]
pub(crate) async fn functions(one: fn(&str) -> &str, other: impl for<'x> Fn(&'x str) -> &'x str, text: &str) -> &str {
    ready(()).await;
    other(one(text))
}

#[perfmark(time)]
pub(crate) async fn unnamed_in_results(text: &str) -> Result<Box<dyn Iterator<Item = &str> + '_>, Box<dyn Error + '_>> {
    if ready(text.is_empty()).await {
        Err(text)?;
    }
    Ok(Box::new(text.chars().map(move |_| text)))
}

// Arguments.

#[perfmark(time)]
pub(crate) async fn of_traits(one: impl Into<u64> + Copy, other: &(impl Display + ?Sized)) -> String {
    ready(()).await;
    format!("{}{}", one.into(), other)
}

pub(crate) struct Point<T> {
    pub(crate) x: T,
    pub(crate) y: (T, T),
}

#[perfmark(time)]
pub(crate) async fn patterns(
    Point { x, y: (mut y, _) }: Point<u32>,
    [first, .., ref last]: [String; 3],
    &(a, ref b): &(u32, String),
    whole @ (_, _): (u32, u32),
    mut numbers: Vec<u32>,
    std::ops::Range { start, end: r#type }: std::ops::Range<u32>,
) -> String {
    y += x;
    numbers.push(y);
    ready(()).await;
    numbers.extend([start, r#type, a]);
    [first, last.clone(), b.clone(), format!("{:?} {:?}", numbers, whole)].join(" ")
}

#[perfmark(time)]
pub(crate) async fn attributes(
    #[cfg(not(any()))] here: u32,
    #[cfg(any())] gone: u32,
    #[allow(unused_variables, reason = "as it is")] unused: u32,
    #[expect(unused_variables, reason = "as it is")] expected: u32,
    #[expect(unused_mut, unused_variables, reason = "two of them")] mut two: u32,
    #[cfg(not(any()))] (one, _): (u32, u32),
    #[cfg(any())] (gone, too): (u32, u32),
) -> u32 {
    ready(here + one).await
}

// Generics.

#[perfmark(time)]
pub(crate) async fn generic<'a, T, U, const N: usize>(items: &'a [T; N], by: U) -> [U::Output; N]
where
    T: Copy + 'a,
    U: std::ops::Mul<T> + Copy,
{
    ready(()).await;
    items.map(|item| by * item)
}

pub(crate) struct Bytes<const N: usize>(pub(crate) [u8; N]);

#[perfmark(time)]
pub(crate) async fn braces<const N: usize>(small: Bytes<{ 1 + 1 }>, other: Bytes<N>) -> Bytes<{ 2 * 2 }> {
    let sum = small.0.len() + ready(other.0.len()).await;
    Bytes([u8::try_from(sum).unwrap_or(0); { 2 + 2 }])
}

// Results.

#[perfmark(time)]
pub(crate) async fn nothing() {}

#[perfmark(time)]
pub(crate) async fn early(number: u32) {
    if ready(number).await == 0 {
        return;
    }
    assert_ne!(number, 0);
}

#[perfmark(time)]
pub(crate) async fn iterator(to: u32) -> impl Iterator<Item = u32> + Send {
    ready(()).await;
    if to == 0 {
        return 7..9;
    }
    0..to
}

#[perfmark(time)]
pub(crate) async fn parts(text: &str) -> Result<(impl Fn(u32) -> u32, Option<Vec<impl Display>>), ParseIntError> {
    let number: u32 = text.parse()?;
    if ready(number).await == 1 {
        text.parse::<u32>()?;
    }
    Ok((move |n| n + number, Some(vec![number])))
}

#[perfmark(time)]
pub(crate) async fn coerced(which: u32) -> Box<dyn Debug> {
    ready(()).await;
    if which == 0 {
        return Box::new("text");
    }
    match which {
        1 => Box::new(1),
        _ => Box::new([2.0]),
    }
}

#[perfmark(time)]
pub(crate) async fn slices(which: bool) -> &'static [u32] {
    if which {
        return &[];
    }
    ready(()).await;
    &[1, 2]
}

#[perfmark(time)]
pub(crate) async fn boxed_function(by: usize) -> Box<dyn Fn(&str) -> usize> {
    ready(()).await;
    Box::new(move |text| text.len() + by)
}

#[perfmark(time)]
pub(crate) async fn inferred_error(text: &str) -> Result<u32, Box<dyn Error + Send + Sync>> {
    let number = text.parse::<u32>()?;
    if number > 9 {
        return Err("too large".into());
    }
    if number > 8 {
        Err("almost")?;
    }
    Ok(ready(number).await)
}

#[perfmark(time)]
pub(crate) async fn inferred_integer() -> u8 {
    let mut sum = 0;
    for n in 1.. {
        sum += n;
        if ready(sum).await > 9 {
            break;
        }
    }
    sum
}

#[perfmark(time)]
pub(crate) async fn defaulted<T: Default>(_: PhantomData<T>) -> (T, u8) {
    ready(Default::default()).await
}

#[perfmark(time)]
pub(crate) async fn option(words: &[&str]) -> Option<usize> {
    let first = words.first()?;
    ready(()).await;
    Some(first.len())
}

#[perfmark(time)]
pub(crate) async fn uninhabited(never: std::convert::Infallible) -> std::convert::Infallible {
    ready(never).await
}

#[perfmark(time)]
pub(crate) async fn never_fails(n: u32) -> Result<u32, std::convert::Infallible> {
    Ok(ready(n).await)
}

#[perfmark(time)]
pub(crate) async fn diverges(text: &str) -> Result<u32, String> {
    ready(()).await;
    unimplemented!("{}", text)
}

#[perfmark(time)]
pub(crate) async fn never(panics: bool) -> ! {
    assert!(!panics, "as asked");
    loop {
        std::future::pending::<()>().await;
    }
}

// Bodies.

#[perfmark(time)]
pub(crate) async fn closures_and_blocks(n: u32) -> u32 {
    #![allow(clippy::redundant_closure_call, reason = "an inner attribute")]
    const ONE: u32 = 1;
    let add = |by: u32| {
        if by == 0 {
            return n;
        }
        n + by
    };
    let block = async {
        if n == 0 {
            return Err("zero");
        }
        Ok(ready(n).await)
    };
    let moved = async move { ready(n).await };
    add(0) + add(ONE) + block.await.unwrap_or(0) + moved.await + (|| ONE)()
}

#[perfmark(time)]
pub(crate) async fn gives_a_future(n: u32) -> impl Future<Output = u32> {
    async move { ready(n).await }
}

#[perfmark(time)]
#[must_use]
#[inline]
#[doc(hidden)]
#[allow(unused_variables, reason = "as it is")]
#[cfg_attr(not(any()), allow(clippy::ptr_arg, reason = "as it is"))]
pub(crate) async fn of_many_attributes(unused: &Vec<u32>) -> u32 {
    #[allow(clippy::let_and_return, reason = "on a statement")]
    let one = ready(1).await;
    one
}

#[perfmark(time)]
#[expect(clippy::unused_async, reason = "as it is written")]
pub(crate) async fn waits_for_nothing() -> u32 {
    1
}

/// As a macro makes them.
macro_rules! made {
    ($(#[$attribute:meta])* $vis:vis $name:ident($arg:ident: $t:ty, $p:pat_param, $q:ident) -> $r:ty, $body:block, $e:expr) => {
        $(#[$attribute])*
        #[perfmark(time)]
        $vis async fn $name($arg: $t, $p: (u32, $t), mut $q: u32) -> $r {
            let inner = $body;
            $q += inner;
            ready(()).await;
            $q + $e
        }

        #[perfmark(time)]
        $vis async fn by_block($arg: $t) -> $r $body
    };
}
made! {
    /// Documented.
    #[inline]
    pub(crate) by_macro(n: u32, (a, _), q) -> u32, { n + 1 }, a + 97
}

/// What is borrowed from arguments in the last expression is given back before they are dropped.
#[perfmark(time)]
pub(crate) async fn temporaries(text: Mutex<String>, (number, _): (Mutex<usize>, u32)) -> usize {
    if *number.lock().unwrap() == 0 {
        return text.lock().unwrap().len() + *number.lock().unwrap();
    }
    ready(()).await;
    text.lock().unwrap().len() + *number.lock().unwrap()
}

/// Names that the body gives to items of its own, and those of the mark's own.
#[perfmark(time)]
#[allow(non_snake_case, unused_variables, reason = "as a constant is named")]
pub(crate) async fn names(ITEM: u32, MARK: u32, here: u32, mark: u32, future: u32) -> u32 {
    const ITEM: u32 = 1;
    ready(ITEM + MARK + here + mark + future).await
}

// Methods.

#[derive(Clone, Default)]
pub(crate) struct Table(pub(crate) Vec<u64>);

#[perfmark(time)]
impl Table {
    pub(crate) async fn by_reference(&self, at: usize) -> Option<&u64> {
        ready(self.0.get(at)).await
    }

    pub(crate) async fn by_mutable(&mut self) -> &mut Vec<u64> {
        self.0.push(1);
        ready(()).await;
        &mut self.0
    }

    pub(crate) async fn by_value(mut self, by: u64) -> Self {
        self.0.push(by);
        ready(self).await
    }

    pub(crate) async fn boxed(self: Box<Self>) -> Vec<u64> {
        ready(self.0).await
    }

    pub(crate) async fn counted(self: Rc<Self>) -> usize {
        ready(Rc::strong_count(&self)).await
    }

    #[allow(clippy::needless_arbitrary_self_type, reason = "it can be written")]
    pub(crate) async fn of_lifetime<'a>(self: &'a Self, _: &str) -> &'a [u64] {
        ready(&self.0).await
    }

    pub(crate) async fn temporary(self) -> u64 {
        Mutex::new(self).lock().unwrap().0[0]
    }

    #[allow(clippy::unused_self, reason = "as it is")]
    pub(crate) async fn unused(&self) {
        ready(()).await;
    }

    pub(crate) async fn new(items: impl IntoIterator<Item = u64>) -> Self {
        ready(Self(items.into_iter().collect())).await
    }
}

// Traits.

/// Without marks, but for its own.
#[allow(async_fn_in_trait, reason = "as it is")]
pub(crate) trait Load {
    type Key: Default;

    async fn load(&self, key: Self::Key) -> Option<u64>;

    fn declared(&self) -> impl Future<Output = usize> + Send;

    #[perfmark(time)]
    async fn load_default(&self) -> Option<u64> {
        self.load(Self::Key::default()).await
    }

    #[perfmark(time)]
    async fn of_type(n: u64) -> u64
    where
        Self: Sized,
    {
        ready(n).await
    }
}

impl Load for Table {
    type Key = usize;

    #[perfmark(time)]
    async fn load(&self, key: usize) -> Option<u64> {
        self.by_reference(key).await.copied()
    }

    #[perfmark(time)]
    async fn declared(&self) -> usize {
        ready(self.0.len()).await
    }

    async fn of_type(n: u64) -> u64 {
        ready(n + 1).await
    }
}

/// With marks on all of it.
#[perfmark(time)]
pub(crate) trait Store<T> {
    async fn store(&mut self, item: T) -> &mut Self;

    async fn store_all(&mut self, items: Vec<T>) {
        for item in items {
            self.store(item).await;
        }
    }
}

impl<T: Into<u64>> Store<T> for Table {
    async fn store(&mut self, item: T) -> &mut Self {
        self.0.push(item.into());
        ready(self).await
    }
}

// Threads.

#[perfmark(time)]
pub(crate) async fn stays(count: Rc<Cell<u32>>) -> u32 {
    ready(()).await;
    count.get()
}

#[perfmark(time)]
pub(crate) async fn may_leave(text: String, more: &str) -> usize {
    let both = text + more;
    ready(()).await;
    both.len()
}

/// Sent where its argument can be.
#[perfmark(time)]
pub(crate) async fn as_its_argument<T>(item: T) -> T {
    ready(()).await;
    item
}
