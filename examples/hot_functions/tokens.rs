//! The terms by which a line is found.

use std::borrow::Cow;

use perfmark::perfmark;

/// Adds the terms of `line`: each word in lower case, and the parts of compound words. A search for `parse error` finds
/// both `parse_error` and `ParseError`.
///
/// Words that are already in lower case, as most are, are borrowed.
#[perfmark(cycles, instructions)]
pub(crate) fn tokenize<'a>(line: &'a str, terms: &mut Vec<Cow<'a, str>>) {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    for word in words.filter(|word| !word.is_empty()) {
        terms.push(lower(word));
        let mut rest = word;
        while let Some(end) = boundary(rest) {
            let (part, after) = rest.split_at(end);
            push_part(part, terms);
            rest = after;
        }
        if rest.len() < word.len() {
            push_part(rest, terms);
        }
    }
}

fn push_part<'a>(part: &'a str, terms: &mut Vec<Cow<'a, str>>) {
    let part = part.trim_matches('_');
    if !part.is_empty() {
        terms.push(lower(part));
    }
}

/// The end of a word's first part: before an underscore, or between a lowercase and an uppercase letter.
fn boundary(word: &str) -> Option<usize> {
    let mut is_after_lowercase = false;
    word.char_indices().find_map(|(at, c)| {
        let ends = at > 0 && c == '_' || is_after_lowercase && c.is_uppercase();
        is_after_lowercase = !c.is_uppercase();
        ends.then_some(at)
    })
}

fn lower(word: &str) -> Cow<'_, str> {
    if word.chars().any(char::is_uppercase) { word.to_lowercase().into() } else { word.into() }
}
