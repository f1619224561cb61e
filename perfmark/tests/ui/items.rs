//! Items that cannot be marked are reported, and stay as they are.

use perfmark::perfmark;

#[perfmark]
const fn twice(n: u32) -> u32 {
    2 * n
}

const FOUR: u32 = twice(2);

trait Shape {
    #[perfmark]
    fn area(&self) -> u32;

    #[perfmark]
    async fn later(&self) -> u32;
}

#[perfmark]
struct NotAFunction;

unsafe extern "C" {
    #[perfmark]
    safe fn elsewhere(n: u32) -> u32;
}

#[perfmark]
const CONSTANT: u32 = 1;

#[perfmark]
#[path = "items/in_a_file.rs"]
mod in_a_file;

#[perfmark(name = "one name for several")]
mod several {
    pub fn one() {}
}

#[perfmark(time, every = 2)]
async fn left_out() {}

fn main() {
    several::one();
    elsewhere(CONSTANT);
    let _: (NotAFunction, u32) = (NotAFunction, FOUR);
}
