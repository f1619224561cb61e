//! Errors of an async function are where they are without a mark.

use perfmark::perfmark;

#[perfmark]
async fn wrong_type(n: u32) -> String {
    n
}

#[perfmark]
async fn wrong_return(n: u32) -> Result<u32, std::fmt::Error> {
    if n > 1 {
        return Ok("two");
    }
    let unused = n;
    Ok(n)
}

#[perfmark]
async fn moved(text: String) -> usize {
    drop(text);
    text.len()
}

trait Shape {
    #[perfmark]
    async fn area(&self) -> u32;
}

#[perfmark(time, every = 2)]
async fn left_out() {}

fn main() {}
