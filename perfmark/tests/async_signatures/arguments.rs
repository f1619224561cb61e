//! Marked async functions by their arguments: lifetimes, patterns, attributes, generics.

use std::convert::TryFrom as _;
use std::error::Error;
use std::fmt::Display;
use std::future::ready;
use std::str::Split;

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
#[rustfmt::skip]
pub(crate) async fn without_spaces(
    x:&u8, y: u8, (z, _):&(u8, u8), std::ops::Range::<u8>{ start, .. }:std::ops::Range<u8>, slice:*const [u8],
) -> u8 {
    ready(()).await;
    _ = slice;
    x + y + z + start
}

pub(crate) struct Spaceless(pub(crate) u8);

#[perfmark(time)]
impl Spaceless {
    #[rustfmt::skip]
    pub(crate) async fn get(self:&std::rc::Rc<Self>, by:&u8) -> u8 {
        ready(self.0 * by).await
    }
}

#[perfmark(time)]
pub(crate) async fn attributes(
    #[cfg(not(any()))] here: u32,
    #[cfg(any())] gone: u32,
    #[allow(unused_variables, reason = "a test")] unused: u32,
    #[expect(unused_variables, reason = "a test")] expected: u32,
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
