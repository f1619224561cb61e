//! A function's body, split into its inner attributes and its statements.

use proc_macro2::{TokenStream, TokenTree};

use crate::tokens::is;

/// Inner attributes (`#![allow(…)]`) stand before any statement.
pub(crate) fn split(body: TokenStream) -> (TokenStream, Vec<TokenTree>) {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    let mut inner = 0;
    while is(tokens.get(inner), '#') && is(tokens.get(inner + 1), '!') {
        inner += 3;
    }
    let inner = inner.min(tokens.len());
    (tokens[..inner].iter().cloned().collect(), tokens[inner..].to_vec())
}
