//! Errors in a marked body point at what the user wrote.

use perfmark::{perfmark, region};

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

struct Counter {
    count: u32,
}

#[perfmark(time)]
impl Counter {
    fn add(&self, n: u32) {
        self.count += n;
    }

    fn misspelled(&self) -> u32 {
        self.cuont
    }
}

#[perfmark(time)]
mod inside {
    pub fn arguments() -> usize {
        std::mem::size_of::<u8>(1)
    }

    pub fn moved(text: String) -> (String, String) {
        (text, text)
    }
}

fn in_a_region(text: &str) -> Result<u32, std::num::ParseIntError> {
    let number = region!("parse", time, { text.parse::<u32>() });
    Ok(number)
}

fn main() {}
