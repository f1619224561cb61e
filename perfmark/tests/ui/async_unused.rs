//! Unused parts of a marked async function are reported as in an unmarked one.

#![deny(unused)]

use perfmark::perfmark;

#[perfmark(time)]
pub async fn arguments(one: u32, (two, _): (u32, u32), mut three: String, _four: u32, &five: &u32) -> usize {
    three.len()
}

pub struct Table;

#[perfmark(time)]
impl Table {
    pub async fn receiver(mut self, six: u32) {}

    pub async fn never_read(&self, mut seven: u32) {
        seven = 1;
    }
}

#[perfmark(time)]
pub async fn local() {
    let eight = std::future::ready(1).await;
    std::future::ready(());
    return;
    println!();
}

fn main() {}
