//! Parses Debian's lists of languages and of regions, which have many attributes, 100 times each.

use std::fs;
use std::hint::black_box;

use roxmltree::{Document, ParsingOptions};

fn main() {
    let read = |name| fs::read_to_string(format!("iso-codes/{name}.xml")).expect("readable");
    // Some have `&` for `&amp;`.
    let texts = ["iso_639-3", "iso_3166-2"].map(|name| read(name).replace('&', "&amp;"));
    let nodes = |text: &str| {
        let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options).expect("valid");
        black_box(&document).descendants().count()
    };
    let all: usize = (0..100).flat_map(|_| &texts).map(|text| nodes(text)).sum();
    println!("{all} nodes");
}
