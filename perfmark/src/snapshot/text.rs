//! How reports write numbers and names, for programs that show the values of snapshots themselves.
//!
//! ```
//! use perfmark::text;
//!
//! let mut mark = perfmark::Mark::default();
//! mark.name = "parse".into();
//! mark.calls = 12_345;
//! let line = format!("{}: {}", text::sanitize(&mark.name), text::counted(mark.calls, "call"));
//! assert_eq!(line, "parse: 12,345 calls");
//! ```
//!
//! No function fails.

/// Puts a comma between groups of three digits of a decimal number. A sign and decimals stay as they are.
///
/// Text without digits is returned unchanged. In other text that is not a number, the commas have no meaning.
///
/// ```
/// use perfmark::text::grouped;
///
/// assert_eq!(grouped("18446744"), "18,446,744");
/// assert_eq!(grouped(&format!("{:.1}", -1234.56)), "-1,234.6");
/// ```
#[must_use]
pub fn grouped(number: &str) -> String {
    let start = number.find(|c: char| c.is_ascii_digit()).unwrap_or(number.len());
    let end = number.find('.').unwrap_or(number.len());
    let mut grouped = String::with_capacity(number.len() * 4 / 3);
    for (at, digit) in number.char_indices() {
        if start < at && at < end && (end - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count with all its digits, in groups of three.
///
/// ```
/// assert_eq!(perfmark::text::exact(1_204), "1,204");
/// ```
#[must_use]
pub fn exact(count: u64) -> String {
    grouped(&count.to_string())
}

/// The noun for a count, in the singular or plural.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    format!("{noun}{}", if count == 1 { "" } else { "s" })
}

/// A count with its noun, in the singular or plural. The plural is the noun with an `s`.
///
/// ```
/// let all = [0, 1, 12_000].map(|calls| perfmark::text::counted(calls, "call"));
/// assert_eq!(all, ["0 calls", "1 call", "12,000 calls"]);
/// ```
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {}", exact(count), plural(count, noun))
}

/// The text on one line, safe for a terminal. Characters that are invisible, move the cursor or change the direction
/// of the text become `\u{fffd}`.
///
/// Use it for names from a report that another program wrote, because the name of a region can be any text.
///
/// ```
/// assert_eq!(perfmark::text::sanitize("\u{1b}[2Jparse\n"), "\u{fffd}[2Jparse\u{fffd}");
/// ```
#[must_use]
pub fn sanitize(text: &str) -> String {
    text.replace(is_invisible, "\u{fffd}")
}

/// Control characters, Unicode line separators, and format characters (Unicode's Cf) that take no column.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// Escapes any text for GitHub's Markdown, so that it formats nothing, links nothing and notifies nobody. An empty
/// comment breaks what GitHub would make a link.
///
/// ```
/// assert_eq!(perfmark::text::escape_markdown("parse_line<T> @octocat"), "parse\\_line&lt;T&gt; &#64;<!-- -->octocat");
/// ```
#[must_use]
pub fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        // GitHub makes links of addresses.
        if rest.starts_with("://") || rest.starts_with('.') && ends_with_www(&text[..at]) {
            out.push_str("<!-- -->");
        }
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // It would notify a user, or link to an address.
            '@' => out.push_str("&#64;<!-- -->"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

fn ends_with_www(text: &str) -> bool {
    text.as_bytes().last_chunk::<3>().is_some_and(|last| last.eq_ignore_ascii_case(b"www"))
}

/// The same for a sentence: what is between backticks is code.
///
/// ```
/// let sentence = "`every = 64` on these marks limits this: a*b";
/// assert_eq!(perfmark::text::sentence_in_markdown(sentence), "`every = 64` on these marks limits this: a\\*b");
/// ```
#[must_use]
pub fn sentence_in_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, (code, after))) =
        rest.split_once('`').and_then(|(before, after)| Some((before, after.split_once('`')?)))
    {
        out.push_str(&escape_markdown(before));
        out.extend(if code.is_empty() { ["\\`", "", "\\`"] } else { ["`", code, "`"] });
        rest = after;
    }
    out.push_str(&escape_markdown(rest));
    out
}

/// A share of samples with its standard error in percentage points: `31 % ± 2`, with a decimal if the error is below 1.
///
/// ```
/// assert_eq!(perfmark::text::share_of_samples(30, 100), "30 % ± 5");
/// assert_eq!(perfmark::text::share_of_samples(3_000, 10_000), "30.0 % ± 0.5");
/// ```
#[must_use]
pub fn share_of_samples(part: u64, all: u64) -> String {
    let [share, error] = share_and_error(part, all).map(|value| value * 100.0);
    if error < 0.95 { format!("{share:.1} % ± {error:.1}") } else { format!("{share:.0} % ± {error:.0}") }
}

/// A share of samples and its standard error, both between 0 and 1. The error counts one more sample inside and one
/// outside (Agresti and Coull), so that a share of few samples is not certain, even if it is all or none of them.
#[must_use]
pub fn share_and_error(part: u64, all: u64) -> [f64; 2] {
    let (part, all) = (part as f64, (all as f64).max(1.0));
    let near = (part + 1.0) / (all + 2.0);
    [part / all, (near * (1.0 - near) / (all + 2.0)).max(0.0).sqrt()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!(exact(0), "0");
        assert_eq!(exact(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(
            ["-123456.7891", "+100", "-100", "0.25", "1000.", "", "-", "NaN", "-inf"].map(grouped),
            ["-123,456.7891", "+100", "-100", "0.25", "1,000.", "", "-", "NaN", "-inf"]
        );
    }

    #[test]
    fn only_invisible_characters_are_replaced() {
        assert_eq!(sanitize("\u{1b}[31mred\u{7}\r\n"), "\u{fffd}[31mred\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(
            sanitize("\u{202e}gnp.exe\u{2069} a\u{200b}b\u{feff}"),
            "\u{fffd}gnp.exe\u{fffd} a\u{fffd}b\u{fffd}"
        );
        let seen = "Größe e\u{301} 解析器 ❤\u{fe0f} <T>";
        assert_eq!(sanitize(seen), seen);
    }

    #[test]
    fn no_character_is_markup() {
        assert_eq!(escape_markdown("<0.1 % ~12 a|b _c_"), "&lt;0.1 % \\~12 a\\|b \\_c\\_");
        assert_eq!(
            escape_markdown("@octocat $x^2$ #1 [a](b) `c` & \\"),
            "&#64;<!-- -->octocat \\$x^2\\$ \\#1 \\[a\\](b) \\`c\\` &amp; \\\\"
        );
    }

    #[test]
    fn no_address_is_a_link() {
        assert_eq!(escape_markdown("www.example.com"), "www<!-- -->.example.com");
        assert_eq!(escape_markdown("https://example.com"), "https<!-- -->://example.com");
        assert_eq!(escape_markdown("a@b.com"), "a&#64;<!-- -->b.com");
        assert_eq!(escape_markdown("std::fmt::write, 1.5 µs, src/main.rs:7"), "std::fmt::write, 1.5 µs, src/main.rs:7");
    }

    #[test]
    fn no_share_of_samples_is_certain() {
        assert_eq!(share_of_samples(20, 20), "100 % ± 4");
        assert_eq!(share_of_samples(0, 0), "0 % ± 27");
        assert_eq!(share_of_samples(u64::MAX, u64::MAX), "100.0 % ± 0.0");
    }
}
