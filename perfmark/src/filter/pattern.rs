//! Patterns of paths.

use crate::path::outside_brackets;

/// What a pattern is, as it is written in a filter, where signs of the language stand as `\u{2c}`.
pub(super) fn read(written: &str) -> Result<String, String> {
    let is_odd = |sign: char| sign.is_whitespace() && !written.contains('<') || sign.is_control();
    if let Some(sign) = written.chars().find(|&sign| is_odd(sign)) {
        return Err(format!("a path has no {sign:?}; directives are separated by commas"));
    }
    if !is_balanced(written) {
        return Err("a `<` without its `>`".into());
    }
    let mut parts = written.split('\\');
    let mut pattern = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let sign = part
            .strip_prefix("u{")
            .and_then(|part| part.split_once('}'))
            .and_then(|(number, rest)| Some((char::from_u32(u32::from_str_radix(number, 16).ok()?)?, rest)));
        let (sign, rest) = sign.ok_or("behind a `\\` stands a sign's number, as `u{2c}` for a comma")?;
        pattern.push(sign);
        pattern.push_str(rest);
    }
    Ok(pattern)
}

/// As [`read`] reads it.
pub(super) fn written(pattern: &str) -> String {
    let is_balanced = is_balanced(pattern);
    let mut outside = outside_brackets(pattern).map(|(at, _)| at).peekable();
    let mut written = String::new();
    for (at, sign) in pattern.char_indices() {
        let is_outside = outside.next_if_eq(&at).is_some() || !is_balanced;
        let is_of_the_language = matches!(sign, ',' | '=' | '/') || sign.is_whitespace();
        if is_of_the_language && is_outside || sign == '<' && !is_balanced || sign == '\\' || sign.is_control() {
            written.extend(sign.escape_unicode());
        } else {
            written.push(sign);
        }
    }
    written
}

/// Whether what stands behind it is outside of its `<…>`.
fn is_balanced(text: &str) -> bool {
    let end = format!("{text} ");
    outside_brackets(&end).any(|(at, _)| at == text.len())
}

/// Whether the pattern is that of the path, or of one that it is below. All are below the empty one.
#[cfg(feature = "record")]
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
    let is_whole = |at: usize| at == path.len() || path[at..].starts_with(&[':', ':']) || path[at] == '<';
    // Where to go on when what comes behind the last `*` does not match: there, with one character more taken by it.
    let (mut at, mut sign, mut last_star) = (0, 0, None);
    loop {
        if sign == pattern.len() && (is_whole(at) || pattern.is_empty()) {
            return true;
        }
        match pattern.get(sign) {
            Some('*') => {
                last_star = Some((sign, at));
                sign += 1;
            }
            Some(&wanted) if at < path.len() && (wanted == '?' || wanted == path[at]) => {
                (at, sign) = (at + 1, sign + 1);
            }
            _ => match &mut last_star {
                Some((star, from)) if *from < path.len() => {
                    *from += 1;
                    (at, sign) = (*from, *star + 1);
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
    fn a_pattern_is_written_so_that_it_is_read() {
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
        ] {
            assert!(!matches(pattern, path), "{pattern}");
        }
    }
}
