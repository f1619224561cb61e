//! The marked function, parsed only as far as needed: its name, whether it is async, and its body.
//!
//! A function's body is the last group of its tokens. The tokens before it (generics, patterns, types) are not parsed.
//!
//! This crate does not use syn's syntax tree (its feature `full`), which accepts only complete items. While a user
//! types, an editor expands the attribute on bodies, signatures and containers that are not complete. Their tokens and
//! the marks of the other functions must stay, so that the editor can complete the code (`tests/incomplete.rs`). With
//! the tree, syn and this crate also take 5.8 s of CPU time to build instead of 3.1 s, and `cargo check` of 1,000 marks
//! takes 1.09 times as much (`benches/records/2026-11-23.md`).

use std::slice;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
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
    pub(crate) fn parse(item: TokenStream) -> syn::Result<Self> {
        let mut tokens: Vec<TokenTree> = item.into_iter().collect();
        let (name, is_async) = Self::name(&tokens)?;
        match tokens.pop().as_ref().and_then(braces) {
            Some(body) => Ok(Self { name, is_async, head: tokens.into_iter().collect(), body }),
            None => Err(Error::new(
                name.span(),
                "a function without a body cannot be marked: put `#[perfmark]` on its implementations",
            )),
        }
    }

    /// The name after `fn`, and whether `async` is among the qualifiers before it.
    fn name(tokens: &[TokenTree]) -> syn::Result<(Ident, bool)> {
        let (mut rest, mut is_async) = (tokens.iter(), false);
        while let Some(token) = rest.next() {
            let TokenTree::Ident(word) = token else {
                match token {
                    // `#[attribute]`, the name of an ABI, or a `macro_rules` fragment (`$vis`), which is in a group
                    // without delimiters.
                    TokenTree::Punct(hash) if hash.as_char() == '#' => {
                        if let Some(attribute) = rest.next().filter(|attribute| is_naked(attribute)) {
                            let why = "a naked function cannot be marked: its body is assembly and nothing else";
                            return Err(Error::new(attribute.span(), why));
                        }
                    }
                    TokenTree::Literal(_) => {}
                    TokenTree::Group(group) if group.delimiter() == Delimiter::None => {}
                    _ => return Err(not_a_function(token.span())),
                }
                continue;
            };
            match word.to_string().as_str() {
                "fn" => match rest.next() {
                    Some(TokenTree::Ident(name)) => return Ok((name.clone(), is_async)),
                    _ => return Err(not_a_function(word.span())),
                },
                "pub" => {
                    // `pub(crate)`
                    let mut ahead = rest.clone();
                    if matches!(ahead.next(), Some(TokenTree::Group(_))) {
                        rest = ahead;
                    }
                }
                "unsafe" | "safe" | "extern" | "default" => {}
                "const" if is_function(&rest) => {
                    let why = "a `const fn` cannot be marked: it may run at compile time, where there are no counters";
                    return Err(Error::new(word.span(), why));
                }
                "async" => is_async = true,
                _ => return Err(not_a_function(word.span())),
            }
        }
        Err(not_a_function(Span::call_site()))
    }
}

/// Whether this `const` belongs to a `const fn`, not to a constant.
fn is_function(rest: &slice::Iter<'_, TokenTree>) -> bool {
    rest.clone()
        .take_while(|token| matches!(token, TokenTree::Ident(_) | TokenTree::Literal(_)))
        .any(|token| matches!(token, TokenTree::Ident(word) if word == "fn"))
}

fn not_a_function(span: Span) -> Error {
    let why = "`#[perfmark]` applies to a function or method with a body, an `impl`, a `trait` or an inline `mod`";
    Error::new(span, why)
}
