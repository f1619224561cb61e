//! The best places for a query.

use std::cmp::Ordering;

use perfmark::perfmark;

use crate::corpus::{File, read_text};
use crate::index::{Index, Place};
use crate::tokens::tokenize;

/// BM25's customary constants: how soon repetition stops to count, and how much a file's length does.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Characters of a line that are shown.
const WIDTH: usize = 80;

/// A file that has all the words, and the line in it that is most worth showing.
pub(crate) struct Hit {
    file: u32,
    line: u32,
    score: f64,
}

/// A word of the query: where it stands, and what finding it is worth (its inverse document frequency).
struct Term<'a> {
    places: &'a [Place],
    files: Vec<u32>,
    worth: f64,
}

impl<'a> Term<'a> {
    fn new(index: &'a Index, term: &str) -> Option<Self> {
        let places = index.places(term)?;
        let mut files: Vec<u32> = places.iter().map(|place| place.file).collect();
        files.dedup();
        let (with, all) = (files.len() as f64, index.texts as f64);
        let worth = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
        Some(Self { places, files, worth })
    }

    fn places_in(&self, file: u32) -> &'a [Place] {
        let from = self.places.partition_point(|place| place.file < file);
        let rest = &self.places[from..];
        &rest[..rest.partition_point(|place| place.file == file)]
    }
}

/// The files that have all of `words`, the best first.
pub(crate) fn search(index: &Index, words: &str) -> Vec<Hit> {
    let mut texts = Vec::new();
    tokenize(words, &mut texts);
    texts.sort_unstable();
    texts.dedup();
    let terms: Option<Vec<Term>> = texts.iter().map(|text| Term::new(index, text)).collect();
    let mut terms = terms.unwrap_or_default();
    // From the rarest word on, the lists to intersect stay short.
    terms.sort_by_key(|term| term.files.len());
    let lists = terms.iter().map(|term| term.files.clone());
    let files = lists.reduce(|a, b| intersect(&a, &b)).unwrap_or_default();

    let hit = |file| {
        let (line, words) = best_line(&terms, file);
        // Words that stand together are likelier to belong together.
        let together = words as f64 / terms.len() as f64;
        let score = together * score(&terms, file, index.relative_length(file));
        Hit { file, line, score }
    };
    let mut hits: Vec<Hit> = files.into_iter().map(hit).collect();
    // Files come in order, and equal ones stay so.
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    hits
}

/// What two ascending lists have in common.
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

/// BM25 of a file that is `length` times as long as the mean.
#[perfmark(cycles, instructions)]
fn score(terms: &[Term], file: u32, length: f64) -> f64 {
    let term_score = |term: &Term| {
        let lines = term.places_in(file).len() as f64;
        term.worth * lines * (K1 + 1.0) / (lines + K1 * (1.0 - B + B * length))
    };
    terms.iter().map(term_score).sum()
}

/// The first of the lines whose words are worth most, and how many words it has.
fn best_line(terms: &[Term], file: u32) -> (u32, usize) {
    let worths = |term| Term::places_in(term, file).iter().map(|place| (place.line, term.worth));
    let mut words: Vec<(u32, f64)> = terms.iter().flat_map(worths).collect();
    words.sort_by_key(|&(line, _)| line);
    let worth = |line: &&[(u32, f64)]| line.iter().map(|word| word.1).sum::<f64>();
    let lines = words.chunk_by(|a, b| a.0 == b.0);
    // From the end, because max_by gives the last of equals.
    let best = lines.rev().max_by(|a, b| worth(a).total_cmp(&worth(b)));
    best.map_or((0, 0), |words| (words[0].0, words.len()))
}

/// The hits whose file has a line with `phrase` as it is written.
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

/// A hit as it is shown, `file:line: text`, read anew: the index keeps no text.
#[perfmark]
pub(crate) fn snippet(hit: &Hit, files: &[File]) -> String {
    let file = &files[hit.file as usize];
    let text = read_text(&file.path).ok().flatten().unwrap_or_default();
    let line = text.lines().nth(hit.line as usize - 1).unwrap_or_default();
    let mut rest = line.trim().chars();
    let start: String = rest.by_ref().take(WIDTH).collect();
    let more = rest.next().map_or("", |_| "…");
    let shown = format!("{}:{}: {start}{more}", file.shown.display(), hit.line);
    // A terminal obeys control characters.
    shown.replace(char::is_control, " ")
}
