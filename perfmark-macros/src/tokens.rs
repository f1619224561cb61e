//! What a token is.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// A sign, such as `:`.
pub(crate) fn is(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// One of these words.
pub(crate) fn is_word(token: Option<&TokenTree>, words: &[&str]) -> bool {
    matches!(token, Some(TokenTree::Ident(word)) if words.iter().any(|known| word == known))
}

pub(crate) fn is_group(token: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

/// A group with other tokens in it.
pub(crate) fn refilled(group: &Group, tokens: TokenStream) -> Group {
    let mut refilled = Group::new(group.delimiter(), tokens);
    refilled.set_span(group.span());
    refilled
}
