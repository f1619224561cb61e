//! Text in columns of a terminal: width, padding, shortening, wrapping.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::compact::{Collect as _, Map};
use crate::text::sanitize;

/// How many columns the text takes.
pub(super) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Appends the text and then spaces up to `columns`.
pub(super) fn push_left(out: &mut String, text: &str, columns: usize) {
    out.push_str(text);
    spaces(out, columns.saturating_sub(width(text)));
}

/// Appends spaces and then the text, `columns` in all.
pub(super) fn push_right(out: &mut String, text: &str, columns: usize) {
    spaces(out, columns.saturating_sub(width(text)));
    out.push_str(text);
}

fn spaces(out: &mut String, columns: usize) {
    out.extend(std::iter::repeat_n(' ', columns));
}

/// The text in at most `room` columns: its middle is replaced by `…`. More of its end is kept than of its beginning,
/// because paths differ there.
pub(super) fn shorten(text: &str, room: usize) -> String {
    if width(text) <= room { text.to_owned() } else { cut(text, room, room.saturating_sub(1) / 3) }
}

/// The beginning of the text in at most `room` columns, with `…` if there is more.
pub(super) fn beginning(text: &str, room: usize) -> String {
    if width(text) <= room { text.to_owned() } else { cut(text, room, room.saturating_sub(1)) }
}

/// Distinct texts, each in at most `room` columns and still distinct. If they differ only in what is cut from others,
/// another part of them is cut, and if nothing helps, they end with a number.
pub(super) fn shorten_each(texts: &[&str], room: usize) -> Vec<String> {
    let mut short: Vec<String> = texts.iter().map(|text| shorten(text, room)).collect();
    let mut times: Map<String, usize> = Map::new();
    for text in &short {
        *times.get_or_default(text.clone()) += 1;
    }
    let mut used = short.iter().cloned().collect_set();
    for (short, text) in short.iter_mut().zip(texts) {
        if times.get(short) == Some(&1) || width(text) <= room {
            continue;
        }
        let others = (0..room).rev().map(|head| cut(text, room, head));
        let numbered = (2..).map(|number| {
            let number = format!("#{number}");
            shorten(text, room.saturating_sub(number.len())) + &number
        });
        if let Some(other) = others.chain(numbered).find(|other| !used.contains(other)) {
            used.insert(other.clone());
            *short = other;
        }
    }
    short
}

/// The text in at most `room` columns, of which its beginning takes at most `head`.
fn cut(text: &str, room: usize, head: usize) -> String {
    let Some(room) = room.checked_sub(1) else { return String::new() };
    let head = prefix(text, head);
    // A combining character would combine with the `…`.
    let tail = suffix(text, room - width(head)).trim_start_matches(|c: char| c.width() == Some(0));
    format!("{head}…{tail}")
}

/// Characters read per column: bounds the work on endless runs of combining ones.
const DENSEST: usize = 4;

fn prefix(text: &str, room: usize) -> &str {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8()).take(DENSEST * room);
    ends.map(|end| &text[..end]).take_while(|head| width(head) <= room).last().unwrap_or("")
}

fn suffix(text: &str, room: usize) -> &str {
    let starts = text.char_indices().rev().map(|(at, _)| at).take(DENSEST * room);
    starts.map(|start| &text[start..]).take_while(|tail| width(tail) <= room).last().unwrap_or("")
}

/// The columns that the word takes, if it fits. Of a longer word, no more than the room is read.
fn fitting(word: &str, room: usize) -> Option<usize> {
    let is_endless = word.chars().nth(DENSEST.saturating_mul(room)).is_some();
    (!is_endless).then(|| width(word)).filter(|&taken| taken <= room)
}

/// The text with single spaces between words, and without characters that hide or move text.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().map(sanitize).collect::<Vec<_>>().join(" ")
}

/// Appends the text as lines of at most `columns`, broken between words, all but the first indented by two more than
/// `indent`. A word longer than a line is broken too.
pub(super) fn wrap(out: &mut String, text: &str, indent: usize, columns: usize) {
    let mut line = " ".repeat(indent);
    let (mut used, mut is_fresh) = (indent, true);
    for word in text.split_whitespace().map(sanitize) {
        let mut word = word.as_str();
        while !word.is_empty() {
            let gap = usize::from(!is_fresh);
            let room = columns.saturating_sub(used + gap);
            if let Some(taken) = fitting(word, room) {
                spaces(&mut line, gap);
                line.push_str(word);
                (used, is_fresh) = (used + gap + taken, false);
                break;
            }
            if is_fresh {
                let first = word.chars().next().map_or(0, char::len_utf8);
                let piece = prefix(word, room).len().max(first);
                line.push_str(&word[..piece]);
                word = &word[piece..];
            }
            out.push_str(&line);
            out.push('\n');
            line = " ".repeat(indent + 2);
            (used, is_fresh) = (indent + 2, true);
        }
    }
    if !is_fresh {
        out.push_str(&line);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, columns: usize) -> String {
        let mut out = String::new();
        wrap(&mut out, text, 0, columns);
        out
    }

    #[test]
    fn short_text_stays_and_long_text_loses_its_middle() {
        assert_eq!(shorten("parse", 5), "parse");
        assert_eq!(shorten("wire::Parser::next", 12), "wir…er::next");
        assert_eq!(shorten("parse", 1), "…");
        assert_eq!(shorten("parse", 0), "");
        assert_eq!(shorten("解析器の次の要素", 8), "解…要素");
    }

    #[test]
    fn the_beginning_of_a_text_ends_with_an_ellipsis() {
        assert_eq!(beginning("let x = y;", 10), "let x = y;");
        assert_eq!(beginning("let x = y;", 9), "let x = …");
        assert_eq!(beginning("解析器", 4), "解…");
        assert_eq!([beginning("let", 1), beginning("let", 0)], ["…", ""]);
    }

    #[test]
    fn distinct_texts_stay_distinct_in_any_room() {
        let texts =
            ["app::One::parse_line", "app::Two::parse_line", "app::Two::parse_lime", "parse_line", "…parse_line"];
        assert_eq!(shorten_each(&texts[..2], 14), ["app::One::par…", "app::Two::par…"]);
        let many: Vec<String> =
            (0..200).map(|number| format!("{}{number}{}", "a".repeat(40), "z".repeat(40))).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).chain(texts).collect();
        for room in [8, 15, 19, 30, 80, 90] {
            let short = shorten_each(&many, room);
            assert!(short.iter().all(|text| width(text) <= room), "{short:?}");
            assert_eq!(short.iter().collect::<std::collections::BTreeSet<_>>().len(), many.len(), "{room}: {short:?}");
        }
    }

    #[test]
    fn shortened_text_fits_whatever_it_is() {
        let texts = [
            "解析器の次の要素を読む",
            "e\u{301}\u{301}\u{301}".repeat(9).as_str(),
            "👩\u{200d}👩\u{200d}👧❤\u{fe0f}1\u{fe0f}\u{20e3}🇩🇪🇫🇷",
        ]
        .map(str::to_owned);
        for text in texts {
            for room in 0..=width(&text) + 1 {
                let short = shorten(&text, room);
                assert!(width(&short) <= room, "{short:?} in {room}");
            }
        }
    }

    #[test]
    fn lines_break_between_words_and_only_long_words_break_inside() {
        assert_eq!(wrapped("one two three four", 9), "one two\n  three\n  four\n");
        assert_eq!(wrapped("a bcdefghijklmnopq r", 8), "a\n  bcdefg\n  hijklm\n  nopq r\n");
        assert_eq!(wrapped(" \n ", 8), "");
        assert_eq!(wrapped("e\u{301} 解析器 ❤\u{fe0f} a", 8), "e\u{301} 解析器\n  ❤\u{fe0f} a\n");
        assert_eq!(wrapped("two\nlines \u{1b}[31m", 80), "two lines \u{fffd}[31m\n");
    }

    /// If each step read the complete word or line, this would take minutes.
    #[test]
    fn a_very_long_text_is_wrapped_quickly() {
        let words = "word ".repeat(40_000);
        assert_eq!(wrapped(&words, usize::MAX).trim_end(), words.trim_end());
        assert_eq!(wrapped(&words, 80).lines().count(), 1 + (40_000_usize - 16).div_ceil(15));
        let word = "w".repeat(200_000);
        assert_eq!(wrapped(&word, 80).lines().count(), 1 + (200_000_usize - 80).div_ceil(78));
        assert_eq!(wrapped(&word, usize::MAX).trim_end(), word);
    }
}
