//! Errors in a marked async function point at what the user wrote, once each.

use perfmark::perfmark;

#[perfmark(time)]
async fn type_of_result() -> u32 {
    "text"
}

#[perfmark(time)]
async fn no_result() -> u32 {
    1;
}

#[perfmark(time)]
async fn returns(early: bool) -> Result<u32, String> {
    if early {
        return 1;
    }
    Ok("1".parse::<u32>()?)
}

#[perfmark(time)]
async fn not_an_iterator() -> impl Iterator<Item = u32> {
    1
}

#[perfmark(time)]
async fn not_a_future(n: u32) {
    n.await;
}

#[perfmark(time)]
async fn borrows(text: String) -> &'static str {
    &text
}

#[perfmark(time)]
async fn moved(text: String) -> usize {
    drop(text);
    text.len()
}

#[perfmark(time)]
async fn refutable(Some(_): Option<u32>) {}

#[perfmark(time)]
async fn stays() {
    let count = std::rc::Rc::new(1);
    std::future::ready(()).await;
    drop(count);
}

fn is_send<T: Send>(_: T) {}

fn main() {
    is_send(stays());
}
