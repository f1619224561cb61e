//! Patterns of paths.

use crate::snapshot::path::outside_brackets;
#[cfg(feature = "record")]
use crate::snapshot::path::{bare, brief};

/// Parses a pattern as written in a filter, where characters of the language are escaped as `\u{2c}`.
pub(super) fn read(written: &str) -> Result<String, String> {
    let is_odd = |c: char| c.is_whitespace() && !written.contains('<') || c.is_control();
    if let Some(c) = written.chars().find(|&c| is_odd(c)) {
        let character = if c == ' ' { "a space".to_owned() } else { format!("{c:?}") };
        let escaped = c.escape_unicode();
        let why = format!("a pattern cannot contain {character}; separate directives by commas, or");
        return Err(format!("{why} write `{escaped}` in a name"));
    }
    if !is_balanced(written) {
        return Err("`<` has no matching `>`".into());
    }
    let mut parts = written.split('\\');
    let mut pattern = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let c = part
            .strip_prefix("u{")
            .and_then(|part| part.split_once('}'))
            .and_then(|(number, rest)| Some((char::from_u32(u32::from_str_radix(number, 16).ok()?)?, rest)));
        let (c, rest) = c.ok_or("expected a character's number after `\\`, such as `\\u{2c}` for a comma")?;
        pattern.push(c);
        pattern.push_str(rest);
    }
    Ok(pattern)
}

/// Writes a pattern so that [`read`] can parse it.
pub(super) fn written(pattern: &str) -> String {
    let is_balanced = is_balanced(pattern);
    let mut outside = outside_brackets(pattern).map(|(at, _)| at).peekable();
    let mut written = String::new();
    for (at, c) in pattern.char_indices() {
        let is_outside = outside.next_if_eq(&at).is_some() || !is_balanced;
        let is_of_the_language = matches!(c, ',' | '=') || c.is_whitespace();
        if is_of_the_language && is_outside || c == '<' && !is_balanced || c == '\\' || c.is_control() {
            written.extend(c.escape_unicode());
        } else {
            written.push(c);
        }
    }
    written
}

/// Whether each `<` has its `>`: text after it would be outside of all `<…>`.
fn is_balanced(text: &str) -> bool {
    let end = format!("{text} ");
    outside_brackets(&end).any(|(at, _)| at == text.len())
}

/// Whether the pattern matches the path. The empty pattern matches all paths.
#[cfg(feature = "record")]
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    is_name(pattern, path) || is_at_or_below(pattern, path)
}

/// Whether the pattern is the path's last segments: as written, without the modules of types in it, or without generic
/// parameters and traits. After a leading `::`, it must be the complete path as written.
#[cfg(feature = "record")]
fn is_name(pattern: &str, path: &str) -> bool {
    if pattern.is_empty() || pattern.contains(['*', '?']) {
        return false;
    }
    if let Some(complete) = pattern.strip_prefix("::") {
        return complete == path;
    }
    let is_end =
        |form: &str| form.strip_suffix(pattern).is_some_and(|before| before.is_empty() || before.ends_with("::"));
    is_end(path) || is_end(&brief(path)) || is_end(&bare(path))
}

/// Whether the pattern matches the path or one of its parents.
#[cfg(feature = "record")]
fn is_at_or_below(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
    let is_whole = |at: usize| at == path.len() || path[at..].starts_with(&[':', ':']) || path[at] == '<';
    // Where to continue when the text after the last `*` does not match: `*` then takes one character more.
    let (mut at, mut next, mut last_star) = (0, 0, None);
    loop {
        if next == pattern.len() && (is_whole(at) || pattern.is_empty()) {
            return true;
        }
        match pattern.get(next) {
            Some('*') => {
                last_star = Some((next, at));
                next += 1;
            }
            Some(&c) if at < path.len() && (c == '?' || c == path[at]) => {
                (at, next) = (at + 1, next + 1);
            }
            _ => match &mut last_star {
                Some((star, from)) if *from < path.len() => {
                    *from += 1;
                    (at, next) = (*from, *star + 1);
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_pattern_is_read_back() {
        for (pattern, as_written) in [
            ("app::S<u8, i8>::f", "app::S<u8, i8>::f"),
            ("app::f::a, b", r"app::f::a\u{2c}\u{20}b"),
            ("a<b,", r"a\u{3c}b\u{2c}"),
            (r"a\b", r"a\u{5c}b"),
            ("a::{closure}", "a::{closure}"),
            ("", ""),
        ] {
            assert_eq!(written(pattern), as_written);
            assert_eq!(read(as_written).as_deref(), Ok(pattern));
        }
        for wrong in ["a<b", r"a\b", r"\u{110000}", r"\u{2c", "a b"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[cfg(feature = "record")]
    #[test]
    fn a_method_of_a_trait_is_matched_by_type_and_function() {
        let path = "<app::Table<a::Row> as app::Load>::load";
        for pattern in ["load", "Table::load", "app::Table::load", "<Table<Row> as Load>::load", path] {
            assert!(matches(pattern, path), "{pattern}");
        }
        for pattern in ["Load::load", "Table", "able::load", "app"] {
            assert!(!matches(pattern, path), "{pattern}");
        }
    }

    #[cfg(feature = "record")]
    #[test]
    fn a_pattern_matches_a_path_and_what_is_below_it() {
        let path = "app::parser::Tree<u8, i8>::insert";
        let patterns = [
            "",
            "*",
            "app",
            "app::parser",
            "app::parser::Tree<u8, i8>",
            path,
            "app::*::insert",
            "*insert",
            "*::Tree*",
            "app::pars?r",
            "*par*",
            "**",
            "app::parser::Tree",
            "app::*",
            "*::insert",
            "insert",
            "Tree::insert",
            "Tree<u8, i8>::insert",
            "parser::Tree::insert",
            "app::parser::Tree::insert",
            "::app::parser::Tree<u8, i8>::insert",
        ];
        for pattern in patterns {
            assert!(matches(pattern, path), "{pattern}");
        }
        for pattern in [
            "ap",
            "app:",
            "parser",
            "app::parser::Tre",
            "*inser",
            "app::?",
            "app::parser::Tree<u8, i8>::insert::a",
            "?",
            "App",
            "Tree",
            "ee::insert",
            "::insert",
            "::app",
            "::app::parser::Tree::insert",
        ] {
            assert!(!matches(pattern, path), "{pattern}");
        }
    }
}
