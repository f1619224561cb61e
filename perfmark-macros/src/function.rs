//! The marked function, parsed only as far as needed: its name, whether it is async, and its body.
//!
//! A function's body is the last group of its tokens. The tokens before it (generics, patterns, types) are not parsed.
//!
//! This crate does not use syn's syntax tree (its feature `full`), which accepts only complete items. While a user
//! types, an editor expands the attribute on bodies, signatures and containers that are not complete. Their tokens and
//! the marks of the other functions must stay, so that the editor can complete the code (`tests/incomplete.rs`). With
//! the tree, syn and this crate also take 5.8 s of CPU time to build instead of 3.1 s, and `cargo check` of 1,000 marks
//! takes 1.09 times as much (`benches/records/syn-full.md`).

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::Error;

use crate::tokens::{braces, is_naked};

pub(crate) struct Function {
    pub(crate) name: Ident,
    pub(crate) is_async: bool,
    /// Everything before the body.
    pub(crate) head: TokenStream,
    pub(crate) body: Group,
}

impl Function {
    pub(crate) fn parse(
        name: Ident,
        is_async: bool,
        attributes: &[TokenTree],
        item: &TokenStream,
    ) -> syn::Result<Self> {
        if let Some(naked) = attributes.iter().find(|attribute| is_naked(attribute)) {
            let why = "a naked function cannot be marked: its body is assembly and nothing else";
            return Err(Error::new(naked.span(), why));
        }
        let mut tokens: Vec<TokenTree> = item.clone().into_iter().collect();
        match tokens.pop().as_ref().and_then(braces) {
            Some(body) => Ok(Self { name, is_async, head: tokens.into_iter().collect(), body }),
            None => Err(Error::new(
                name.span(),
                "a function without a body cannot be marked: put `#[perfmark]` on its implementations",
            )),
        }
    }
}
