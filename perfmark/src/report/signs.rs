//! Characters in a report's texts that would have an effect on a terminal or as markup: replaced or escaped.
//!
//! It uses nothing else of the crate, because the command line includes it, too.

/// The text on one line. Characters that are invisible, move the cursor or change the direction of the text are
/// replaced.
pub(crate) fn clean(text: &str) -> String {
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

/// Escapes any text for GitHub's Markdown.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // It would notify a user.
            '@' => out.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' => out.extend(['\\', sign]),
            _ => out.push(sign),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_invisible_characters_are_replaced() {
        assert_eq!(clean("\u{1b}[31mred\u{7}\r\n"), "\u{fffd}[31mred\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(clean("\u{202e}gnp.exe\u{2069} a\u{200b}b\u{feff}"), "\u{fffd}gnp.exe\u{fffd} a\u{fffd}b\u{fffd}");
        let seen = "Größe e\u{301} 解析器 ❤\u{fe0f} <T>";
        assert_eq!(clean(seen), seen);
    }

    #[test]
    fn no_character_is_markup() {
        assert_eq!(markdown("<0.1 % ~12 a|b _c_"), "&lt;0.1 % \\~12 a\\|b \\_c\\_");
        assert_eq!(
            markdown("@octocat $x^2$ #1 [a](b) `c` & \\"),
            "&#64;octocat \\$x^2\\$ \\#1 \\[a\\](b) \\`c\\` &amp; \\\\"
        );
    }
}
