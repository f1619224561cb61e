//! The best locations for a query.

use std::cmp::Ordering;

use perfmark::perfmark;

use crate::corpus::{File, read_text};
use crate::index::{Index, Location};
use crate::tokens::tokenize;

/// BM25's usual constants: the saturation of repeated words, and the weight of a file's length.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Characters of a line that are shown.
const WIDTH: usize = 80;

/// A file that contains all words, and its best line to show.
pub(crate) struct Hit {
    file: u32,
    line: u32,
    score: f64,
}

/// A word of the query with its locations and its weight (the inverse document frequency).
struct Term<'a> {
    locations: &'a [Location],
    files: Vec<u32>,
    weight: f64,
}

impl<'a> Term<'a> {
    fn new(index: &'a Index, term: &str) -> Option<Self> {
        let locations = index.locations(term)?;
        let mut files: Vec<u32> = locations.iter().map(|location| location.file).collect();
        files.dedup();
        let (with, all) = (files.len() as f64, index.texts as f64);
        let weight = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
        Some(Self { locations, files, weight })
    }

    fn locations_in(&self, file: u32) -> &'a [Location] {
        let from = self.locations.partition_point(|location| location.file < file);
        let rest = &self.locations[from..];
        &rest[..rest.partition_point(|location| location.file == file)]
    }
}

/// The files that contain all of `words`, best matches first.
pub(crate) fn search(index: &Index, words: &str) -> Vec<Hit> {
    let mut texts = Vec::new();
    tokenize(words, &mut texts);
    texts.sort_unstable();
    texts.dedup();
    let terms: Option<Vec<Term>> = texts.iter().map(|text| Term::new(index, text)).collect();
    let mut terms = terms.unwrap_or_default();
    // Starting with the rarest word keeps the lists short.
    terms.sort_by_key(|term| term.files.len());
    let lists = terms.iter().map(|term| term.files.clone());
    let files = lists.reduce(|a, b| intersect(&a, &b)).unwrap_or_default();

    let hit = |file| {
        let (line, words) = best_line(&terms, file);
        // Words on the same line are more likely to belong together.
        let proximity = words as f64 / terms.len() as f64;
        let score = proximity * score(&terms, file, index.relative_length(file));
        Hit { file, line, score }
    };
    let mut hits: Vec<Hit> = files.into_iter().map(hit).collect();
    // The sort is stable, so files with equal scores stay in order.
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    hits
}

/// The common elements of two ascending lists.
#[perfmark(cycles, instructions)]
fn intersect<T: Ord + Copy>(mut a: &[T], mut b: &[T]) -> Vec<T> {
    let mut common = Vec::new();
    while let ([first, rest_a @ ..], [other, rest_b @ ..]) = (a, b) {
        let order = first.cmp(other);
        if order == Ordering::Equal {
            common.push(*first);
        }
        a = if order.is_le() { rest_a } else { a };
        b = if order.is_ge() { rest_b } else { b };
    }
    common
}

/// The BM25 score of a file that is `length` times as long as the mean.
#[perfmark(cycles, instructions)]
fn score(terms: &[Term], file: u32, length: f64) -> f64 {
    let term_score = |term: &Term| {
        let lines = term.locations_in(file).len() as f64;
        term.weight * lines * (K1 + 1.0) / (lines + K1 * (1.0 - B + B * length))
    };
    terms.iter().map(term_score).sum()
}

/// The first of the lines with the highest weight, and its number of words.
fn best_line(terms: &[Term], file: u32) -> (u32, usize) {
    let weights = |term| Term::locations_in(term, file).iter().map(|location| (location.line, term.weight));
    let mut words: Vec<(u32, f64)> = terms.iter().flat_map(weights).collect();
    words.sort_by_key(|&(line, _)| line);
    let weight = |line: &&[(u32, f64)]| line.iter().map(|word| word.1).sum::<f64>();
    let lines = words.chunk_by(|a, b| a.0 == b.0);
    // In reverse, because `max_by` returns the last of equal lines.
    let best = lines.rev().max_by(|a, b| weight(a).total_cmp(&weight(b)));
    best.map_or((0, 0), |words| (words[0].0, words.len()))
}

/// The hits whose file has a line that contains exactly `phrase`.
pub(crate) fn only_exact(hits: Vec<Hit>, files: &[File], phrase: &str) -> Vec<Hit> {
    let exact = |hit: Hit| {
        let text = read_text(&files[hit.file as usize].path).ok()??;
        let line = phrase_line(&text, phrase)?;
        Some(Hit { line, ..hit })
    };
    hits.into_iter().filter_map(exact).collect()
}

#[perfmark(cycles, instructions)]
fn phrase_line(text: &str, phrase: &str) -> Option<u32> {
    let mut lines = (1..).zip(text.lines());
    lines.find_map(|(number, line)| line.contains(phrase).then_some(number))
}

/// The text of a hit: `file:line: text`. Reads the file again, because the index keeps no text.
#[perfmark]
pub(crate) fn snippet(hit: &Hit, files: &[File]) -> String {
    let file = &files[hit.file as usize];
    let text = read_text(&file.path).ok().flatten().unwrap_or_default();
    let line = text.lines().nth(hit.line as usize - 1).unwrap_or_default();
    let mut rest = line.trim().chars();
    let start: String = rest.by_ref().take(WIDTH).collect();
    let more = rest.next().map_or("", |_| "…");
    let shown = format!("{}:{}: {start}{more}", file.shown.display(), hit.line);
    // Control characters would affect the terminal.
    shown.replace(char::is_control, " ")
}
