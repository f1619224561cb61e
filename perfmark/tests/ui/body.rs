//! What is wrong in a marked body is told where the user wrote it.

use perfmark::perfmark;

#[perfmark(time)]
fn type_of_result() -> u32 {
    "text"
}

#[perfmark(time)]
fn borrow(text: &mut String) -> &str {
    let one = &mut *text;
    text.push('a');
    one
}

#[perfmark(time)]
fn inference() {
    let list = Vec::new();
}

fn main() {}
