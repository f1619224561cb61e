//! What cannot be marked is told, and stays as it was.

use perfmark::perfmark;

#[perfmark]
const fn twice(n: u32) -> u32 {
    2 * n
}

const FOUR: u32 = twice(2);

trait Shape {
    #[perfmark]
    fn area(&self) -> u32;
}

#[perfmark]
struct NotAFunction;

#[perfmark(name = "one name for several")]
mod several {
    pub fn one() {}
}

fn main() {
    several::one();
    let _: (NotAFunction, u32) = (NotAFunction, FOUR);
}
