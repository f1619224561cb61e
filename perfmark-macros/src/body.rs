//! A function's body, split into its inner attributes and its statements. Not by syn's tree: see `function`.

use proc_macro2::{TokenStream, TokenTree};

use crate::tokens::is_punct;

/// Splits off the inner attributes (`#![allow(…)]`), which precede all statements.
pub(crate) fn split_inner_attributes(body: TokenStream) -> (TokenStream, Vec<TokenTree>) {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    let mut inner = 0;
    while is_punct(tokens.get(inner), '#') && is_punct(tokens.get(inner + 1), '!') {
        inner += 3;
    }
    let inner = inner.min(tokens.len());
    (tokens[..inner].iter().cloned().collect(), tokens[inner..].to_vec())
}
