//! Marked async functions by their results: inferred, coerced, hidden, none.

use std::error::Error;
use std::fmt::{Debug, Display};
use std::future::ready;
use std::marker::PhantomData;
use std::num::ParseIntError;

use perfmark::perfmark;

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
