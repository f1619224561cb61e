//! Signs in a report's texts that would do more than be seen: replaced, or escaped.
//!
//! Sees nothing else, as the command line has it, too.

/// The text on one line, as it is seen: what would move the cursor, turn the order of signs around or hide is replaced.
pub(crate) fn clean(text: &str) -> String {
    text.replace(is_unseen, "\u{fffd}")
}

/// Control characters, the ends of lines that are none, and those for the format (Unicode's Cf) that take no column.
fn is_unseen(sign: char) -> bool {
    sign.is_control()
        || matches!(
            sign,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// As text in Markdown as GitHub has it, whatever is in it.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // Nobody is to be called by it.
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
    fn what_is_not_seen_is_replaced_and_nothing_else() {
        assert_eq!(clean("\u{1b}[31mred\u{7}\r\n"), "\u{fffd}[31mred\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(clean("\u{202e}gnp.exe\u{2069} a\u{200b}b\u{feff}"), "\u{fffd}gnp.exe\u{fffd} a\u{fffd}b\u{fffd}");
        let seen = "Größe e\u{301} 解析器 ❤\u{fe0f} <T>";
        assert_eq!(clean(seen), seen);
    }

    #[test]
    fn no_sign_is_markup() {
        assert_eq!(markdown("<0.1 % ~12 a|b _c_"), "&lt;0.1 % \\~12 a\\|b \\_c\\_");
        assert_eq!(
            markdown("@octocat $x^2$ #1 [a](b) `c` & \\"),
            "&#64;octocat \\$x^2\\$ \\#1 \\[a\\](b) \\`c\\` &amp; \\\\"
        );
    }
}
