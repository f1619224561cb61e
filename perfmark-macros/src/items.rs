//! The items (`use`, `fn`, …) at the start of a body. The mark's statements follow them. If they came first, a lint
//! would report items after a statement, and an `allow` for it is an error in a crate that forbids the lint.
//!
//! Tokens that are not certainly an item count as a statement and are measured.

use proc_macro2::{Delimiter, TokenTree};

use crate::tokens::{is_group, is_punct, is_word};

/// The number of tokens in these items.
pub(crate) fn leading(tokens: &[TokenTree]) -> usize {
    let mut end = 0;
    while let Some(length) = first(&tokens[end..]) {
        end += length;
    }
    end
}

/// The number of tokens in the first item, if the tokens start with one.
fn first(tokens: &[TokenTree]) -> Option<usize> {
    let mut at = 0;
    while is_punct(tokens.get(at), '#') {
        at += 2;
    }
    if is_word(tokens.get(at), &["pub"]) {
        at += 1 + usize::from(is_group(tokens.get(at + 1), Delimiter::Parenthesis));
    }
    let qualifiers = at;
    while is_word(tokens.get(at), &["const", "unsafe", "async", "extern"])
        || (at > qualifiers && matches!(tokens.get(at), Some(TokenTree::Literal(_))))
    {
        at += 1;
    }
    let ends_with_braces = match tokens.get(at)? {
        token if is_word(Some(token), &["fn", "struct", "enum", "mod", "trait", "impl"]) => true,
        token if is_word(Some(token), &["use", "type", "static"]) => false,
        // `const NAME: …`, `extern crate …`
        TokenTree::Ident(_) if at == qualifiers + 1 && !is_word(tokens.get(qualifiers), &["unsafe", "async"]) => false,
        // `extern "C" { … }`
        token if tokens[qualifiers..at].iter().any(|word| is_word(Some(word), &["extern"])) => {
            is_group(Some(token), Delimiter::Brace)
        }
        token if is_word(Some(token), &["macro_rules"]) && is_punct(tokens.get(at + 1), '!') => {
            is_group(tokens.get(at + 3), Delimiter::Brace)
        }
        _ => return None,
    };
    let end = (at..tokens.len()).find(|&end| {
        // Punctuation follows braces in types (`Array<{ N }>`).
        let is_inside = is_punct(tokens.get(end + 1), '>') || is_punct(tokens.get(end + 1), ',');
        is_punct(tokens.get(end), ';')
            || (ends_with_braces && is_group(tokens.get(end), Delimiter::Brace) && !is_inside)
    })?;
    Some(end + 1)
}
