//! Parts of functions as separate marks: blocks, guards, closures, and loops of which some iterations are measured.
//!
//! Run `cargo run --release --example regions`. Set `PERFMARK_CALL_GRAPH=on PERFMARK_FORMAT=folded` to get the call
//! graph as folded stacks.

use std::collections::BTreeMap;

use perfmark::{perfmark, region};

const TEXT: &str = include_str!("main.rs");

/// Counts each word, and sorts the words by their counts.
#[perfmark(time, instructions)]
fn count_words(text: &str) -> Vec<(usize, String)> {
    // A block with a value.
    let words: Vec<&str> = region!("split", time, instructions, {
        text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).collect()
    });

    // A guard, which measures until it is dropped.
    let counting = region!("count", time, instructions);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in &words {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    drop(counting);

    // A closure with many calls, of which one in 7 is measured.
    let as_pair = |(word, count): (String, usize)| region!("pair", time, every = 7, { (count, word) });
    let mut pairs: Vec<_> = counts.into_iter().map(as_pair).collect();

    region!("sort", time, instructions, { pairs.sort_unstable_by(|one, other| other.cmp(one)) });
    pairs
}

fn main() {
    let words = count_words(&TEXT.repeat(200));
    for (count, word) in words.iter().take(3) {
        println!("{count:6} {word}");
    }
}
