//! The items (`use`, `fn`, …) with which a body begins. The mark's statements go behind them: before them, lints would
//! find items behind a statement, and an `allow` for those is an error where a crate forbids them.
//!
//! What is not surely an item is a statement, and measured.

use proc_macro2::{Delimiter, TokenTree};

use crate::tokens::{is, is_group, is_word};

/// How many of the tokens they are.
pub(crate) fn leading(tokens: &[TokenTree]) -> usize {
    let mut end = 0;
    while let Some(length) = first(&tokens[end..]) {
        end += length;
    }
    end
}

/// How many tokens the first item has, if there is one.
fn first(tokens: &[TokenTree]) -> Option<usize> {
    let mut at = 0;
    while is(tokens.get(at), '#') {
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
        token if is_word(Some(token), &["macro_rules"]) && is(tokens.get(at + 1), '!') => {
            is_group(tokens.get(at + 3), Delimiter::Brace)
        }
        _ => return None,
    };
    let end = (at..tokens.len()).find(|&end| {
        // Braces in types (`Array<{ N }>`) are followed by signs.
        let is_inside = is(tokens.get(end + 1), '>') || is(tokens.get(end + 1), ',');
        is(tokens.get(end), ';') || (ends_with_braces && is_group(tokens.get(end), Delimiter::Brace) && !is_inside)
    })?;
    Some(end + 1)
}
