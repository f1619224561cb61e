//! Several kinds of work on all CPUs, while `main` waits.

use std::collections::HashMap;
use std::fs;
use std::sync::Mutex;

use rayon::prelude::*;

fn escape_row(y: u32) -> u64 {
    let steps = |x: u32| {
        let (real, imaginary) = (f64::from(x) / 100.0 - 2.0, f64::from(y) / 150.0 - 1.0);
        let (mut r, mut i, mut steps) = (0.0, 0.0, 0);
        while r * r + i * i < 4.0 && steps < 200 {
            (r, i, steps) = (r * r - i * i + real, 2.0 * r * i + imaginary, steps + 1);
        }
        steps
    };
    (0..300).map(steps).sum()
}

fn count_words(text: &str) -> HashMap<&str, u64> {
    let mut counts = HashMap::new();
    for word in text.split_ascii_whitespace() {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

fn merge<'a>(all: &Mutex<HashMap<&'a str, u64>>, counts: HashMap<&'a str, u64>) {
    let mut all = all.lock().expect("not poisoned");
    for (word, count) in counts {
        *all.entry(word).or_default() += count;
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn main() {
    let text = fs::read_to_string("iso-codes/iso_639-3.xml").expect("readable");
    let lines: Vec<&str> = text.lines().collect();
    let chunks: Vec<String> = lines.chunks(1000).map(|lines| lines.join(" ")).collect();
    let mut digest = 0_u64;
    for round in 0..60 {
        let rows: u64 = (0..300).into_par_iter().map(escape_row).sum();
        let all = Mutex::new(HashMap::new());
        chunks.par_iter().for_each(|chunk| merge(&all, count_words(chunk)));
        let values = |seed: u64| (0..3000).map(|n| (n * 2_654_435_761 + seed + round) % 65_537).collect();
        let medians: u64 = (0..100).into_par_iter().map(|seed| median(values(seed))).sum();
        let sum = chunks.par_iter().map(|chunk| checksum(chunk)).reduce(|| 0, u64::wrapping_add);
        let words = all.into_inner().expect("not poisoned").len() as u64;
        digest = digest.rotate_left(5) ^ rows ^ words ^ medians ^ sum;
    }
    println!("digest {digest:x}");
}
